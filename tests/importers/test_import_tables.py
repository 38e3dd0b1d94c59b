"""JSON lines, CSV, golden values and bare losses."""

from __future__ import annotations

import json
import math
from pathlib import Path

from import_writers import read_all

from context_store.importers import Columnar, discover


def test_json_lines_in_parts_are_starts_of_one_run(tmp_path: Path) -> None:
    first = [{"step": s, "train/loss": 5 - s / 100, "eval/loss": None} for s in range(0, 351, 10)]
    again = [{"step": s, "train/loss": 5 - s / 100} for s in range(300, 601, 10)]
    for number, rows in ((1, first), (2, again)):
        (tmp_path / f"base.segment{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = read_all(tmp_path).runs
    assert run.found.name == "base"
    assert [part.found.start_step for part in run.parts] == [0, 299]
    assert run.parts[0].series("train/loss")[350] == 1.5
    assert ("eval/loss", 0) not in run.parts[0].points


def test_nan_infinities_text_and_nested_rows(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(
        '{"config": {"lr": 0.1, "seed": 3}}\n'
        '{"step": 1, "loss": NaN, "norm": -Infinity, "word": "abc", "on": true, "train": {"acc": "Infinity"}}\n'
        '{"step": 2.0, "loss": 1e400}\n'
    )
    (run,) = read_all(path).runs
    part = run.parts[0]
    assert math.isnan(part.series("loss")[1])
    assert part.series("loss")[2] == math.inf
    assert part.series("norm") == {1: -math.inf}
    assert part.series("train/acc") == {1: math.inf}
    assert {name for name, _ in part.points} == {"loss", "norm", "train/acc"}
    assert part.found.config["config/lr"] == 0.1


def test_damaged_lines_are_reported_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1, "loss": 5}\n{"step": 2, "lo\n[1]\n{"step": 3.5, "loss": 4}\n{"step": 4, "loss": 3}\n')
    content = read_all(path)
    assert content.runs[0].parts[0].series("loss") == {1: 5.0, 4: 3.0}
    assert [problem.position for problem in content.problems] == ["line 2", "line 3", "line 4"]


def test_declared_columns(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("when,update,a,b\n1700000000,1,0.5,7\n1700000060,2,nan,\n")
    assert discover(str(path))[0] == []
    assert "--step" in discover(str(path))[1][0].remedy
    columnar = Columnar(step="update", time="when", values=("a",), rename={"a": "loss"})
    (run,) = read_all(path, columnar).runs
    assert run.parts[0].found.started_at == 1_700_000_000.0
    assert {name for name, _ in run.parts[0].points} == {"a"}
    assert run.found.names == {"a": "loss"}
    assert math.isnan(run.parts[0].series("a")[2])


def test_a_table_whose_header_grows(tmp_path: Path) -> None:
    path = tmp_path / "m.tsv"
    path.write_text("step\tloss\n1\t5.0\n2\t4.0\t9\nstep\tloss\tnorm\n3\t3.0\t1.5\n")
    content = read_all(path)
    assert content.runs[0].parts[0].series("norm") == {3: 1.5}
    assert content.problems[0].position == "line 3"


def test_golden_values_that_were_never_measured_are_no_nan(tmp_path: Path) -> None:
    series = {"start_step": 1, "end_step": 20, "step_interval": 5}
    values = {"1": "nan", "5": "nan", "10": 3.0, "15": 2.5, "20": "nan"}
    golden = {"lm loss": series | {"values": values}, "iteration-time": series | {"values": values | {"15": "nan"}}}
    path = tmp_path / "run_golden.json"
    path.write_text(json.dumps(golden))
    (tmp_path / "run.config.yaml").write_text("optimizer: {lr: 3.0e-4}\nsource: {commit: abc}\n")
    (run,) = read_all(path).runs
    part = run.parts[0]
    assert part.series("lm loss") == {10: 3.0, 15: 2.5}
    assert part.series("iteration-time") == {10: 3.0}
    assert part.found.start_step == 9
    assert part.found.config == {"optimizer.lr": 3.0e-4}
    assert run.found.names["iteration-time"] == "step_time_s"
    assert sum("never measured" in fact.title for fact in run.facts) == 2


def test_bare_lines_are_losses_only_where_a_name_says_so(tmp_path: Path) -> None:
    text = "".join(f"{step} {8 - step / 10}\n" for step in range(1, 8))
    for folder in ("losses", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"moe_{folder}.txt").write_text(text)
    (tmp_path / "other" / "moe_other.txt").rename(tmp_path / "other" / "numbers.txt")
    (run,) = read_all(tmp_path).runs
    assert run.found.name == "moe_losses"
    assert run.parts[0].series("loss")[7] == 7.3
    assert [Path(each.file).name for each in discover(str(tmp_path))[1]] == ["numbers.txt"]
