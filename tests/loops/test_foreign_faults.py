"""Faults planted in a training that nobody here wrote, one cell of `benchmarks.foreign_faults` each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.foreign_faults import KINDS, TRAINERS, is_right, run_cell


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_numpy_training(kind: str, short_folder: Path) -> None:
    """Shows R801-3.1, R801-3.4 and R801-3.18: proven and mended, or nobody blamed where no commit is to blame."""
    row = run_cell(short_folder / kind, "ring", kind, sys.executable)
    assert row["right"], row
    assert run_cell(short_folder / kind, "ring", kind, sys.executable) == row  # kept, not run again


def test_an_over_claim_is_not_right() -> None:
    """The benchmark's judge: naming a commit for what the machine did counts as wrong, as does a wrong commit."""
    proven = {"verdict": "proven", "exact": True, "fix": "held"}
    assert is_right("code", proven)
    assert not is_right("code", {**proven, "exact": False})
    assert not is_right("code", {**proven, "fix": "not held"})
    assert not is_right("environment", proven)
    assert not is_right("healthy", proven)
    assert all(set(trainer.faults) == {"code", "config", "data", "resume"} for trainer in TRAINERS.values())
