"""Attention-balanced sampling (R801-7.9): rows of like work share a step, and the ranks of a step share its work.

A window of W steps is a fixed stretch of the global order. Its rows are sorted by work and cut into W steps, so a row
moves by less than one window and no row is lost or read twice. Nothing of it depends on the number of ranks or on
what was read before: a resume, with any number of ranks, plans the same steps.

Letters: W steps of the window, B rows of a step, R ranks.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def plan_window(costs: Ints, num_steps: int) -> Ints:
    """[W, B] positions within the window that each step reads, ascending in a step; `costs` [W * B] is by position.

    Steps follow each other by the mean position of their rows, so that the window has no ramp from cheap to dear.
    """
    groups_WB = np.sort(np.argsort(costs, kind="stable").reshape(num_steps, -1), axis=1)
    return groups_WB[np.argsort(groups_WB.sum(axis=1), kind="stable")]


def assign_ranks(costs_B: Ints, num_ranks: int) -> Ints:
    """[B] row indices such that place i belongs to rank i % R, which is how a batch is laid out.

    Rows in falling order of work go to the rank with the least so far that still has room.
    """
    room = len(costs_B) // num_ranks
    rows_R: list[list[int]] = [[] for _ in range(num_ranks)]
    ranks = [(0, rank) for rank in range(num_ranks)]
    for row in np.argsort(-costs_B, kind="stable").tolist():
        load, rank = heapq.heappop(ranks)
        rows_R[rank].append(row)
        if len(rows_R[rank]) < room:
            heapq.heappush(ranks, (load + int(costs_B[row]), rank))
    return np.array(rows_R, dtype=np.int64).T.reshape(-1)


def imbalance(costs_B: Ints, num_ranks: int) -> float:
    """Work of the busiest rank over that of the mean rank (R801-7.10) when place i belongs to rank i % R; 1 is even."""
    work_R = costs_B.reshape(-1, num_ranks).sum(axis=0)
    return float(work_R.max() / work_R.mean())


def drift(share_S: NDArray[np.float64], wanted_S: NDArray[np.float64]) -> float:
    """Half the summed difference between the shares of the sources that a step has and should have; 0 to 1."""
    return float(np.abs(share_S - wanted_S).sum() / 2)
