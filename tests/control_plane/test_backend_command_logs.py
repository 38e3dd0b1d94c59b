"""Foreign logs while they grow: whole records once, in order, whatever the writer does to its file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from control_plane.backends.command_checkpoints import CheckpointWatch
from control_plane.backends.command_logs import MetricsLog
from control_plane.backends.command_spec import CheckpointSection, LogSection


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


def opened(output: Path, *, start_step: int = 0, **fields: Any) -> MetricsLog:
    return MetricsLog(LogSection(**fields), output.parent, start_step=start_step)


def taken(log: MetricsLog) -> list[tuple[int, dict[str, float]]]:
    return [(row.step, dict(row.values)) for row in log.rows()]


def test_json_lines_are_taken_once_and_torn_ones_later(output: Path) -> None:
    log = opened(output, file="log.jsonl", format="jsonl")
    assert taken(log) == []
    path = output / "log.jsonl"
    path.write_text('{"step": 1, "loss": 2.0, "note": "x", "ok": true}\nnoise\n{"epoch": 1}\n{"step": 2, "lo')
    assert taken(log) == [(1, {"loss": 2.0})]
    with path.open("a") as file:
        file.write('ss": NaN, "deep": {"lr": "1e-3"}}\n')
    ((step, values),) = taken(log)
    assert (step, values["deep.lr"]) == (2, 0.001)
    assert math.isnan(values["loss"])
    assert log.unread == 1
    path.write_text('{"step": 3, "loss": 1.0}\n')  # begun anew
    assert taken(log) == [(3, {"loss": 1.0})]


def test_names_are_translated_left_out_and_counted_from_one(output: Path) -> None:
    log = opened(
        output,
        file="log.jsonl",
        format="jsonl",
        step="iter",
        step_offset=1,
        rename={r"blocks\.(\d+)\.norm": r"weight_norm/layers.\1.attn", "train/loss": "loss"},
        ignore=("*_time",),
        start_step=1,
    )
    lines = [{"iter": i, "train/loss": 1.0, "blocks.3.norm": 2.0, "iter_time": 0.1, "lr": 0.5} for i in range(2)]
    (output / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert taken(log) == [(2, {"loss": 1.0, "weight_norm/layers.3.attn": 2.0, "lr": 0.5})]


def test_text_lines_are_matched_wherever_the_pattern_stands(output: Path) -> None:
    log = opened(
        output, file="stdout", format="regex", pattern=r"iter (?P<step>\d+).*loss (?P<loss>\S+), lr (?P<lr>\S+)"
    )
    (output.parent / "stdout.txt").write_text("hello\n[12:00] iter 7 | loss 3.25, lr 1e-4\niter 8 | loss inf, lr -\n")
    assert taken(log) == [(7, {"loss": 3.25, "lr": 1e-4}), (8, {"loss": math.inf})]


def test_a_table_that_gets_wider_is_not_read_twice(output: Path) -> None:
    """As Lightning's CSVLogger does: a metric that appears late makes it write the whole file again."""
    log = opened(output, file="logs/*/metrics.csv", format="csv")
    (output / "logs" / "version_0").mkdir(parents=True)
    path = output / "logs" / "version_0" / "metrics.csv"
    path.write_text("loss,step\n2.0,1\n1.5,2\n1.2")
    assert taken(log) == [(1, {"loss": 2.0}), (2, {"loss": 1.5})]
    path.write_text("loss,step,val_loss\n2.0,1,\n")  # being written
    assert taken(log) == []
    path.write_text("loss,step,val_loss\n2.0,1,\n1.5,2,\n1.25,3,\n,3,1.75\n")
    assert taken(log) == [(3, {"loss": 1.25}), (3, {"val_loss": 1.75})]
    with path.open("a") as file:
        file.write("1.0,4,\n")
    assert taken(log) == [(4, {"loss": 1.0})]


def test_trainer_states_repeat_each_other_and_the_run_they_go_on_from(output: Path) -> None:
    log = opened(output, file="**/trainer_state.json", format="trainer_state", start_step=2)
    history = [{"step": step, "loss": 4.0 - step, "epoch": 0.5} for step in range(1, 7)]

    def write(folder: str, upto: int, text: str = "") -> None:
        (output / folder).mkdir(exist_ok=True)
        (output / folder / "trainer_state.json").write_text(text or json.dumps({"log_history": history[:upto]}))

    write("checkpoint-4", 4, '{"log_his')
    assert taken(log) == []
    write("checkpoint-4", 4)
    assert [step for step, _ in taken(log)] == [3, 4]
    write("checkpoint-6", 6)
    write(".", 6)
    assert taken(log) == [(5, {"loss": -1.0, "epoch": 0.5}), (6, {"loss": -2.0, "epoch": 0.5})]
    assert taken(log) == []


def test_a_checkpoint_counts_when_the_training_has_gone_on(output: Path, tmp_path: Path) -> None:
    section = CheckpointSection(glob="step-*", step=r"step-(\d+)")
    watch = CheckpointWatch(section, output, tmp_path / "kept")
    (output / "step-10").mkdir()
    (output / "step-10" / "weights").write_bytes(b"half")
    assert watch.look(logged=11) == []  # seen for the first time
    (output / "step-10" / "weights").write_bytes(b"half and half")
    assert watch.look(logged=11) == []  # it changed
    assert watch.look(logged=10) == []  # the training may be writing it just now
    (found,) = watch.look(logged=11)
    assert (found.step, found.size_bytes, Path(found.path).name) == (10, 13, "step-000010")
    assert watch.look(logged=11) == []
    (output / "step-20").mkdir()
    (output / "step-20" / "weights").write_bytes(b"last")
    assert [each.step for each in watch.look(logged=20, ended_well=True)] == [20]


def test_equal_checkpoints_have_equal_hashes_wherever_they_lie(output: Path, tmp_path: Path) -> None:
    section = CheckpointSection(glob="*/model.bin", step=r"step-(\d+)")
    hashes = set()
    for name in ("a", "b"):
        (output / f"{name}-step-5").mkdir()
        (output / f"{name}-step-5" / "model.bin").write_bytes(b"weights")
        watch = CheckpointWatch(section, output, tmp_path / name)
        hashes |= {found.sha256 for found in watch.look(logged=5, ended_well=True)}
    assert len(hashes) == 1
