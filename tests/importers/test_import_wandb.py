"""W&B offline folders, written byte by byte: frames, segments, x axes, configuration and commits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from import_writers import (
    message,
    read_all,
    text,
    wandb_exit,
    wandb_folder,
    wandb_history,
    wandb_item,
    wandb_log,
    wandb_run,
)

from context_store.importers import discover
from contracts.enums import RunState
from contracts.errors import EnvironmentFault

RUN = wandb_run("abc123", "proj", "my run", {"lr": 0.1, "seed": 5, "model": {"width": 64}})


def rows(steps: range, first: int = 0, **more: object) -> list[bytes]:
    return [
        wandb_history({"_step": n, "_timestamp": 1.7e9 + s, "train/loss": 5 - s / 100, "train/global_step": s} | more)
        for n, s in enumerate(steps, first)
    ]


def test_one_run_in_two_folders_is_joined_on_the_training_step(tmp_path: Path) -> None:
    first = wandb_folder(tmp_path, "20260101_000000", "abc123", [RUN, *rows(range(0, 351, 10))])
    first.write_bytes(first.read_bytes()[:-9])  # killed
    resumed = wandb_run("abc123", "proj", "my run", {"lr": 0.1}, start=1_700_003_600)
    wandb_folder(tmp_path, "20260101_010000", "abc123", [resumed, *rows(range(300, 601, 10)), wandb_exit(0)])
    content = read_all(tmp_path)
    (run,) = content.runs
    assert run.found.project == "proj"
    assert run.found.name == "my run"
    assert [part.found.start_step for part in run.parts] == [0, 299]
    assert sorted(run.parts[0].series("train/loss")) == list(range(0, 350, 10))  # the torn last row is lost
    assert run.parts[1].series("train/loss")[300] == 2.0
    assert run.parts[1].series("_step")[300] == 0.0  # kept, but no axis: it began again
    assert run.parts[0].found.config == {"lr": 0.1, "seed": 5, "model.width": 64}
    assert [part.ended.state for part in run.parts if part.ended] == [RunState.STOPPED, RunState.COMPLETED]
    assert "torn" in content.problems[0].what


def test_values_exactly_as_logged(tmp_path: Path) -> None:
    row = {
        "_step": 3,
        "a": math.nan,
        "b": -math.inf,
        "c": 1e-310,
        "d": True,
        "n": {"x": 1.5, "_type": 3},
        "o": {"x": 2},
    }
    row |= {"text": "word", "media": {"_type": "image-file", "size": 9}}
    legacy = message(2, message(1, text(1, "e") + message(16, b"0.1")) + message(2, b"\x08\x04"))
    wandb_folder(tmp_path, "20260101_000000", "r", [wandb_run("r", "p", "n", {}), wandb_history(row), legacy])
    (run,) = read_all(tmp_path).runs
    part = run.parts[0]
    assert math.isnan(part.series("a")[3])
    assert part.series("b") == {3: -math.inf}
    assert part.series("c") == {3: 1e-310}
    assert part.series("d") == {3: 1.0}
    assert part.series("o.x") == {3: 2.0}
    assert part.series("e") == {4: 0.1}
    assert not {"text", "media.size"} & {name for name, _ in part.points}


def test_a_defined_axis_places_its_metrics(tmp_path: Path) -> None:
    metric = message(12, text(1, "eval/acc") + text(4, "eval/step"))
    glob = message(12, text(2, "late/*") + text(4, "eval/step"))
    records = [wandb_history({"_step": s, "loss": 1.0 * s, "global_step": s * 10}) for s in range(1, 6)]
    records.append(wandb_history({"_step": 6, "eval/acc": 0.5, "late/x": 2.0, "eval/step": 20, "global_step": 60}))
    records.append(wandb_history({"_step": 7, "epoch_end": 1.0}))
    wandb_folder(tmp_path, "20260101_000000", "r", [wandb_run("r", "p", "n", {}), metric, glob, *records])
    (run,) = read_all(tmp_path).runs
    part = run.parts[0]
    assert sorted(part.series("loss")) == [10, 20, 30, 40, 50]
    assert part.series("eval/acc") == part.series("late/x") | {20: 0.5} == {20: 0.5}
    assert part.series("epoch_end") == {60: 1.0}
    assert any("no global_step" in fact.title for fact in run.facts)


def test_records_across_blocks_and_a_damaged_block(tmp_path: Path) -> None:
    keys = {f"layer.{i}/value": 0.5 for i in range(2000)}  # about 60 KB a row: three blocks
    records = [wandb_run("r", "p", "n", {}), *[wandb_history({"_step": s, **keys}) for s in range(6)]]
    path = wandb_folder(tmp_path, "20260101_000000", "r", records)
    (run,) = read_all(tmp_path).runs
    assert sorted(run.parts[0].series("layer.7/value")) == [0, 1, 2, 3, 4, 5]
    damaged = bytearray(path.read_bytes())
    damaged[100_000] ^= 1
    path.write_bytes(damaged)
    content = read_all(tmp_path)
    kept = sorted(content.runs[0].parts[0].series("layer.7/value"))
    assert 2 <= len(kept) < 6
    assert kept[0] == 0
    assert kept[-1] == 5
    assert content.problems[0].position == f"byte {100_000 - 100_000 % 32_768}"


def test_files_beside_the_log(tmp_path: Path) -> None:
    path = wandb_folder(tmp_path, "20260101_000000", "r", [wandb_run("r", "p", "n", {"a": 1}), *rows(range(3))])
    files = path.parent / "files"
    files.mkdir()
    (files / "config.yaml").write_text("_wandb: {value: {x: 1}}\nepochs: {desc: null, value: 4}\n")
    (files / "wandb-metadata.json").write_text(
        '{"os": "Linux", "program": "train.py", "root": "/media/新加卷1", "args": ["--lr", "5e-4", "--amp"],'
        ' "git": {"commit": "9b6ecb7a19f14630d448bbc51e0e07c69df0cd51", "remote": "git@x:o/r.git"}, "email": "a@b.org"}'
    )
    (files / "wandb-summary.json").write_text('{"val/loss": 3.5, "_wandb": {"runtime": 3}}')
    (files / "requirements.txt").write_text("torch==2.5.0\n# comment\n")
    (files / "output.log").write_text("step:1/3 train_loss:1.0\n" * 3)
    (run,) = read_all(tmp_path).runs
    part = run.parts[0]
    assert part.found.config == {"a": 1, "epochs": 4}
    assert part.found.environment["root"] == "/media/新加卷1"
    assert part.found.environment["args.lr"] == 5e-4
    assert part.found.environment["args.amp"] is True
    assert part.found.environment["package.torch"] == "2.5.0"
    assert part.found.code_version == "9b6ecb7a19f14630d448bbc51e0e07c69df0cd51"
    assert not any("email" in key for key in part.found.environment)
    assert next(fact for fact in run.facts if fact.title == "final summary").detail == {"val/loss": 3.5}
    (files / "diff.patch").write_text("--- a\n+++ b\n")
    (run,) = read_all(tmp_path).runs
    assert run.parts[0].found.code_version == ""
    assert any("uncommitted" in fact.title for fact in run.facts)


def test_a_run_whose_log_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "run-20260101_000000-xyz"
    folder.mkdir()
    (folder / "wandb-metadata.json").write_text('{"args": ["--wandb_project", "Tiny"]}')
    (folder / "config.yaml").write_text("lr: {value: 1}\n")
    (run,) = read_all(tmp_path).runs
    assert run.found.project == "Tiny"
    assert run.parts[0].found.config == {"lr": 1}


def test_config_changes_alerts_and_a_failed_end(tmp_path: Path) -> None:
    update = message(5, wandb_item("lr", 0.2) + message(1, text(2, "model") + text(2, "depth") + message(16, b"3")))
    alert = message(10, text(1, "Loss") + text(2, "too high"))
    records = [RUN, update, *rows(range(4)), alert, wandb_exit(1)]
    wandb_folder(tmp_path, "20260101_000000", "abc123", records)
    (run,) = read_all(tmp_path).runs
    part = run.parts[0]
    assert part.found.config["lr"] == 0.2
    assert part.found.config["model.depth"] == 3
    assert part.ended is not None
    assert (part.ended.state, part.ended.message) == (RunState.FAILED, "exit code 1")
    assert any(fact.title == "alert: Loss" and fact.detail == {"text": "too high"} for fact in run.facts)


def test_a_log_cut_anywhere_gives_a_prefix(tmp_path: Path) -> None:
    whole = wandb_log([RUN, *rows(range(400))])
    path = wandb_folder(tmp_path, "20260101_000000", "abc123", [])
    for cut in range(8, len(whole), 4999):
        path.write_bytes(whole[:cut])
        content = read_all(tmp_path)
        found = sorted(content.runs[0].parts[0].series("train/loss"))
        assert found == list(range(len(found)))


def test_the_server_needs_the_library_and_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (found,) = discover("wandb://entity/project")[0]
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(EnvironmentFault, match="pip install"):
        next(found.format.read(found.source))
