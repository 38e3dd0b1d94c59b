"""Imports into a real store: runs like any other, nothing twice, nothing lost, no secrets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from import_writers import Import, tf_event, tf_file, tf_scalar, wandb_exit, wandb_folder, wandb_history, wandb_run

from context_store import Store
from context_store.importers import Options, Report, discover
from context_store.importers import store as store_found
from context_store.importers.items import Columns, Item
from contracts.enums import RunRole, RunState, TimelineKind


def log(steps: range, total: int = 1000) -> str:
    return "".join(f"step:{s}/{total} train_loss:{9 - s / 1000:.4f} train_time:{s}ms step_avg:1.0ms\n" for s in steps)


def test_a_run_like_any_other(store: Store, tmp_path: Path, bring: Import) -> None:
    path = tmp_path / "a.log"
    path.write_text(log(range(1, 501)))
    (report,) = bring(path).runs
    run = store.runs.get(report.run_id)
    assert run.role == RunRole.TRAINING
    assert (run.state, run.last_step) == (RunState.STOPPED, 500)
    assert "does not say how it ended" in run.message
    assert store.projects.get(run.project_id).id == report.project_id
    assert set(store.series.names(run.id)) == {"loss", "train_time_ms", "step_avg_ms"}
    (segment,) = store.runs.segments(run.id)
    assert (segment.started_at, segment.ended_at) == (0.0, None)  # the log has no clock, so the store has none
    assert store.runs.declared(run.id, 0) == {"total_steps": 1000}
    (note,) = store.timeline.list(run.id, kinds=[TimelineKind.NOTE])
    assert note.detail["original_names"] == {"loss": "train_loss"}


def test_importing_twice_adds_nothing_and_a_grown_file_only_what_is_new(
    store: Store, tmp_path: Path, bring: Import
) -> None:
    path = tmp_path / "a.log"
    path.write_text(log(range(1, 301)))
    assert bring(path).runs[0].num_new == 900
    before = rows_of(store)
    assert bring(path).runs[0].num_new == 0
    assert rows_of(store) == before
    with path.open("a") as file:
        file.write(log(range(301, 321)))
    (report,) = bring(path).runs
    assert (report.num_points, report.num_new) == (960, 60)
    data = store.series.read(report.run_id, "loss", view="full")
    assert data.steps.tolist() == list(range(1, 321))


def rows_of(store: Store) -> dict[str, list[str]]:
    """Everything that is stored, except when it was stored."""
    tables = ("project", "run", "segment", "config_value", "timeline_event", "series", "chunk", "frame", "negative")
    with psycopg.connect(store.url) as connection:
        names = {row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
        return {
            table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall()))
            for table in names & set(tables)
        }


def test_a_restart_is_a_segment_and_the_overlap_stays_readable(store: Store, tmp_path: Path, bring: Import) -> None:
    def events(steps: range, wall: float, offset: float) -> list[bytes]:
        return [tf_event(wall + s, s, tf_scalar("train/loss", offset - s / 100)) for s in steps]

    tf_file(tmp_path / "run", 100, events(range(0, 351, 10), 100.0, 5.0))
    tf_file(tmp_path / "run", 900, events(range(300, 601, 10), 900.0, 6.0))
    (report,) = bring(tmp_path).runs
    assert [(s.number, s.start_step, s.last_step) for s in store.runs.segments(report.run_id)] == [
        (0, 0, 350),
        (1, 299, 600),
    ]
    canonical = store.series.read(report.run_id, "loss")
    assert canonical.values[canonical.steps == 300].tolist() == [3.0]
    full = store.series.read(report.run_id, "loss", view="full")
    assert sorted(full.values[full.steps == 300].tolist()) == [2.0, 3.0]
    (resume,) = store.timeline.list(report.run_id, kinds=[TimelineKind.RESUME])
    assert resume.step == 299


def test_nan_and_infinities_are_exact(store: Store, tmp_path: Path, bring: Import) -> None:
    path = tmp_path / "m.jsonl"
    values = {1: math.nan, 2: math.inf, 3: -math.inf, 4: 5e-324, 5: -0.0}
    path.write_text("".join(json.dumps({"step": step, "loss": value}) + "\n" for step, value in values.items()))
    (report,) = bring(path).runs
    data = store.series.read(report.run_id, "loss")
    assert [repr(value) for value in data.values.tolist()] == [repr(value) for value in values.values()]


def test_secrets_are_redacted_and_foreign_paths_survive(store: Store, tmp_path: Path, bring: Import) -> None:
    key = "sk-" + "a1" * 20
    folder = tmp_path / "C:\\Läufe\\新加卷"
    folder.mkdir()
    path = folder / "train.log"
    command = f"python train.py --api_key hunter2hunter2 --token={key} --data C:\\\\d --user me@mail.example.org\n"
    path.write_text(f"{command}{log(range(1, 4))}")
    (folder / "train.yaml").write_text(f"wandb: {{api_key: {key}}}\nurl: https://u:secretpass@host/x\nlr: 0.1\n")
    (report,) = bring(path).runs
    everything = json.dumps([rows_of(store)], default=str, ensure_ascii=False)
    for secret in (key, "hunter2hunter2", "secretpass", "me@mail.example.org"):
        assert secret not in everything
    assert "新加卷" in store.runs.get(report.run_id).folder
    declared = store.runs.declared(report.run_id, 0)
    assert declared["wandb.api_key"] == "[redacted field]"
    assert declared["args.data"] == "C:\\d"
    assert declared["lr"] == 0.1


def wandb_run_folder(root: Path, run_id: str, config: dict[str, object]) -> None:
    rows = [wandb_history({"_step": s, "loss": 1.0}) for s in range(3)]
    path = wandb_folder(root, "20260101_000000", run_id, [wandb_run(run_id, "p", run_id, config), *rows, wandb_exit(0)])
    git = {"git": {"commit": "9b6ecb7a19f14630d448bbc51e0e07c69df0cd51"}, "program": "train.py"}
    (path.parent / "wandb-metadata.json").write_text(json.dumps(git))


def test_a_commit_that_the_configurations_contradict_is_not_believed(
    store: Store, tmp_path: Path, bring: Import
) -> None:
    wandb_run_folder(tmp_path, "aaa", {"lr": 0.1, "epochs": 1})
    wandb_run_folder(tmp_path, "bbb", {"lr": 0.2, "epochs": 4})
    first, second = bring(tmp_path).runs
    assert store.runs.segments(first.run_id)[0].code_version.startswith("9b6ecb7a")
    wandb_run_folder(tmp_path, "ccc", {"lr": 0.1, "epochs": 4, "eval_interval": 5})
    third = bring(tmp_path).runs[2]
    assert store.runs.segments(third.run_id)[0].code_version == ""
    (flag,) = store.timeline.list(third.run_id, kinds=[TimelineKind.CODE])
    assert flag.detail["recorded_commit"].startswith("9b6ecb7a")
    assert flag.detail["fields"] == ["eval_interval"]
    assert "" in {store.runs.segments(each.run_id)[0].code_version for each in (first, second)}


def test_a_run_that_begins_with_the_values_of_another_is_its_fork(store: Store, tmp_path: Path, bring: Import) -> None:
    def rows(steps: range, slope: float) -> str:
        values = [{"step": s, "loss": 5 - slope * (s - 300) - 3.0, "grad_norm": 1 / (s + 1)} for s in steps]
        return "".join(json.dumps(row) + "\n" for row in values)

    (tmp_path / "base.jsonl").write_text(rows(range(0, 2000, 10), 0.001))
    (tmp_path / "fork.jsonl").write_text(
        rows(range(1200, 2000, 10), 0.001).replace('"grad_norm": 0.0005', '"grad_norm": 0.7')
    )
    (tmp_path / "other.jsonl").write_text(rows(range(1200, 2000, 10), 0.002))
    reports = {report.name: report for report in bring(tmp_path).runs}
    fork = store.runs.get(reports["fork"].run_id)
    assert (fork.parent_run_id, fork.parent_step) == (reports["base"].run_id, 1199)
    assert [event.step for event in store.timeline.list(fork.id, kinds=[TimelineKind.FORK])] == [1199]
    assert store.runs.get(reports["other"].run_id).parent_run_id is None
    for name in ("other", "fork", "base"):  # the order does not matter
        (report,) = bring(tmp_path / f"{name}.jsonl", project="again").runs
    parents = {run.name: run.parent_run_id for run in store.runs.list(project_id="again")}
    assert parents == {"base": None, "fork": report.run_id, "other": None}


def test_negative_results_are_found_before_they_are_tried_again(store: Store, tmp_path: Path, bring: Import) -> None:
    table = "commit\tval_bpb\tstatus\tdescription\nb\t0.99\tkeep\tbaseline\na\t1.1\tdiscard\tmatrix LR 0.04 to 0.045\n"
    (tmp_path / "results.tsv").write_text(table)
    for _ in range(2):
        (report,) = bring(tmp_path).runs
    assert report.num_negatives == 1
    ((negative, _),) = store.negatives.search("matrix LR")
    assert negative.project_id == report.project_id
    assert negative.context["best_before"] == 0.99
    event = next(e for e in store.timeline.list(report.run_id) if str(e.id) == negative.evidence[0].id)
    assert event.step == 2


def test_what_is_sound_is_imported_and_what_is_not_is_reported(store: Store, tmp_path: Path, bring: Import) -> None:
    good = '{"step": 1, "loss": 5}\n'
    (tmp_path / "m.jsonl").write_text(
        good + '{"step": 2, "lo\n' + '{"step": 3, "loss": 3}\n' + '{"step": 99999999999999999999, "loss": 1}\n'
    )
    report: Report = bring(tmp_path / "m.jsonl")
    assert [problem.position for problem in report.problems] == ["line 2", "line 4"]
    assert store.series.read(report.runs[0].run_id, "loss").steps.tolist() == [1, 3]


def test_an_import_that_was_cut_off_is_finished_by_the_next(store: Store, tmp_path: Path, bring: Import) -> None:
    path = tmp_path / "a.log"
    path.write_text(log(range(1, 1001)))
    (found,) = discover(str(path))[0]

    def cut_off() -> Iterator[Item]:
        for item in found.format.read(found.source):
            if isinstance(item, Columns):
                half = {name: (steps[:400], values[:400]) for name, (steps, values) in item.columns.items()}
                yield Columns(columns=half)
                raise KeyboardInterrupt
            yield item

    broken = replace(found, format=replace(found.format, read=lambda source: cut_off()))
    with pytest.raises(KeyboardInterrupt):
        store_found([broken], store.url, Options(actor="tester"), clock=lambda: 1.8e9, tell=lambda _: None)
    (report,) = bring(path).runs
    assert report.num_new == 3 * 600
    assert store.series.read(report.run_id, "loss").steps.tolist() == list(range(1, 1001))


def test_hostile_values_cost_only_themselves(store: Store, tmp_path: Path, bring: Import) -> None:
    rows = [
        {"seed": 10**30, "k" * 3000: "v\0w\ud800", "lr": 1},
        {"step": 1, "a\0b": 1.0, "x" * 600: 2.0, "\ud800": 3.0},
    ]
    (tmp_path / "m\udcff.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    history = '{"global_step": 5, "log_history": [{"step": 99999999999999999999, "loss": 1}, {"step": 5, "loss": 2}]}'
    (tmp_path / "trainer_state.json").write_text(history)
    (tmp_path / "t.jsonl").write_text('{"step": 1, "loss": 1, "wall_time": 1e300}\n')
    wandb_folder(
        tmp_path, "20260101_000000", "r", [wandb_run("r", "p", "n", {}, start=2**62), wandb_history({"a": 1e300})]
    )
    report = bring(tmp_path)
    names = {name for run in report.runs for name in store.series.names(run.run_id)}
    assert {"ab", "\\ud800", "loss"} <= names
    assert sum("left out" in problem.what for problem in report.problems) == 1
    assert all(store.runs.get(run.run_id) for run in report.runs)


def test_names_of_the_grammar(store: Store, tmp_path: Path, bring: Import) -> None:
    row = {
        "step": 1,
        "moe/layers.3/expert_load/7": 0.1,
        "moe/layers.3/router_entropy": 2.0,
        "train/loss": 1.0,
        "loss": 2.0,
    }
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    (report,) = bring(tmp_path / "m.jsonl").runs
    ours = {"expert_share/layers.3/experts.7", "router_entropy/layers.3", "loss", "original/loss"}
    assert set(store.series.names(report.run_id)) == ours  # of two that mean the same the second is set apart
    assert store.series.read(report.run_id, "loss").values.tolist() == [1.0]
    assert store.series.read(report.run_id, "original/loss").values.tolist() == [2.0]
