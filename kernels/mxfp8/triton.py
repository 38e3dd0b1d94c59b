# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""MXFP8 in Triton, by integers only. A program takes a tile of rows and whole blocks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.interpreter import INTERPRETED
from kernels.minifloat import E4M3
from kernels.minifloat.triton import decode, encode
from kernels.mxfp8.form import BLOCK, EMAX, MXFP8, NAN_SCALE, THREE_QUARTERS, Mode


@triton.jit
def quantise_kernel(
    x_ptr, codes_ptr, scales_ptr, rows, width, num_blocks, x_row, x_col,
    RCEIL: tl.constexpr, EMAX: tl.constexpr, EDGE: tl.constexpr, NAN_SCALE: tl.constexpr,
    MANTISSA: tl.constexpr, BIAS: tl.constexpr, SIGN: tl.constexpr, MAX: tl.constexpr, NAN: tl.constexpr,
    BLOCK: tl.constexpr, TILE_R: tl.constexpr, TILE_B: tl.constexpr,
):  # fmt: skip
    """Codes and scales of TILE_R rows and TILE_B blocks of each."""
    rs = tl.program_id(0) * TILE_R + tl.arange(0, TILE_R)
    bs = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    cols = bs[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    ok = (rs < rows)[:, None, None] & (cols < width)[None, :, :]
    x = tl.load(x_ptr + rs.to(tl.int64)[:, None, None] * x_row + cols[None, :, :] * x_col, mask=ok, other=0.0)
    x = x.to(tl.float32)
    magnitude = tl.max(x.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=2)
    subnormal = magnitude < 0x00800000
    normalised = tl.where(subnormal, magnitude, 0).to(tl.float32).to(tl.int32, bitcast=True)
    bits = tl.where(subnormal, normalised, magnitude)
    power = (bits >> 23) - tl.where(subnormal, 149, 0) - (127 + EMAX)
    if RCEIL:
        power += ((bits & 0x7FFFFF) > EDGE).to(tl.int32)
    power = tl.minimum(tl.maximum(power, -127), 127)
    finite = magnitude < 0x7F800000
    scale = tl.where(finite, power + 127, NAN_SCALE)
    scale_ok = (rs < rows)[:, None] & (bs < num_blocks)[None, :]
    scale_ptrs = scales_ptr + rs.to(tl.int64)[:, None] * num_blocks + bs[None, :]
    tl.store(scale_ptrs, scale.to(tl.uint8), mask=scale_ok)
    powers = tl.broadcast_to(tl.where(finite, power, 0)[:, :, None], (TILE_R, TILE_B, BLOCK))
    code = encode(x, powers, MANTISSA, BIAS, SIGN, MAX, NAN)
    tl.store(codes_ptr + rs.to(tl.int64)[:, None, None] * width + cols[None, :, :], code.to(tl.uint8), mask=ok)


@triton.jit
def dequantise_kernel(
    codes_ptr, scales_ptr, out_ptr, rows, width, num_blocks,
    NAN_SCALE: tl.constexpr, MANTISSA: tl.constexpr, BIAS: tl.constexpr, SIGN: tl.constexpr, NAN: tl.constexpr,
    BLOCK: tl.constexpr, TILE_R: tl.constexpr, TILE_B: tl.constexpr,
):  # fmt: skip
    """float32 values of TILE_R rows and TILE_B blocks of each."""
    rs = tl.program_id(0) * TILE_R + tl.arange(0, TILE_R)
    bs = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    cols = bs[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    ok = (rs < rows)[:, None, None] & (cols < width)[None, :, :]
    offsets = rs.to(tl.int64)[:, None, None] * width + cols[None, :, :]
    code = tl.load(codes_ptr + offsets, mask=ok, other=0).to(tl.int32)
    scale_ok = (rs < rows)[:, None] & (bs < num_blocks)[None, :]
    scale = tl.load(scales_ptr + rs.to(tl.int64)[:, None] * num_blocks + bs[None, :], mask=scale_ok, other=127)
    scale = scale.to(tl.int32)
    factor = tl.where(scale == 0, 0x00400000, scale << 23).to(tl.float32, bitcast=True)
    factor = tl.where(scale == NAN_SCALE, float("nan"), factor)
    value = decode(code, MANTISSA, BIAS, SIGN)
    value = tl.where((code & ((1 << SIGN) - 1)) == NAN, float("nan"), value)
    tl.store(out_ptr + offsets, value * factor[:, :, None], mask=ok)


def _grid(rows: int, num_blocks: int) -> tuple[tuple[int, int], dict[str, int]]:
    tile_r, tile_b = 4, 8
    if INTERPRETED:
        tile_b = min(triton.next_power_of_2(num_blocks), 4)
        tile_r = min(triton.next_power_of_2(rows), 4096 // tile_b)
    return (triton.cdiv(rows, tile_r), triton.cdiv(num_blocks, tile_b)), {"TILE_R": tile_r, "TILE_B": tile_b}


def quantise(x_RK: Tensor, mode: Mode) -> MXFP8:
    """The Triton path of `kernels.mxfp8.quantise`."""
    rows, width = x_RK.shape
    num_blocks = -(-width // BLOCK)
    codes_RK = x_RK.new_empty(rows, width, dtype=torch.uint8)
    scales_RB = x_RK.new_empty(rows, num_blocks, dtype=torch.uint8)
    if codes_RK.numel():
        grid, tiles = _grid(rows, num_blocks)
        quantise_kernel[grid](
            x_RK, codes_RK, scales_RB, rows, width, num_blocks, *x_RK.stride(),
            RCEIL=mode == "rceil", EMAX=EMAX, EDGE=THREE_QUARTERS, NAN_SCALE=NAN_SCALE, MANTISSA=E4M3.mantissa_bits,
            BIAS=E4M3.bias, SIGN=E4M3.sign_bit, MAX=E4M3.max_code, NAN=E4M3.nan_code, BLOCK=BLOCK, **tiles,
        )  # fmt: skip
    return MXFP8(codes=codes_RK, scales=scales_RB)


def dequantise(quantised: MXFP8) -> Tensor:
    """The Triton path of `kernels.mxfp8.dequantise`."""
    rows, width = quantised.codes.shape
    num_blocks = quantised.scales.shape[1]
    out_RK = quantised.codes.new_empty(rows, width, dtype=torch.float32)
    if out_RK.numel():
        grid, tiles = _grid(rows, num_blocks)
        dequantise_kernel[grid](
            quantised.codes, quantised.scales, out_RK, rows, width, num_blocks,
            NAN_SCALE=NAN_SCALE, MANTISSA=E4M3.mantissa_bits, BIAS=E4M3.bias, SIGN=E4M3.sign_bit, NAN=E4M3.nan_code,
            BLOCK=BLOCK, **tiles,
        )  # fmt: skip
    return out_RK
