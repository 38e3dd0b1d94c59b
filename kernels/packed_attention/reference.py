"""Packed-document attention, one document after another, softmax written out."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def packed_attention(q_THd: Tensor, k_TGd: Tensor, v_TGe: Tensor, ends_D: Tensor, scale: float) -> Tensor:
    """See `kernels.packed_attention.packed_attention`. Computes in float32, in float64 for float64 inputs."""
    wide = torch.float64 if q_THd.dtype == torch.float64 else torch.float32
    repeats = q_THd.shape[1] // k_TGd.shape[1]
    ends = [0, *ends_D.tolist()]
    parts = []
    for start, stop in itertools.pairwise(ends):
        q_Hsd = q_THd[start:stop].to(wide).transpose(0, 1)
        k_Hsd = k_TGd[start:stop].to(wide).transpose(0, 1).repeat_interleave(repeats, dim=0)
        v_Hse = v_TGe[start:stop].to(wide).transpose(0, 1).repeat_interleave(repeats, dim=0)
        future_ss = torch.ones(stop - start, stop - start, dtype=torch.bool, device=q_THd.device).triu(1)
        logits_Hss = (q_Hsd @ k_Hsd.mT * scale).masked_fill(future_ss, -torch.inf)
        weights_Hss = torch.softmax(logits_Hss, dim=-1)
        parts.append((weights_Hss @ v_Hse).transpose(0, 1))
    parts.append(v_TGe.new_zeros(len(q_THd) - ends[-1], q_THd.shape[1], v_TGe.shape[2], dtype=wide))
    return torch.cat(parts).to(q_THd.dtype)
