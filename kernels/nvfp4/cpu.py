"""NVFP4 in torch. Rows are done in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from kernels.minifloat import E2M1, E4M3, cpu
from kernels.nvfp4.form import BLOCK, FULL_RANGE, LARGEST, MIN_ROW_SCALE, MIN_SCALE_CODE, NVFP4, Scaling

_PIECE = 1 << 16
Divide = Callable[[Tensor, Tensor], Tensor]


def quantise(x_RK: Tensor, scaling: Scaling) -> NVFP4:
    """The CPU path of `kernels.nvfp4.quantise`."""
    return quantise_with(x_RK, scaling, torch.div)


def quantise_with(x_RK: Tensor, scaling: Scaling, divide: Divide) -> NVFP4:
    """As `quantise`, with all three divisions by `divide` (study.py measures what an approximate one changes)."""
    rows, width = x_RK.shape
    codes_RK = torch.empty(rows, -(-width // 2), dtype=torch.uint8)
    scales_RB = torch.empty(rows, -(-width // BLOCK), dtype=torch.uint8)
    row_scales_R = torch.empty(rows, dtype=torch.float32)
    amax = x_RK.abs().max().float() if scaling == "tensor" and x_RK.numel() else None
    step = max(1, _PIECE // max(width, 1))
    for start in range(0, rows, step):
        piece = slice(start, start + step)
        outputs = (codes_RK[piece], scales_RB[piece], row_scales_R[piece])
        _quantise_piece(x_RK[piece], amax, divide, *outputs)
    return NVFP4(codes=codes_RK, scales=scales_RB, row_scales=row_scales_R, width=width)


def _quantise_piece(
    x_nK: Tensor, amax: Tensor | None, divide: Divide, codes_nK: Tensor, scales_nB: Tensor, row_scales_n: Tensor
) -> None:
    blocks_nBb = functional.pad(x_nK.float(), (0, -x_nK.shape[1] % BLOCK)).view(len(x_nK), scales_nB.shape[1], BLOCK)
    amax_nB = blocks_nBb.abs().amax(dim=2)
    amax_n = amax_nB.amax(dim=1) if amax is None else amax.expand(len(x_nK))
    scaled_n = divide(amax_n, torch.tensor(FULL_RANGE)).clamp(min=MIN_ROW_SCALE).masked_fill(amax_n == 0, 1.0)
    finite_n = amax_n.isfinite()
    row_scales_n.copy_(scaled_n.masked_fill(~finite_n, torch.nan))
    safe_n1 = scaled_n.masked_fill(~finite_n, 1.0).unsqueeze(1)
    wanted_nB = divide(divide(amax_nB, torch.tensor(LARGEST)), safe_n1).masked_fill_(~finite_n[:, None], torch.nan)
    scales_nB.copy_((cpu.encode(wanted_nB, 0, E4M3) & 0x7F).clamp_(min=MIN_SCALE_CODE))
    divisors_nB = (cpu.decode(scales_nB, E4M3) * safe_n1).masked_fill_(~finite_n[:, None], 1.0)
    clean_nBb = blocks_nBb.masked_fill(~finite_n[:, None, None], 0.0)
    codes = cpu.encode(divide(clean_nBb, divisors_nB.unsqueeze(2)), 0, E2M1).view(len(x_nK), -1)
    codes_nK.copy_((codes[:, ::2] | (codes[:, 1::2] << 4))[:, : codes_nK.shape[1]])


def dequantise(quantised: NVFP4) -> Tensor:
    """The CPU path of `kernels.nvfp4.dequantise`."""
    packed = quantised.codes
    codes_RK = torch.stack([packed & 15, packed >> 4], dim=2).flatten(1)[:, : quantised.width]
    spread_RK = cpu.decode(quantised.scales, E4M3).repeat_interleave(BLOCK, dim=1)[:, : quantised.width]
    return (cpu.decode(codes_RK, E2M1) * spread_RK) * quantised.row_scales.unsqueeze(1)
