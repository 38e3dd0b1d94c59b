"""A run is decided anew offline to the same hashes, and what a crash cut off is made up for.

Shows RM2-7.31.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from small_runs import Changed, Lucky, evolution_in, small_plan

from contracts.errors import UserInputError
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive
from loops.evolve.evaluation import Evaluator
from loops.evolve.journal import FolderJournal, Journal
from loops.evolve.parents import Search
from loops.evolve.plan import IDEA, Plan
from loops.evolve.replay import differences


def test_a_decision_that_a_crash_cut_off_from_its_evidence_is_taken_once_more(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    whole, plan = finished
    cut = place / "cut"
    shutil.copytree(whole, cut)
    lines = (cut / "journal.jsonl").read_text().splitlines(keepends=True)
    memory = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "memory"][-1]
    (cut / "journal.jsonl").write_text("".join(lines[:memory]))
    verdict = "refs/lathe/evolve/test/verdicts/0002"
    subprocess.run(["git", "update-ref", "-d", verdict], cwd=cut / "archive.git", check=True)
    run = evolution_in(cut, plan, quick)
    assert len(run.history.decisions) == 1
    while run.step():
        pass
    journals = [FolderJournal(folder / "journal.jsonl") for folder in (whole, cut)]
    for kind in ("proposal", "block", "decision", "memory"):
        assert journals[0].list(kind) == journals[1].list(kind)
    refs = [Archive(folder / "archive.git", "test").refs() for folder in (whole, cut)]
    assert refs[0] == refs[1]


def test_a_run_replays_offline_to_the_same_decisions_and_hashes(
    finished: tuple[Path, Plan], tmp_path: Path, quick: Evaluator
) -> None:
    folder, _ = finished
    journal, archive = FolderJournal(folder / "journal.jsonl"), Archive(folder / "archive.git", "test")
    before, root = archive.refs(), str((journal.get("root", "0") or {})["commit"])
    assert differences(journal, quick.suite, archive, tmp_path / "a") == []
    assert archive.refs() == before
    for number, (kind, key, changes) in enumerate(
        (
            ("decision", "1", {"kept": True}),
            ("proposal", "2", {"hypothesis": "another"}),
            ("plan", "0", {"sources": ""}),
        )
    ):
        other = _changed(journal, tmp_path / f"b{number}", kind, key, changes)
        assert differences(other, quick.suite, archive, tmp_path / f"c{number}") != []
    for number, (kind, key, changes) in enumerate(
        (
            ("plan", "0", {"seed": 4}),
            ("block", "1/0", {"jobs": []}),
            ("plan", "0", {"suite_hash": "another"}),
            ("fix", root, {"traces": [f"{root[:12]}/sh_poll/1"] * 3}),
        )
    ):
        other = _changed(journal, tmp_path / f"d{number}", kind, key, changes)
        with pytest.raises(UserInputError, match=r"not measured|others than"):
            differences(other, quick.suite, archive, tmp_path / f"e{number}")


def test_a_replay_tells_refs_and_tasks_that_it_does_not_come_to(place: Path, quick: Evaluator, tmp_path: Path) -> None:
    """The run has a verdict that it never came to; and a canary was measured on another task."""
    rule = Rule(rounds=1, effect=0.4, max_pairs=8, run_alpha=0.9)
    run = evolution_in(place / "rcanary", small_plan(quick, rule=rule), Changed(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    journal, folder = run.history.journal, place / "rcanary" / "archive.git"
    archive = Archive(folder, "test")
    assert journal.list("canary")
    assert differences(journal, quick.suite, archive, tmp_path / "a") == []
    for number, expected in ((0, ["verdicts/0000"]), (2, [])):  # round 2 is open yet
        ref = f"refs/lathe/evolve/test/verdicts/{number:04d}"
        subprocess.run(["git", "update-ref", ref, archive.incumbent], cwd=folder, check=True)
        assert differences(journal, quick.suite, archive, tmp_path / f"b{number}") == expected
        subprocess.run(["git", "update-ref", "-d", ref], cwd=folder, check=True)
    other = _changed(journal, tmp_path / "c", "canary", "1", {"jobs": [["ml_scrambled", 7]]})
    with pytest.raises(UserInputError, match="not measured"):
        differences(other, quick.suite, archive, tmp_path / "d")


def _changed(journal: Journal, folder: Path, kind: str, key: str, changes: dict[str, object]) -> FolderJournal:
    """The same journal with one entry that says something else."""
    other = FolderJournal(folder / "journal.jsonl")
    for each in ("plan", "root", "fix", "proposal", "block", "canary", "decision", "memory"):
        for name, body in journal.list(each):
            other.put(each, name, body | changes if (each, name) == (kind, key) else body)
    return other


def test_a_replay_knows_each_thing_when_the_run_came_to_know_it(place: Path, quick: Evaluator, tmp_path: Path) -> None:
    """What is measured later must not weigh in earlier: a budget that ends a run, and fix tasks of a kept placebo."""
    short = small_plan(quick, rule=Rule(rounds=30, effect=0.4, max_pairs=16), max_episodes=37)
    placebos = small_plan(quick, rule=Rule(rounds=4, run_alpha=0.95), placebo_share=0.5, search=Search.ARCHIVE)
    for name, plan, evaluator in (("rshort", short, Lucky(quick)), ("rplacebo", placebos, Changed(quick))):
        run = evolution_in(place / name, plan, evaluator)  # type: ignore[arg-type]
        while run.step():
            pass
        archive = Archive(place / name / "archive.git", "test")
        assert run.history.decisions
        assert differences(run.history.journal, quick.suite, archive, tmp_path / name) == []
    kept = [body for body in run.history.decisions if body["kept"]]
    assert any(body["kind"] != IDEA and run.history.fix_score(body["candidate"]) is not None for body in kept)
