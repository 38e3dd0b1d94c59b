"""A start of a run is recognised as itself, whichever of its files is given, from where, and in which order."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from import_writers import (
    Import,
    read_all,
    tf_event,
    tf_file,
    tf_scalar,
    wandb_exit,
    wandb_folder,
    wandb_history,
    wandb_run,
)

from context_store import Store
from context_store.importers import Report, check, discover
from contracts.enums import RunState, TimelineKind


def wandb_start(root: Path, moment: int, steps: range, *more: bytes) -> Path:
    rows = [wandb_history({"_step": n, "train/global_step": s, "loss": 5 - s / 100}) for n, s in enumerate(steps)]
    run = wandb_run("abc", "proj", "my run", {"lr": 0.1}, start=1_700_000_000 + moment)
    return wandb_folder(root, f"20260101_00{moment:04d}", "abc", [run, *rows, *more])


def wandb_files(root: Path) -> list[Path]:
    first = wandb_start(root, 0, range(0, 351, 10))
    first.write_bytes(first.read_bytes()[:-9])  # killed
    second = wandb_start(root, 100, range(300, 501, 10))
    third = wandb_start(root, 200, range(400, 601, 10), wandb_exit(0))
    return [first.parent, second.parent, third]


def event_files(root: Path) -> list[Path]:
    def events(steps: range, wall: float) -> list[bytes]:
        return [tf_event(wall + s / 100, s, tf_scalar("train/loss", 5 - s / 100)) for s in steps]

    starts = [(100, range(0, 351, 10)), (200, range(300, 501, 10)), (300, range(400, 601, 10))]
    return [tf_file(root / "run", moment, events(steps, moment)) for moment, steps in starts]


def table_parts(root: Path) -> list[Path]:
    root.mkdir(exist_ok=True)
    paths = []
    for number, steps in enumerate((range(0, 351, 10), range(300, 501, 10), range(400, 601, 10)), 1):
        paths.append(root / f"base.segment{number}.jsonl")
        paths[-1].write_text("".join(f'{{"step": {s}, "loss": {5 - s / 100}}}\n' for s in steps))
    return paths


def checkpoints(root: Path) -> list[Path]:
    paths = []
    another = root / "checkpoint-50" / "trainer_state.json"
    another.parent.mkdir(parents=True)
    another.write_text('{"global_step": 50, "max_steps": 99, "log_history": [{"step": 50, "loss": 9}]}')
    for last, planned in ((200, 400), (300, 600), (600, 600)):
        rows = [{"step": s, "loss": 5 - s / 100} for s in range(10, last + 1, 10)]
        folder = root / f"checkpoint-{last}"
        folder.mkdir(parents=True)
        paths.append(folder / "trainer_state.json")
        paths[-1].write_text(json.dumps({"global_step": last, "max_steps": planned, "log_history": rows}))
    return [*paths, another]


def picture(store: Store, project: str) -> list[Any]:
    """Runs, segments and points of a project, without what tells projects apart."""
    found = []
    for run in store.runs.list(project_id=project):
        segments = [(s.number, s.start_step, s.last_step, s.end_reason) for s in store.runs.segments(run.id)]
        series = {name: store.series.read(run.id, name, view="full") for name in sorted(store.series.names(run.id))}
        points = {
            name: list(zip(data.segments.tolist(), data.steps.tolist(), data.values.tolist(), strict=True))
            for name, data in series.items()
        }
        resumes = [(event.segment, event.step) for event in store.timeline.list(run.id, kinds=[TimelineKind.RESUME])]
        found.append((run.name, run.state, segments, points, resumes))
    return sorted(found, key=lambda each: (each[0], len(each[2])))


@pytest.mark.parametrize("write", [wandb_files, event_files, table_parts, checkpoints])
def test_files_given_one_by_one_in_any_order_are_the_run_that_they_are_together(
    store: Store, tmp_path: Path, bring: Import, write: Any
) -> None:
    """Shows issue 13: a restart is told apart, whatever order its files are imported in."""
    root = tmp_path / "runs"
    files = write(root)
    bring(root, project="whole")
    whole = picture(store, "whole")
    assert [len(segments) for _, _, segments, _, _ in whole] == ([1, 2] if write is checkpoints else [3])
    for number, order in enumerate((*itertools.permutations(files[:3]), files[::-1])):
        project = f"order-{number}"
        for path in (*order, root):
            report = bring(path, project=project)
            assert not [problem for problem in report.problems if "torn" not in problem.what]
        assert picture(store, project) == whole
        assert {run.num_new for run in bring(root, project=project).runs} == {0}


def refusals(report: Report) -> list[str]:
    return [problem.what for problem in report.problems if "left out" in problem.what]


def test_starts_that_lie_apart_are_refused_until_they_are_together(store: Store, tmp_path: Path, bring: Import) -> None:
    first = wandb_start(tmp_path / "a", 0, range(0, 351, 10)).parent
    second = wandb_start(tmp_path / "b", 100, range(300, 601, 10)).parent
    bring(first)
    before = picture(store, "proj")
    (what,) = refusals(bring(second))
    assert "is not start 1 of the run" in what
    assert "Import the folder that holds all starts" in what
    assert picture(store, "proj") == before
    assert refusals(bring(tmp_path)) == []
    assert [s.start_step for s in store.runs.segments(store.runs.list()[0].id)] == [0, 299]


def test_an_earlier_start_that_comes_later_goes_into_another_project(
    store: Store, tmp_path: Path, bring: Import
) -> None:
    second = wandb_start(tmp_path / "b", 100, range(300, 601, 10)).parent
    bring(second)
    before = picture(store, "proj")
    wandb_start(tmp_path / "a", 0, range(0, 351, 10))
    (one, other) = refusals(bring(tmp_path))
    assert one == other
    assert "--project NAME" in one
    assert picture(store, "proj") == before
    assert refusals(bring(tmp_path, project="again")) == []
    assert len(picture(store, "again")[0][2]) == 2


def test_a_damaged_copy_adds_nothing_to_the_sound_run(store: Store, tmp_path: Path, bring: Import) -> None:
    path = wandb_start(tmp_path / "sound", 0, range(5000), wandb_exit(0))
    bring(tmp_path / "sound")
    before = picture(store, "proj")
    assert before[0][1] == RunState.COMPLETED
    copy = tmp_path / "copy"
    copy.mkdir()
    damaged = bytearray(path.read_bytes())
    damaged[50_000] ^= 1
    (copy / path.name).write_bytes(damaged)
    (what,) = refusals(bring(copy))
    assert f"copy of {path.parent}" in what
    assert picture(store, "proj") == before
    (what,) = refusals(bring(tmp_path))  # both at once
    assert what == f"a copy of {path}; left out"
    assert picture(store, "proj") == before


def test_a_folder_that_was_moved_goes_on(store: Store, tmp_path: Path, bring: Import) -> None:
    path = wandb_start(tmp_path / "a", 0, range(0, 351, 10))
    path.write_bytes(path.read_bytes()[:-9])
    bring(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    wandb_start(tmp_path / "b", 100, range(300, 601, 10), wandb_exit(0))
    assert refusals(bring(tmp_path / "b")) == []
    ((_, state, segments, _, _),) = picture(store, "proj")
    assert (state, len(segments)) == (RunState.COMPLETED, 2)


def test_each_segment_says_where_it_came_from(store: Store, tmp_path: Path, bring: Import) -> None:
    wandb_files(tmp_path)
    (report,) = bring(tmp_path).runs
    notes = [note for note in store.timeline.list(report.run_id, kinds=[TimelineKind.NOTE]) if "origin" in note.detail]
    assert [(note.segment, Path(str(note.detail["origin"])).name) for note in notes] == [
        (0, "offline-run-20260101_000000-abc"),
        (1, "offline-run-20260101_000100-abc"),
        (2, "offline-run-20260101_000200-abc"),
    ]
    assert all(Path(str(note.detail["origin"])).name in note.title for note in notes)


def test_another_training_in_the_same_file_is_no_more_of_the_first(store: Store, tmp_path: Path, bring: Import) -> None:
    path = tmp_path / "train.log"
    line = "step:{}/1000 train_loss:{:.4f} train_time:1ms step_avg:1.0ms\n"
    path.write_text("".join(line.format(s, 9 - s / 1000) for s in range(1, 51)))
    bring(path, project="p")
    before = picture(store, "p")
    with path.open("a") as file:
        file.write(line.format(51, 8.0))
    assert refusals(bring(path, project="p")) == []
    path.write_text("".join(line.format(s, 8 - s / 1000) for s in range(1, 51)))
    dry = check(discover(str(path))[0], project="p", url=store.url)
    assert refusals(dry) == refusals(bring(path, project="p"))
    assert len(refusals(dry)) == 1
    assert dry.runs[0].num_points == 0
    assert len(picture(store, "p")[0][3]["loss"]) == len(before[0][3]["loss"]) + 1


def test_rows_behind_a_damage_stand_at_no_step_that_was_lost(tmp_path: Path) -> None:
    pad = "x" * 2000
    rows = [wandb_history({"_step": n, "train/global_step": n * 10, "loss": 1.0, "pad": pad}) for n in range(30)]
    rows += [wandb_history({"_step": n, "epoch": 1.0, "pad": pad}) for n in range(30, 36)]
    path = wandb_folder(tmp_path, "20260101_000000", "r", [wandb_run("r", "p", "n", {}), *rows])
    assert set(read_all(tmp_path).runs[0].parts[0].series("epoch")) == {290}
    damaged = bytearray(path.read_bytes())
    damaged[32_768 + 3000] ^= 1  # the second block is lost, the last row with a step in it
    path.write_bytes(damaged)
    content = read_all(tmp_path)
    (part,) = content.runs[0].parts
    assert max(part.series("loss")) < 290
    assert part.series("epoch") == {}
    assert "have no step" in content.problems[-1].what
