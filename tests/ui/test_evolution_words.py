"""Words of the page Evolution, without a browser: a placebo that was kept is not shown as a gain."""

from __future__ import annotations

from ui.views.evolution import decision, leaf

ROUND = {"round": 4, "candidate": "c" * 40, "moves": ["set prompt"], "why": "accepted", "kept": True}


def test_a_kept_placebo_is_marked_among_the_rounds_and_in_the_archive() -> None:
    placebo, idea = {**ROUND, "kind": "placebo"}, {**ROUND, "kind": "idea"}
    assert "kept" in decision(placebo)
    assert "placebo: it changes nothing" in decision(placebo)
    assert "placebo" not in decision(idea)
    assert "(kept placebo)" in leaf(placebo)
    assert "placebo" not in leaf(idea)


def test_a_placebo_that_was_not_kept_stays_blind() -> None:
    placebo = {**ROUND, "kind": "placebo", "kept": False, "why": "futile"}
    assert decision(placebo) == "futile"
    assert "placebo" not in leaf(placebo)
