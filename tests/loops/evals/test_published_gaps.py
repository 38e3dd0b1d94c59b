"""The published gaps between protocols, re-created: each is flagged with its cause."""

from __future__ import annotations

import pytest

from benchmarks.potential_parts.published_gaps import found

ROWS = {row["case"]: row for row in found(120)}


@pytest.mark.parametrize("case", list(ROWS))
def test_flagged_with_its_cause(case: str) -> None:
    row = ROWS[case]
    assert row["flagged"], row
    assert abs(row["points"]) > 20.0


def test_what_can_be_seen_beforehand_is_said_beforehand() -> None:
    assert ROWS["a missing first token"]["cautions"] == ["missing_start"]
    assert "no_stop" in ROWS["few-shot text recited"]["cautions"]
