"""Trainer states: which files are one run, and what their histories hide."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from import_writers import read_all

from contracts.enums import RunState

Rows = list[dict[str, Any]]


def rows(until: int, *, start: int = 10, every: int = 10, slope: float = 0.01) -> Rows:
    return [
        {"epoch": s / 100, "grad_norm": 1.0, "learning_rate": 1e-4, "loss": 5 - slope * s, "step": s}
        for s in range(start, until + 1, every)
    ]


def state(folder: Path, history: Rows, *, max_steps: int = 1000, save_steps: int = 50, **more: Any) -> Path:
    """`folder`: .../checkpoint-N. Written as the Trainer does: NaN and Infinity stand bare."""
    folder.mkdir(parents=True)
    fields = {"global_step": history[-1]["step"], "max_steps": max_steps, "num_train_epochs": 3, "train_batch_size": 8}
    path = folder / "trainer_state.json"
    path.write_text(json.dumps(fields | {"save_steps": save_steps} | more | {"log_history": history}, indent=2))
    return path


def test_checkpoints_of_one_run_are_one_run(tmp_path: Path) -> None:
    for step in (50, 100, 150):
        state(tmp_path / "out" / f"checkpoint-{step}", rows(step))
    (run,) = read_all(tmp_path).runs
    (part,) = run.parts
    assert sorted(part.series("loss")) == list(range(10, 151, 10))
    assert all(len(values) == 1 for values in part.points.values())
    assert part.found.config["max_steps"] == 1000
    assert part.found.started_at == 0.0
    assert part.ended is not None
    assert part.ended.state == RunState.STOPPED
    assert "150 of 1000" in part.ended.message


def test_a_checkpoint_of_another_run_in_the_same_folder_is_not_joined(tmp_path: Path) -> None:
    state(tmp_path / "out" / "checkpoint-50", rows(50))
    state(tmp_path / "out" / "checkpoint-100", rows(100))
    state(tmp_path / "out" / "checkpoint-3500", rows(3500, slope=0.001), max_steps=176_637)
    runs = read_all(tmp_path).runs
    assert sorted(max(run.parts[0].series("loss")) for run in runs) == [100, 3500]
    assert len({run.found.key for run in runs}) == 2


def test_a_history_that_leaves_the_other_halfway_is_a_restart_in_the_same_folder(tmp_path: Path) -> None:
    state(tmp_path / "out" / "checkpoint-100", rows(100))
    state(tmp_path / "out" / "checkpoint-150", rows(50) + rows(150, start=60, slope=0.02))
    (run,) = read_all(tmp_path).runs
    assert [part.found.start_step for part in run.parts] == [0, 50]
    assert sorted(run.parts[0].series("loss")) == list(range(10, 101, 10))
    assert sorted(run.parts[1].series("loss")) == list(range(60, 151, 10))
    assert run.parts[1].found.start_checkpoint == "checkpoint-50"


def test_in_another_folder_it_is_a_fork_or_a_rerun(tmp_path: Path) -> None:
    state(tmp_path / "a" / "checkpoint-100", rows(100))
    state(tmp_path / "b" / "checkpoint-150", rows(50) + rows(150, start=60, slope=0.02))  # leaves at a checkpoint
    state(tmp_path / "c" / "checkpoint-100", rows(20) + rows(100, start=30, slope=0.011))  # noise from step 30 on
    by_name = {run.found.name: run for run in read_all(tmp_path).runs}
    assert by_name["b"].found.parent == ("a", by_name["a"].found.key)
    assert by_name["b"].found.parent_step == 50
    assert sorted(by_name["b"].parts[0].series("loss")) == list(range(60, 151, 10))
    assert by_name["c"].found.parent is None
    assert len(by_name["c"].parts[0].series("loss")) == 10
    assert any("re-run" in fact.title for fact in by_name["c"].facts)


def test_several_evaluations_at_one_step_are_no_duplicates(tmp_path: Path) -> None:
    history = [{"epoch": 0, f"eval_g{g}_loss": 5.0 + g, f"eval_g{g}_runtime": 1.0, "step": 0} for g in range(6)]
    history += [*rows(10), {"eval_loss": 4.0, "step": 10}, {"train_loss": 4.5, "train_runtime": 9.0, "step": 10}]
    path = tmp_path / "multi.trainer_state.json"
    path.write_text(json.dumps({"global_step": 10, "log_history": history}))
    (run,) = read_all(path).runs
    part = run.parts[0]
    assert run.found.name == "multi"
    assert part.series("eval_g3_loss") == {0: 8.0}
    assert run.found.names["eval_g3_loss"] == "eval_loss/g3"
    assert part.series("loss") == {10: 4.9}
    assert run.found.names["train_loss"] == "train_loss"  # a mean over the whole training, not a loss of step 10
    assert part.ended is not None
    assert part.ended.state == RunState.COMPLETED


def test_nan_infinity_and_a_zero_that_hides_a_nan(tmp_path: Path) -> None:
    history = rows(20)
    history[0]["grad_norm"], history[0]["loss"] = float("nan"), 0.0
    history[1]["grad_norm"] = float("inf")
    (run,) = read_all(state(tmp_path / "o" / "checkpoint-20", history)).runs
    part = run.parts[0]
    assert part.series("loss")[10] == 0.0
    assert math.isnan(part.series("grad_norm")[10])
    assert part.series("grad_norm")[20] == math.inf
    (fact,) = run.facts
    assert fact.step == 10
    assert "hides a NaN" in fact.title


def test_a_damaged_file_gives_the_rows_before_the_damage(tmp_path: Path) -> None:
    path = state(tmp_path / "o" / "checkpoint-100", rows(100))
    text = path.read_text()
    path.write_text(text[: text.index('"step": 70')])
    content = read_all(path)
    assert sorted(content.runs[0].parts[0].series("loss")) == [10, 20, 30, 40, 50, 60]
    (problem,) = content.problems
    assert problem.file == str(path)
    assert problem.position.startswith("line ")
    path.write_text('{"log_history": 7}')
    assert read_all(path).problems
