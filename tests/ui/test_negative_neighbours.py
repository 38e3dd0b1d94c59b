"""What the page of a negative result says about those like it and those that say otherwise."""

from __future__ import annotations

from ui.case import memory
from ui.records import Contradiction, Duplicate, Negative, WholeNegative

NEGATIVE = Negative(
    id=4,
    claim="a higher <b>rate</b> helps",
    intervention="doubled it",
    expected="",
    observed="the loss rose",
    reason_class="no_effect",
    reason="worse on three seeds",
    reopen_if="with warm-up",
    actor="ada",
)


def test_both_sides_of_a_contradiction_are_shown_with_what_differs() -> None:
    """Shows R801-2.6: nothing is merged; the reader sees what is different in the two cases."""
    against = Contradiction(reference="verdict:7", statement="proven: rate <1e-3>", differs=("scale: 1B, here 30M",))
    like = Duplicate(negative=NEGATIVE.model_copy(update={"id": 9}), why="the same change of the code")
    html = memory.neighbours(WholeNegative(negative=NEGATIVE, duplicates=(like,), contradictions=(against,)))
    assert "ref=verdict%3A7" in html or "ref=verdict:7" in html
    assert "proven: rate &lt;1e-3&gt;" in html
    assert "scale: 1B, here 30M" in html
    assert "the same change of the code" in html
    assert "<b>rate</b>" not in html


def test_nothing_is_said_where_there_is_nothing() -> None:
    assert memory.neighbours(WholeNegative(negative=NEGATIVE, duplicates=(), contradictions=())) == ""
