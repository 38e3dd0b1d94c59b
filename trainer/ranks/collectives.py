"""Exchanges between processes that gradients flow through.

Shape letters: W processes of a group, N rows of one process, M rows that it receives, D their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from trainer.ranks.wire import Wire, packed, unpacked


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_N: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        parts = [torch.empty_like(x_N, memory_format=torch.contiguous_format) for _ in range(group.size())]
        dist.all_gather(parts, x_N.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        parts = [*grads[0].float().contiguous().chunk(ctx.group.size())]
        own = torch.empty_like(parts[0])
        dist.reduce_scatter(own, parts, group=ctx.group)
        return own.to(grads[0].dtype), None


class _Exchanged(torch.autograd.Function):
    """Rounding on the way passes gradients straight through; they travel in their own precision."""

    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, sent_W: Sequence[int], received_W: Sequence[int], group: ProcessGroup, wire: Wire
    ) -> Tensor:
        ctx.counts = (sent_W, received_W, group)
        parts = tuple(_exchange(part_N, sent_W, received_W, group) for part_N in packed(x_ND, wire))
        return unpacked(parts, wire, x_ND.shape[1], x_ND.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        sent_W, received_W, group = ctx.counts
        return _exchange(grads[0], received_W, sent_W, group), None, None, None, None


def gathered(x_N: Tensor, group: ProcessGroup) -> Tensor:
    """[W * N, ...] the rows of all processes, in their order; the gradient of a row is summed over them in float32."""
    out: Tensor = _Gathered.apply(x_N, group)  # type: ignore[no-untyped-call]
    return out


def exchanged(
    x_ND: Tensor, sent_W: Sequence[int], received_W: Sequence[int], group: ProcessGroup, wire: Wire = None
) -> Tensor:
    """[M, D] what the others sent here, in x's dtype. `sent_W` rows go to each process, `received_W` come from each.

    On the way they have the form that `wire` names.
    """
    out: Tensor = _Exchanged.apply(x_ND, sent_W, received_W, group, wire)  # type: ignore[no-untyped-call]
    return out


def _exchange(x_N: Tensor, sent_W: Sequence[int], received_W: Sequence[int], group: ProcessGroup) -> Tensor:
    out_M = x_N.new_empty(sum(received_W), *x_N.shape[1:])
    dist.all_to_all_single(out_M, x_N.contiguous(), [*received_W], [*sent_W], group=group)
    return out_M
