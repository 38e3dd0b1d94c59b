"""RMSNorm over each head, then rotary position embedding, in one pass over queries or keys.

Shape letters: T tokens, H heads, d head size, r = d / 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.norm_rope import cpu, reference

__all__ = ["norm_rope", "rope_tables"]

_OPERATION = Operation(
    name="norm_rope",
    reference=reference.norm_rope,
    cpu=cpu.norm_rope,
    triton="kernels.norm_rope.triton:norm_rope",
    dtypes={Backend.CPU: FLOATS, Backend.TRITON: FLOATS},
)


def rope_tables(positions_T: Tensor, size: int, *, base: float) -> tuple[Tensor, Tensor]:
    """cos and sin of position * base ** (-2 i / size) for i < size / 2, float32 [T, r], computed in float64."""
    frequencies_r = base ** (-torch.arange(0, size, 2, dtype=torch.float64, device=positions_T.device) / size)
    angles_Tr = positions_T.double().unsqueeze(1) * frequencies_r
    return angles_Tr.cos().float(), angles_Tr.sin().float()


def norm_rope(
    x_THd: Tensor,
    weight_d: Tensor,
    cos_Tr: Tensor,
    sin_Tr: Tensor,
    *,
    epsilon: float = 1e-6,
    backend: Backend | str | None = None,
) -> Tensor:
    """rotate(x / sqrt(mean(x^2) + epsilon) * weight); differentiable in x and weight.

    Halves are rotated: (a, b) -> (a cos - b sin, b cos + a sin). Everything between input and output is float32.
    Raises UserInputError on shapes that do not fit.
    """
    require(x_THd.dim() == 3, f"norm_rope: {tuple(x_THd.shape)} is not [T, H, d]", "pass [T, H, d]")
    tokens, _, size = x_THd.shape
    require(
        size % 2 == 0 and weight_d.shape == (size,) and cos_Tr.shape == sin_Tr.shape == (tokens, size // 2),
        f"norm_rope: x {tuple(x_THd.shape)}, weight {tuple(weight_d.shape)}, tables {tuple(cos_Tr.shape)} do not fit",
        "pass x [T, H, d], weight [d] and tables [T, d / 2] with an even d",
    )
    return _OPERATION.choose(x_THd, backend)(x_THd, weight_d, cos_Tr, sin_Tr, epsilon)
