"""Which samples each data-parallel rank reads.

The global order is fixed: step s reads the positions s * batch_size to (s + 1) * batch_size - 1.
This file only says how the ranks share them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer import BatchLayout


def rank_positions(step: int, rank: int, config: BatchLayout) -> NDArray[np.int64]:
    """The positions in the global order that `rank` reads at `step` (counted from 0)."""
    start = step * config.batch_size

    local_batch = config.batch_size // config.dp_size
    turns = np.arange(local_batch, dtype=np.int64)

    positions = start + rank + turns * config.dp_size

    return positions
