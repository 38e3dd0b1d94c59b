"""What is wrong in one source is named, with its place, and stops nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from import_writers import Import, read_all

from context_store import Store
from context_store.importers import Options, check, discover
from context_store.importers import store as store_found
from context_store.importers.items import Problem
from context_store.importers.lines import read_lines
from contracts.errors import EnvironmentFault, LogFormatError, UserInputError
from contracts.names import SeriesName

HUGE = 2**31


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"load/layers.{HUGE}", SeriesName(statistic="load", module=f"layers.{HUGE}")),
        (f"load/layers.{HUGE - 1}", SeriesName(statistic="load", module=f"layers.{HUGE - 1}", layer=HUGE - 1)),
        (f"load/layers.1/experts.{HUGE}", SeriesName(statistic="load", module=f"layers.1/experts.{HUGE}")),
        (f"loss@rank={HUGE}", SeriesName(statistic=f"loss@rank={HUGE}")),
        (f"loss@rank={'9' * 400}", SeriesName(statistic=f"loss@rank={'9' * 400}")),
        (f"loss@rank={'0' * 9000}7", SeriesName(statistic="loss", rank=7)),
    ],
)
def test_a_number_that_no_column_holds_is_no_layer_expert_or_rank(name: str, expected: SeriesName) -> None:
    assert SeriesName.parse(name) == expected


def test_huge_numbers_in_names_are_kept_as_names(store: Store, tmp_path: Path, bring: Import) -> None:
    names = [f"load/layers.{HUGE}", f"load/layers.1/experts.{HUGE}", f"loss@rank={HUGE}", f"loss@rank={10**30}"]
    (tmp_path / "a.jsonl").write_text(json.dumps({"step": 1} | dict.fromkeys(names, 1.0)) + "\n")
    (tmp_path / "b.jsonl").write_text('{"step": 1, "loss": 2}\n')
    report = bring(tmp_path)
    assert (report.failures, report.problems) == ([], [])
    assert set(store.series.names(report.runs[0].run_id)) == set(names)
    with psycopg.connect(store.url) as connection:
        assert connection.execute("SELECT count(layer), count(expert), count(rank) FROM series").fetchone() == (0, 0, 0)


def test_a_source_that_fails_does_not_stop_the_next(store: Store, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"step": 1, "loss": 2}\n{"step": 2, "loss": 2}\n')
    found, _ = discover(str(tmp_path))
    (tmp_path / "a.jsonl").unlink()
    report = store_found(found, store.url, Options(actor="tester"), clock=lambda: 1.8e9, tell=lambda _: None)
    (failed,) = report.failures
    assert isinstance(failed.failure, LogFormatError)
    assert "a.jsonl" in str(failed.failure)
    assert [(run.name, run.num_new) for run in report.runs] == [("b", 2)]
    assert [source.failure is None for source in check(found).sources] == [False, True]


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [("http://127.0.0.1:1/", "MLflow server runs"), ("postgresql://u:secret@127.0.0.1:1/x", "database runs there")],
)
def test_a_server_that_does_not_answer_is_an_error(uri: str, remedy: str) -> None:
    (source,) = check(discover(uri)[0]).sources
    assert isinstance(source.failure, EnvironmentFault)
    assert remedy in source.failure.remedy
    assert "secret" not in str(source.failure)


def test_an_address_that_is_none_is_an_error() -> None:
    (source,) = check(discover("http://127.0.0.1:99999/")[0]).sources
    assert isinstance(source.failure, UserInputError | EnvironmentFault)


def test_a_number_that_is_none_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("step,loss,acc,name\n1,2,,x\n2,3,n/a,y\n\n3,abc,1,z\n4,5,0x3,w\n")
    (tmp_path / "b.jsonl").write_text('{"step":1,"loss":"x","a":true}\n{"step":2,"loss":3}\n{"step":3,"loss":[1]}\n')
    (tmp_path / "results.tsv").write_text("commit\tval_bpb\tstatus\tdescription\na\t0,9\tkeep\tbaseline\n")
    content = read_all(tmp_path)
    assert {(Path(each.file).name, each.position, each.what) for each in content.problems} == {
        ("a.csv", "line 5", "field loss: 'abc' is no number"),
        ("a.csv", "line 6", "field acc: '0x3' is no number"),
        ("b.jsonl", "line 1", "field loss: 'x' is no number"),
        ("b.jsonl", "line 3", "field loss: [1] is no number"),
        ("results.tsv", "line 2", "field val_bpb: '0,9' is no number"),
    }
    table = next(run for run in content.runs if run.found.name == "a")
    assert sorted(table.parts[0].series("loss")) == [1, 2, 4]


def test_a_cell_that_the_csv_reader_refuses_costs_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"step,loss,text\n1,2,x\n2,3,{'y' * 200_000}\n3,4,z\n")
    content = read_all(tmp_path)
    assert [problem.position for problem in content.problems] == ["line 3"]
    assert sorted(content.runs[0].parts[0].series("loss")) == [1, 3]


def test_the_rest_of_a_line_that_is_too_long_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("first\n" + "x" * 2_500_000 + "step:7/9 train_loss:1\nlast")
    first, problem, last = read_lines(path)
    assert (first, last) == ((1, "first"), (3, "last"))
    assert isinstance(problem, Problem)
    assert problem.position == "line 2"
