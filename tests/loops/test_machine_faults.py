"""Bad machines in a training over four real processes, and a look-alike: cells of `benchmarks.machine_faults`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.machine_faults import is_right, run_cell


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_slow_machine_is_told_by_exchanging_places(short_folder: Path) -> None:
    """Shows R801-3.1 and R801-3.4: what goes with the place is hardware; no commit is blamed."""
    row = run_cell(short_folder / "slow", "slow")
    assert row["right"], row
    assert row["scope"] == "this_run"
    assert {"replay", "swap", "control", "placebo"} <= set(row["ran"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_machine_that_computes_wrong_values_is_told_by_exchanging_places(short_folder: Path) -> None:
    """Shows R801-3.1: silent data corruption, which the loss does not show; a run on another place is clear of it."""
    row = run_cell(short_folder / "corrupt", "corrupt")
    assert row["right"], row
    assert row["symptom"].startswith("rank 2 computes wrong values from step 41 on")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_code_that_slows_one_rank_is_no_machine(short_folder: Path) -> None:
    """The look-alike: what stays with the rank in another place is traced to its commit."""
    row = run_cell(short_folder / "code", "code")
    assert row["right"], row
    assert "swap" in row["ran"]


def test_blaming_the_wrong_side_is_not_right() -> None:
    """The benchmark's judge."""
    hardware = {"verdict": "proven", "kind": "hardware", "causes": ["place:2"], "faulty": "c"}
    code = {"verdict": "proven", "kind": "code", "causes": ["commit:c"], "faulty": "c"}
    assert is_right("slow", hardware)
    assert is_right("corrupt", hardware)
    assert is_right("code", code)
    assert not is_right("slow", code)
    assert not is_right("code", hardware)
    assert not is_right("slow", {**hardware, "causes": ["place:1"]})
    assert not is_right("healthy", hardware)
