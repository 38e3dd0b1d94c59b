"""Every fault, the interaction and the healthy control on three seeds, judged by the truth outside the project.

Slow (minutes a cell) and resumable: a finished cell is reused while the code is unchanged.
"""

from pathlib import Path

import pytest

from benchmarks.demo import HEALTHY, Cell, is_right, list_faults, run_cell

WORK = Path("~/.lathe/bench/demo").expanduser()
CELLS = [Cell(fault=fault, seed=seed) for fault in [*list_faults(), HEALTHY] for seed in (1, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell_ends_with_the_right_verdict(cell: Cell) -> None:
    """Shows R801-3.1 (four phases), R801-3.2 (both patterns), R801-3.4 (commit named), R801-3.16 to R801-3.20."""
    outcome = run_cell(cell, WORK)
    assert is_right(cell, outcome), outcome
