"""Which samples each data-parallel rank reads.

The global order is fixed: step s reads the positions s * batch_size to (s + 1) * batch_size - 1.
This file only says how the ranks share them.
"""

from __future__ import annotations

import numpy as np

from trainer import DataConfig


def rank_positions(step: int, rank: int, config: DataConfig) -> np.ndarray:
    """The positions in the global order that `rank` reads at `step` (counted from 0)."""
    start = step * config.batch_size

    local_batch = config.batch_size // config.dp_size
    first = start + rank * local_batch

    offsets = np.arange(local_batch)
    return first + offsets
