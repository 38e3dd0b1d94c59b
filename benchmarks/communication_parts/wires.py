"""Tokens to experts and back over gloo, in the precision of the report and in others (RC2-7.7).

Shape letters: N rows of each process, D their width, K experts a token goes to.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.communication_parts.gang import together
from benchmarks.communication_parts.traffic import Traffic
from trainer.ranks.collectives import exchanged
from trainer.ranks.wire import Wire, packed, unpacked

_WIRES: dict[str, Wire] = {"bf16": "bf16", "mxfp8": "mxfp8", "nvfp4": "nvfp4"}


def sent(rows: int, width: int) -> dict[str, Any]:
    """Bits of each value that arrived, and whether it is the same bits as rounding behind the wire."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    x_ND, size = torch.randn(rows, width, generator=generator), dist.get_world_size()
    group, counts = dist.group.WORLD, [rows // size] * size
    assert group is not None
    plain_ND = exchanged(x_ND, counts, counts, group)
    found = {}
    for name, wire in _WIRES.items():
        with Traffic() as traffic:
            got_ND = exchanged(x_ND, counts, counts, group, wire)
        values = (size - 1) * counts[0] * width
        is_equal = torch.equal(got_ND, unpacked(packed(plain_ND, wire), wire, width, torch.float32))
        found[name] = {"bits": 8 * traffic.counts.total_bytes / values, "same_bits": is_equal}
    return found


def combine_error(wire: Wire, rows: int, width: int, top_k: int) -> float:
    """Relative error of the sum over a token's experts when their results came back in that form."""
    generator = torch.Generator().manual_seed(7)
    result_KND = torch.randn(top_k, rows, width, generator=generator)
    weight_KN1 = torch.rand(top_k, rows, 1, generator=generator)
    weight_KN1 /= weight_KN1.sum(dim=0)

    def total(results: list[Tensor]) -> Tensor:
        return (torch.stack(results) * weight_KN1).sum(dim=0)

    exact = total([*result_KND])
    came_back = [unpacked(packed(each, wire), wire, width, torch.float32) for each in result_KND]
    return float((total(came_back) - exact).norm() / exact.norm())


def measure(*, size: int, rows: int = 512, width: int = 256, top_k: int = 8) -> dict[str, Any]:
    by_wire = together(sent, size, rows, width)[0]
    for name, wire in _WIRES.items():
        by_wire[name]["combine_error"] = combine_error(wire, rows, width, top_k)
    return dict(by_wire)
