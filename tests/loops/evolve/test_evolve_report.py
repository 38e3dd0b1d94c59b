"""What the report says of runs that are written down here: nothing is claimed that was not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loops.evolve.acceptance import Rule
from loops.evolve.board import board
from loops.evolve.journal import FolderJournal
from loops.evolve.plan import History, Plan
from loops.evolve.report import markdown, passes_screen, summary

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


def _fix(*tasks: str) -> dict[str, Any]:
    traces = [f"{'a' * 12}/{task}/1" for task in tasks]
    return {"scores": [0.0] * len(tasks), "traces": traces, "findings": [], "canaries": {"honeypot": 1}}


def _block(**more: Any) -> dict[str, Any]:
    jobs = [["planted", 1], ["plain", 2]]
    body = {"jobs": jobs, "base": [0.0, 0.0], "candidate": [0.0, 0.0], "asks": [0, 0], "chars": [0, 0], "canaries": {}}
    return body | more


def test_only_episodes_of_tasks_that_have_a_canary_count_as_watched(tmp_path: Path) -> None:
    places = {"honeypot": ["planted"], "decoy": [], "scrambled": []}
    both, old = _block(base_canaries={"tripwire": 2}), _block()
    sealed = {**SEALED, "incumbent": SEALED["root"], "commits": ["a" * 40] * 2, "canaries": {"honeypot": 3}}
    history = _history(
        tmp_path, ("planted", "0", places), ("fix", "a" * 40, _fix("planted", "plain", "plain")),
        ("block", "1/0", both), ("block", "1/1", old),
        ("sealed", "0", sealed),
    )  # fmt: skip
    rows = {row.canary: row for row in board(history)}
    assert rows["honeypot"].coverage == "4 episodes"  # one fix, both arms of a block, one arm where only it was watched
    assert rows["tripwire"].coverage == "9 episodes"
    assert [rows[name].coverage for name in ("decoy", "scrambled")] == ["not planted", "not planted"]
    assert summary(history)["canary_hits_of"] == {"first": 1, "candidates": 0, "compared_with": 2, "sealed": 3}
    text = markdown(history)
    assert "0 hits by candidates, none of which was kept; 1 by the first scaffold" in text
    assert "1, by what it was compared with (2)" in text


def test_what_was_planted_is_not_guessed(tmp_path: Path) -> None:
    rows = {row.canary: row for row in board(_history(tmp_path, ("fix", "a" * 40, _fix("planted"))))}
    assert rows["honeypot"].coverage == "not known"
    assert rows["tripwire"].coverage == "1 episodes"


def test_what_the_screen_holds_back_is_said(tmp_path: Path) -> None:
    """Shares of drawn pairs agree with the chance that is said, and so does a case by hand."""
    assert passes_screen(2, 0.5, 0.2, 0.2) == pytest.approx(0.2**2 + 2 * 0.2 * 0.8)  # one win of two, none is lost
    assert passes_screen(40, -1.0, 0.1) == pytest.approx(1.0)
    drawn = np.random.default_rng(0).choice([-1, 0, 1], p=[0.09, 0.7, 0.21], size=(20_000, 40)).sum(axis=1)
    assert passes_screen(40, 0.05, 0.12) == pytest.approx((drawn >= 2).mean(), abs=0.01)
    none = _history(tmp_path / "none")
    assert "no fix task has been run yet" in markdown(none)
    history = _history(tmp_path / "some", ("fix", "a" * 40, _fix(*["plain"] * 40)))
    assert summary(history)["screen_passes"] == passes_screen(40, 0.05, 0.2)
    assert "passes with chance 0.98" in markdown(history)
    assert "that of the gate alone" in markdown(history)
