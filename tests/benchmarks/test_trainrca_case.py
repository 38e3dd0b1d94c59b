"""One case of the root-cause benchmark from its making to its figures, and again on what was kept."""

import sys
from pathlib import Path

import pytest

from benchmarks.trainrca.databases import server
from benchmarks.trainrca.form import Shelf
from benchmarks.trainrca.kinds import all_kinds
from benchmarks.trainrca.making import make
from benchmarks.trainrca.plan import Wanted
from benchmarks.trainrca.running import Options, evaluate


@pytest.mark.slow
def test_a_case_is_made_answered_and_answered_again_without_training(short_folder: Path) -> None:
    kinds = {kind.name: kind for kind in all_kinds()}
    shelf = Shelf(short_folder / "shelf")
    wanted = Wanted(kind="labels_moved", trainer="clusters", seed=7, num_decoys=5)
    with server() as url:
        case = make(shelf, wanted, kinds, short_folder, url, python=sys.executable)
        assert make(shelf, wanted, kinds, short_folder, url, python=sys.executable) == case
    assert not [path for path in shelf.folder(case).rglob("*") if wanted.kind in path.name]
    first = evaluate(shelf, [case], Options(work=short_folder / "work"))
    assert first["lathe"]["proven_right"]["of"] == "1/1"
    assert first["lathe"]["over_claims"]["of"] == "0/1"
    assert first["bisect"]["top1"]["of"] == "1/1"
    kept = {path: path.stat().st_mtime_ns for path in (short_folder / "work" / "cache").rglob("*.tar.gz")}
    assert kept
    again = evaluate(shelf, [case], Options(work=short_folder / "work", cached=True))
    assert {path: path.stat().st_mtime_ns for path in (short_folder / "work" / "cache").rglob("*.tar.gz")} == kept
    assert [row["verdict"] for row in again["rows"]] == ["proven"]
