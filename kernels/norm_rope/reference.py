"""RMSNorm over a head, then rotary position embedding (Su et al., arXiv 2104.09864; halves rotated, as in Qwen3)."""

from __future__ import annotations

import torch
from torch import Tensor


def norm_rope(x_THd: Tensor, weight_d: Tensor, cos_Tr: Tensor, sin_Tr: Tensor, epsilon: float) -> Tensor:
    """See `kernels.norm_rope.norm_rope`. Computes in float32, in float64 for float64 inputs."""
    wide = torch.float64 if x_THd.dtype == torch.float64 else torch.float32
    x = x_THd.to(wide)
    normed = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * weight_d.to(wide)
    first, second = normed.chunk(2, dim=-1)
    cos, sin = cos_Tr.to(wide).unsqueeze(1), sin_Tr.to(wide).unsqueeze(1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x_THd.dtype)
