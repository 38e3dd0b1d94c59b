"""MXFP8 in torch. Rows are done in pieces that stay in the cache."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.minifloat import E4M3, cpu
from kernels.mxfp8.form import BLOCK, EMAX, MXFP8, NAN_SCALE, THREE_QUARTERS, Mode

_PIECE = 1 << 16


def quantise(x_RK: Tensor, mode: Mode) -> MXFP8:
    """The CPU path of `kernels.mxfp8.quantise`."""
    rows, width = x_RK.shape
    codes_RK = torch.empty(rows, width, dtype=torch.uint8)
    scales_RB = torch.empty(rows, -(-width // BLOCK), dtype=torch.uint8)
    step = max(1, _PIECE // max(width, 1))
    for start in range(0, rows, step):
        piece = slice(start, start + step)
        _quantise_piece(x_RK[piece], mode, codes_RK[piece], scales_RB[piece])
    return MXFP8(codes=codes_RK, scales=scales_RB)


def _quantise_piece(x_nK: Tensor, mode: Mode, codes_nK: Tensor, scales_nB: Tensor) -> None:
    width = x_nK.shape[1]
    padded_nK = functional.pad(x_nK.float(), (0, -width % BLOCK))
    blocks_nBb = padded_nK.view(len(x_nK), scales_nB.shape[1], BLOCK)
    magnitude_nB = (blocks_nBb.view(torch.int32) & 0x7FFFFFFF).amax(dim=2)
    exponent_nB, significand_nB = cpu.split(magnitude_nB)
    power_nB = exponent_nB - (127 + EMAX)
    if mode == "rceil":
        power_nB += (significand_nB & 0x7FFFFF) > THREE_QUARTERS
    power_nB.clamp_(-127, 127)
    bad_nB = magnitude_nB >= 0x7F800000
    scales_nB.copy_((power_nB + 127).masked_fill_(bad_nB, NAN_SCALE))
    codes = cpu.encode(blocks_nBb, power_nB.masked_fill_(bad_nB, 0).unsqueeze(2), E4M3)
    codes_nK.copy_(codes.view(padded_nK.shape)[:, :width])


def dequantise(quantised: MXFP8) -> Tensor:
    """The CPU path of `kernels.mxfp8.dequantise`."""
    factors_RB = scale_values(quantised.scales)
    spread_RK = factors_RB.repeat_interleave(BLOCK, dim=1)[:, : quantised.codes.shape[1]]
    return cpu.decode(quantised.codes, E4M3) * spread_RK


def scale_values(scales_RB: Tensor) -> Tensor:
    """float32 values of E8M0 bytes."""
    bytes_RB = scales_RB.to(torch.int32)
    bits_RB = torch.where(bytes_RB == 0, 0x00400000, bytes_RB << 23)
    return bits_RB.view(torch.float32).masked_fill(bytes_RB == NAN_SCALE, torch.nan)
