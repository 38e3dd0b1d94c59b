"""The segment's log: whole lines, nothing acknowledged is lost, non-finite values survive."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from small_training import CLOCK, Trainings, read_log, small_config

from contracts.errors import LogFormatError
from contracts.events import CheckpointSaved, DataRead, Effective, Finished, Metrics, SegmentStarted, read_events
from trainer.runlog import RunLog


def test_non_finite_values_survive(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(Metrics(step=1, values={"loss": math.nan, "a": math.inf, "b": -math.inf, "c": 1e-310, "d": 0.1}))
    log.close()
    (read,) = read_events(tmp_path / "events.log")
    assert isinstance(read.event, Metrics)
    values = read.event.values
    assert math.isnan(values["loss"])
    assert (values["a"], values["b"]) == (math.inf, -math.inf)
    assert struct.pack("dd", values["c"], values["d"]) == struct.pack("dd", 1e-310, 0.1)


def test_torn_tail_is_cut_and_writing_goes_on(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(Metrics(step=1, values={"loss": 1.0}), Metrics(step=2, values={"loss": 2.0}))
    log.close()
    path = tmp_path / "events.log"
    path.write_bytes(path.read_bytes()[:-7])
    log = RunLog(tmp_path)
    assert log.last_step == 1
    log.append(Metrics(step=2, values={"loss": 3.0}))
    log.close()
    assert [read.event for read in read_events(path)] == [
        Metrics(step=1, values={"loss": 1.0}),
        Metrics(step=2, values={"loss": 3.0}),
    ]


def test_damage_in_the_middle_is_reported_with_its_place(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(Metrics(step=1, values={"loss": 1.0}), Metrics(step=2, values={"loss": 2.0}))
    log.close()
    path = tmp_path / "events.log"
    path.write_bytes(path.read_bytes().replace(b"1.0", b"1.5"))
    with pytest.raises(LogFormatError, match=r"events.log at byte 0"):
        RunLog(tmp_path)


def test_events_of_a_segment(trainings: Trainings) -> None:
    """The order of the kinds; what is effective is written when it changes only."""
    trace = trainings.here(small_config(steps=4, moe__balance__until_step=2))
    kinds = [event.kind for event in trace.events]
    assert kinds == [
        "segment_started", "effective", "data_read", "metrics",
        "data_read", "metrics", "code_executed", "checkpoint_saved",
        "effective", "data_read", "metrics",
        "data_read", "metrics", "checkpoint_saved", "finished",
    ]  # fmt: skip
    started = trace.of(SegmentStarted)[0]
    assert started.config == small_config(steps=4, moe__balance__until_step=2).flat()
    assert len(str(started.environment["corpus_sha256"])) == 64
    assert trace.of(Effective)[1] == Effective(step=3, values={"moe.balance.coef": 0.0})
    assert [event.position for event in trace.of(DataRead)] == [8, 16, 24, 32]
    assert trace.finished == Finished(step=4, reason="completed")


def test_lost_tail_is_trained_again_with_equal_values(trainings: Trainings) -> None:
    """A crash after step 5 of 6, with the newest checkpoint damaged too: the segment goes on from the one before."""
    whole = trainings.here(small_config())
    path = trainings.run_folder / "segment-000" / "events.log"
    lines = path.read_bytes().splitlines(keepends=True)
    after_step_5 = next(i for i, event in enumerate(whole.events) if isinstance(event, Metrics) and event.step == 5) + 1
    path.write_bytes(b"".join(lines[:after_step_5]) + lines[after_step_5][:20])
    (trainings.run_folder / "checkpoints" / "step-000004" / "tensors.bin").write_bytes(b"")
    trace = trainings.here(small_config())
    steps = [event.step for event in trace.of(Metrics)]
    assert steps == [1, 2, 3, 4, 5, 3, 4, 5, 6]
    assert trace.metrics == whole.metrics
    assert len(trace.of(SegmentStarted)) == 1
    assert {e.step: e.sha256 for e in trace.of(CheckpointSaved)} == {
        e.step: e.sha256 for e in whole.of(CheckpointSaved)
    }
    assert trace.finished.reason == "completed"


def test_loss_that_is_not_finite_is_recorded(trainings: Trainings, new_trainings) -> None:
    """By policy the training stops and says so, or goes on."""
    exploding = {"optim__head__lr": 1e38, "clip__max_norm": 0.0}
    stopped = trainings.here(small_config(**exploding))
    last = max(stopped.metrics)
    assert not math.isfinite(stopped.metrics[last]["loss"])
    assert (stopped.finished.reason, stopped.finished.step) == ("failed", last)
    assert "numerics.on_nonfinite" in stopped.finished.remedy
    assert all(event.step < last for event in stopped.of(CheckpointSaved))
    regardless = new_trainings().here(small_config(numerics__on_nonfinite="continue", **exploding))
    assert list(regardless.metrics) == [1, 2, 3, 4, 5, 6]
    assert math.isnan(regardless.metrics[6]["lm_loss"])
    assert regardless.finished.reason == "completed"


def test_log_reads_back_by_the_contract(trainings: Trainings) -> None:
    trainings.here(small_config())
    trace = read_log(trainings.run_folder)
    assert [event.step for event in trace.of(Metrics)] == [1, 2, 3, 4, 5, 6]
    assert all(set(CLOCK) <= set(event.values) for event in trace.of(Metrics))
