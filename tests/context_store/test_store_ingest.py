"""The shipper: exactly once, whatever is killed, torn or damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from training_log import Training, append, counts, make_run, started, steps

from context_store import Store
from contracts.enums import RunState, TimelineKind
from contracts.errors import LogFormatError, NotFound
from contracts.events import CheckpointSaved, CodeExecuted, DataRead, Effective, Finished, Metrics

SHIPPER = """
import sys
from pathlib import Path
from context_store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
while True:
    store.ingest.ship("run-1", Path(sys.argv[2]))
"""


def test_a_whole_segment_arrives(training: Training) -> None:
    training.log(
        Effective(step=1, values={"optim.router.lr": 0.01, "param_group.router.weight": "router"}),
        *steps(1, 3),
        DataRead(step=1, sample_hash="a", position=8),
        DataRead(step=2, sample_hash="b", position=16),
        CodeExecuted(step=2, modules={"recipe.py": "ab" * 32}, lines={"recipe.py": [3, 1, 2]}),
        CheckpointSaved(step=2, path="/c/2", sha256="ff", size_bytes=5),
        Effective(step=3, values={"optim.router.lr": 0.02}),
        Finished(step=3, reason="completed"),
    )
    assert training.ship() == 11
    runs = training.store.runs
    run, (segment,) = runs.get("run-1"), runs.segments("run-1")
    assert (run.state, run.last_step) == (RunState.COMPLETED, 3)
    assert (segment.start_step, segment.last_step, segment.code_version) == (0, 3, "c0ffee")
    assert (segment.end_reason, segment.dp_size, segment.environment) == ("completed", 2, {"python": "3.11"})
    assert runs.declared("run-1", 0) == {"optim.router.lr": 0.01, "moe.balance.coef": 0.01}
    assert runs.effective("run-1", 0, step=2)["optim.router.lr"] == 0.01
    assert runs.effective("run-1", 0) == {"optim.router.lr": 0.02, "param_group.router.weight": "router"}
    assert runs.executed("run-1", 0).lines == {"recipe.py": (1, 2, 3)}
    reads = runs.data_reads("run-1")
    assert (reads.steps.tolist(), reads.hashes, reads.positions.tolist()) == ([1, 2], ("a", "b"), [8, 16])
    assert runs.checkpoint_at_or_before("run-1", 1) is None
    saved = runs.checkpoint_at_or_before("run-1", 9)
    assert saved is not None
    assert (saved.step, saved.path) == (2, "/c/2")
    (change,) = training.store.timeline.list("run-1", kinds=[TimelineKind.CONFIG])
    assert (change.step, change.detail["before"], change.detail["after"]) == (3, 0.01, 0.02)


def test_shipping_twice_loads_nothing_twice(training: Training) -> None:
    training.log(*steps(1, 5))
    assert training.ship() == 6
    assert training.ship() == 0
    training.log(*steps(6, 7))
    assert training.ship() == 2
    assert training.store.series.read("run-1", "loss").values.tolist() == [float(i) for i in range(1, 8)]


def test_a_torn_tail_waits_for_its_rest(training: Training) -> None:
    log = training.log(*steps(1, 2))
    whole = log.read_bytes()
    log.write_bytes(whole[:-7])
    assert training.ship() == 2
    log.write_bytes(whole)
    assert training.ship() == 1
    assert training.store.series.read("run-1", "loss").steps.tolist() == [1, 2]


def test_damage_is_reported_with_its_position_and_what_is_sound_is_kept(training: Training) -> None:
    log = training.log(*steps(1, 3))
    position = log.stat().st_size
    training.log(*steps(4, 6))
    damaged = bytearray(log.read_bytes())
    damaged[position + 20] ^= 1
    log.write_bytes(damaged)
    training.log(started(segment=1, start_step=2), *steps(3, 4), segment=1)
    for _ in range(2):
        with pytest.raises(LogFormatError, match=f"events.log at byte {position}") as caught:
            training.ship()
        assert caught.value.remedy
    full = training.store.series.read("run-1", "loss", view="full")
    assert full.steps[full.segments == 0].tolist() == [1, 2, 3]
    assert full.steps[full.segments == 1].tolist() == [3, 4], "another segment is not held up"


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (started(run_id="run-2"), "belongs to segment 0 of run run-2"),
        (Metrics(step=1, values={"loss": 1.0}), "does not begin with segment_started"),
        (Metrics(step=1, values={"loss": "high"}), "a value that is no number"),  # type: ignore[dict-item]
        (Metrics(step="1", values={"loss": 1.0}), "no whole number"),  # type: ignore[arg-type]
        (Metrics(step=1, values={"lo\0ss": 1.0}), "NUL"),
        (Metrics(step=1, values={"x" * 501: 1.0}), "500 characters"),
    ],
)
def test_a_log_of_something_else_is_refused(store: Store, tmp_path: Path, first: Metrics, problem: str) -> None:
    make_run(store)
    append(tmp_path, 0, first)
    with pytest.raises(LogFormatError, match=problem):
        store.ingest.ship("run-1", tmp_path)


def test_an_unknown_run_is_refused_and_a_missing_folder_is_no_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.ingest.ship("run-1", tmp_path)
    make_run(store)
    assert store.ingest.ship("run-1", tmp_path / "not there yet") == 0


def test_a_log_replaced_by_a_shorter_one_is_read_from_its_start(training: Training) -> None:
    log = training.log(*steps(1, 50))
    training.ship()
    log.unlink()
    training.log(started(), *steps(1, 5))
    assert training.ship() == 6
    assert training.store.series.read("run-1", "loss").steps.tolist() == list(range(1, 51))


def test_a_segment_that_goes_on_after_a_crash_is_the_same_segment(training: Training) -> None:
    training.log(*steps(1, 7), Finished(step=7, reason="failed", message="killed", remedy="start it again"))
    training.ship()
    assert training.store.runs.get("run-1").state is RunState.FAILED
    training.log(started(start_step=5), *steps(6, 9))
    training.ship()
    (segment,) = training.store.runs.segments("run-1")
    assert (segment.start_step, segment.last_step, segment.end_reason) == (0, 9, "")
    assert training.store.runs.get("run-1").state is RunState.RUNNING
    assert training.store.series.read("run-1", "loss", view="full").steps.tolist() == list(range(1, 10))


def test_a_shipper_killed_at_any_moment_loses_and_doubles_nothing(training: Training) -> None:
    """A training writes all the time while shippers are killed one after the other."""
    names = [f"grad_norm/layers.{i}.attn" for i in range(40)]
    num_steps, done = 1500, threading.Event()

    def train() -> None:
        for step in range(1, num_steps + 1):
            training.log(Metrics(step=step, values={name: step + i / 100 for i, name in enumerate(names)}))
        done.set()

    writer = threading.Thread(target=train)
    command = [sys.executable, "-c", SHIPPER, training.store.url, str(training.folder)]
    for attempt in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shipper:
            assert shipper.stdout is not None
            assert shipper.stdout.readline() == "ready\n"
            if attempt == 0:
                writer.start()
            time.sleep(0.1 + 0.13 * attempt)
            os.kill(shipper.pid, signal.SIGKILL)
    writer.join()
    training.ship()
    matrix = training.store.series.matrix("run-1", names)
    assert matrix.steps.tolist() == list(range(1, num_steps + 1))
    assert matrix.present.all()
    assert (matrix.values == matrix.steps + [[i / 100] for i in range(40)]).all()
    assert sum(counts(training.store)) == num_steps * 40


def test_concurrent_shippers_seals_and_reads_agree(training: Training) -> None:
    training.log(*steps(1, 400))
    training.ship()
    training.store.series.seal("run-1")
    training.log(*steps(401, 460))
    failures: list[BaseException] = []

    def again(action: object) -> None:
        try:
            for _ in range(8):
                assert callable(action)
                action()
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        seen = training.store.series.read("run-1", "loss")
        assert seen.values.tolist() == [float(i) for i in range(1, len(seen.steps) + 1)]

    actions = [training.ship, training.ship, lambda: training.store.series.seal("run-1"), read, read]
    threads = [threading.Thread(target=again, args=[action]) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(training.store.series.read("run-1", "loss").steps) == 460


def test_secrets_do_not_reach_the_store(training: Training) -> None:
    key = "sk-" + "a1" * 20
    training.log(
        started(
            config={"logging.api_key": "plain words", "data.path": f"s3://x?key={key}", "tokenizer.pad_token": "<pad>"},
            environment={"user": "jane.doe@example.org"},
        ),
        Finished(step=0, reason="failed", message=f"401 for {key}, ask jane.doe@example.org"),
    )
    training.ship()
    declared = training.store.runs.declared("run-1", 0)
    assert declared == {
        "logging.api_key": "[redacted field]",
        "data.path": "s3://x?key=[redacted key]",
        "tokenizer.pad_token": "<pad>",
    }
    (segment,) = training.store.runs.segments("run-1")
    assert segment.message == "401 for [redacted key], ask [redacted email]"
    assert segment.environment == {"user": "[redacted email]"}
