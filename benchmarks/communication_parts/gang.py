"""Functions that several gloo processes of this machine call together."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
import torch.distributed as dist


def together(function: Callable[..., Any], count: int, *arguments: object) -> list[Any]:
    """What `function(*arguments)` gives in each of `count` processes with one thread, in the order of their ranks."""
    with tempfile.TemporaryDirectory(prefix="l") as folder:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=spawn) as pool:
            waiting = [pool.submit(_member, rank, count, folder, function, arguments) for rank in range(count)]
            return [each.result() for each in waiting]


def _member(rank: int, count: int, folder: str, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
    try:
        return function(*arguments)
    finally:
        dist.destroy_process_group()
