"""Faults planted in a training that nobody here wrote, one cell of `benchmarks.foreign_faults` each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.foreign_faults import KINDS, TRAINERS, as_markdown, is_right, run_cell


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


def test_what_is_not_installed_is_not_run(tmp_path: Path) -> None:
    """An interpreter without transformers gives a row that says so, neither right nor wrong."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    row = run_cell(tmp_path / "cell", "huggingface", "code", str(bare))
    assert (row["verdict"], row["right"]) == ("not run", None)
    assert "| not run | - |" in as_markdown([row])
