"""RMSNorm and RoPE on CPUs: closed-form gradient, rows in pieces that stay in the cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_PIECE = 1 << 17


def norm_rope(x_THd: Tensor, weight_d: Tensor, cos_Tr: Tensor, sin_Tr: Tensor, epsilon: float) -> Tensor:
    """The CPU path of `kernels.norm_rope.norm_rope`."""
    y_THd: Tensor = _NormRope.apply(x_THd, weight_d, cos_Tr, sin_Tr, epsilon)  # type: ignore[no-untyped-call]
    return y_THd


def _pieces(x_THd: Tensor) -> list[slice]:
    step = max(1, _PIECE // max(x_THd[0].numel() if len(x_THd) else 1, 1))
    return [slice(start, start + step) for start in range(0, len(x_THd), step)]


def _rotate(x_tHd: Tensor, cos_t1r: Tensor, sin_t1r: Tensor, out_tHd: Tensor) -> None:
    first, second = x_tHd.chunk(2, dim=-1)
    out_first, out_second = out_tHd.chunk(2, dim=-1)
    torch.mul(first, cos_t1r, out=out_first).addcmul_(second, sin_t1r, value=-1)
    torch.mul(second, cos_t1r, out=out_second).addcmul_(first, sin_t1r)


class _NormRope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_THd: Tensor, weight_d: Tensor, cos_Tr: Tensor, sin_Tr: Tensor, epsilon: float) -> Tensor:
        y_THd = torch.empty(x_THd.shape, dtype=x_THd.dtype)
        rms_TH1 = torch.empty(*x_THd.shape[:2], 1, dtype=torch.float32)
        weight = weight_d.float()
        for part in _pieces(x_THd):
            x = x_THd[part].float()
            torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon, out=rms_TH1[part])
            normed = x.mul(rms_TH1[part]).mul_(weight)
            rotated = torch.empty_like(normed)
            _rotate(normed, cos_Tr[part].unsqueeze(1), sin_Tr[part].unsqueeze(1), rotated)
            y_THd[part] = rotated
        ctx.save_for_backward(x_THd, weight_d, cos_Tr, sin_Tr, rms_TH1)
        return y_THd

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_THd, weight_d, cos_Tr, sin_Tr, rms_TH1 = ctx.saved_tensors
        dx_THd = torch.empty(x_THd.shape, dtype=x_THd.dtype)
        dweight_d = torch.zeros(weight_d.shape, dtype=torch.float32)
        weight = weight_d.float()
        for part in _pieces(x_THd):
            rms = rms_TH1[part]
            hat = x_THd[part].float() * rms
            dy = grads[0][part].float()
            dnormed = torch.empty(dy.shape)
            _rotate(dy, cos_Tr[part].unsqueeze(1), -sin_Tr[part].unsqueeze(1), dnormed)
            dweight_d += (dnormed * hat).sum(dim=(0, 1))
            dhat = dnormed.mul_(weight)
            mean = (dhat * hat).mean(dim=-1, keepdim=True)
            dx_THd[part] = dhat.addcmul_(hat, mean, value=-1).mul_(rms)
        return dx_THd, dweight_d.to(weight_d.dtype), None, None, None
