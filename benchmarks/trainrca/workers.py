"""Cases beside each other, each in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Item], Result], items: Sequence[Item], num_workers: int) -> Iterator[Result]:
    """`work(item)` of each item in order; with one worker here. Both must be picklable with more."""
    if num_workers == 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context, max_tasks_per_child=8) as pool:
        yield from pool.map(work, items)
