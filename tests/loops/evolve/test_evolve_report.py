"""What the report says of runs that are written down here: nothing is claimed that was not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loops.evolve.acceptance import Rule
from loops.evolve.journal import FolderJournal
from loops.evolve.plan import History, Plan
from loops.evolve.report import markdown, summary

SEALED = {"opened_by": "ada", "tasks": ["a", "b"], "seeds": 2, "root": [0.0, 1.0, 0.0, 0.0], "canaries": {}}


def _history(folder: Path, *rows: tuple[str, str, dict[str, Any]], **changes: Any) -> History:
    plan = Plan(run="told", suite_hash="", rule=Rule(rounds=3), placebo_share=0.0, **changes)
    journal = FolderJournal(folder / "journal.jsonl")
    journal.put("root", "0", {"commit": "a" * 40})
    for kind, key, body in rows:
        journal.put(kind, key, body)
    return History(journal=journal, plan=plan)


def test_where_nothing_was_kept_the_sealed_tasks_claim_no_power(tmp_path: Path) -> None:
    same = {**SEALED, "incumbent": SEALED["root"], "commits": ["a" * 40] * 2}
    history = _history(tmp_path, ("sealed", "0", same))
    text = markdown(history).partition("## Sealed tasks")[2].partition("## Rounds")[0]
    assert "both ends are the same scaffold, the sealed tasks compare nothing. Opened by ada." in text
    assert "power" not in text
    assert summary(history)["sealed"]["detectable"] is None


def test_two_scaffolds_are_compared_also_where_they_solve_the_same(tmp_path: Path) -> None:
    other = {**SEALED, "incumbent": [1.0, 0.0, 0.0, 0.0], "commits": ["a" * 40, "b" * 40]}
    history = _history(tmp_path, ("sealed", "0", other))
    sealed = summary(history)["sealed"]
    assert sealed["detectable"] == pytest.approx(0.8265 * (sealed["high"] - sealed["low"]), rel=1e-3)
    assert sealed["detectable"] > 0.1
    assert "the null is the result" in sealed["says"]
