"""Counts what a process receives from the others, and the matrix products that it does, from the calls themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_GATHERS = ("c10d::allgather_", "c10d::_allgather_base_")
_SCATTERS = ("c10d::reduce_scatter_", "c10d::_reduce_scatter_base_")
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


@dataclass(frozen=True)
class Counts:
    """`received_bytes` by collective, as its cheapest algorithm needs; `products` by "rows x inner x columns".

    An all-reduce is a reduce-scatter and an all-gather: 2 (W - 1) / W of its tensor. What stays in its process is free.
    """

    received_bytes: Counter[str] = field(default_factory=Counter)
    products: Counter[str] = field(default_factory=Counter)

    @property
    def total_bytes(self) -> int:
        return sum(self.received_bytes.values())


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = Counts()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name.startswith("c10d::"):
            self.counts.received_bytes[name.removeprefix("c10d::").strip("_")] += _received(name, args)
        elif name in _PRODUCTS:
            left, right = [tensor for tensor in args if isinstance(tensor, Tensor)][-2:]
            rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
            self.counts.products[f"{rows} x {inner} x {columns}"] += left.shape[0] if left.dim() == 3 else 1
        return result


def _received(name: str, args: tuple[Any, ...]) -> int:
    others = dist.get_world_size() - 1
    if name in _GATHERS:
        return _bytes(args[1]) * others
    if name in _SCATTERS:
        return _bytes(args[0]) * others
    if name == "c10d::allreduce_":
        return 2 * _bytes(args[0]) * others // (others + 1)
    if name == "c10d::alltoall_base_":
        output, splits = args[0], args[3]
        own = splits[dist.get_rank()] if splits else len(output) // (others + 1)
        return _bytes(output) - own * _bytes(output[:1]) if len(output) else 0
    return 0


def _bytes(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _each(tensors))


def _each(tensors: Any) -> Iterator[Tensor]:
    if isinstance(tensors, torch.Tensor):
        yield tensors
        return
    for each in tensors:
        yield from _each(each)
