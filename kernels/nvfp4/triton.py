# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""NVFP4 per token in Triton. A program takes a few rows: once over them for the rows' amax, once to quantise.

Divisions are `div_rn`, IEEE rounded: Triton's `/` may become an approximate reciprocal (RC2-8.5).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.interpreter import INTERPRETED
from kernels.minifloat import E2M1, E4M3
from kernels.minifloat.triton import decode, encode
from kernels.nvfp4.form import BLOCK, FULL_RANGE, LARGEST, MIN_ROW_SCALE, MIN_SCALE_CODE, NVFP4, Scaling


@triton.jit
def _pairs(x_ptr, rs, blocks, rows, width, x_row, x_col, ODD: tl.constexpr):
    """Even or odd columns of blocks of 16, float32 [TILE_R, TILE_B, 8]; zeros outside."""
    cols = blocks[:, None] * 16 + tl.arange(0, 8)[None, :] * 2 + ODD
    ok = (rs < rows)[:, None, None] & (cols < width)[None, :, :]
    return tl.load(x_ptr + rs[:, None, None] * x_row + cols[None, :, :] * x_col, mask=ok, other=0.0).to(tl.float32)


@triton.jit
def quantise_kernel(
    x_ptr, amax_ptr, codes_ptr, scales_ptr, row_scales_ptr, rows, width, num_blocks, x_row, x_col,
    full_range, largest, min_row_scale,
    GIVEN_AMAX: tl.constexpr, MIN_SCALE_CODE: tl.constexpr, TILE_R: tl.constexpr, TILE_B: tl.constexpr,
):  # fmt: skip
    """Codes, block scales and row scales of TILE_R rows."""
    rs = (tl.program_id(0) * TILE_R + tl.arange(0, TILE_R)).to(tl.int64)
    row_ok = rs < rows
    top = tl.zeros((TILE_R,), tl.int32)
    if GIVEN_AMAX:
        top += tl.load(amax_ptr).to(tl.int32, bitcast=True)
    else:
        for first in range(0, num_blocks, TILE_B):
            blocks = first + tl.arange(0, TILE_B)
            even = _pairs(x_ptr, rs, blocks, rows, width, x_row, x_col, 0).to(tl.int32, bitcast=True) & 0x7FFFFFFF
            odd = _pairs(x_ptr, rs, blocks, rows, width, x_row, x_col, 1).to(tl.int32, bitcast=True) & 0x7FFFFFFF
            top = tl.maximum(top, tl.max(tl.max(tl.maximum(even, odd), axis=2), axis=1))
    finite = top < 0x7F800000
    amax = tl.where(finite, top, 0).to(tl.float32, bitcast=True)
    scale = tl.maximum(tl.div_rn(amax, tl.zeros_like(amax) + full_range), min_row_scale)
    scale = tl.where(amax == 0.0, 1.0, scale)
    nan = (tl.zeros((TILE_R,), tl.int32) + 0x7FC00000).to(tl.float32, bitcast=True)
    tl.store(row_scales_ptr + rs, tl.where(finite, scale, nan), mask=row_ok)
    for first in range(0, num_blocks, TILE_B):
        blocks = first + tl.arange(0, TILE_B)
        even = _pairs(x_ptr, rs, blocks, rows, width, x_row, x_col, 0)
        odd = _pairs(x_ptr, rs, blocks, rows, width, x_row, x_col, 1)
        even = tl.where(finite[:, None, None], even, 0.0)
        odd = tl.where(finite[:, None, None], odd, 0.0)
        amax_block = tl.max(tl.maximum(tl.abs(even), tl.abs(odd)), axis=2)
        sixth = tl.div_rn(amax_block, tl.zeros_like(amax_block) + largest)
        wanted = tl.div_rn(sixth, tl.broadcast_to(scale[:, None], (TILE_R, TILE_B)))
        code = encode(wanted, tl.zeros((TILE_R, TILE_B), tl.int32), 3, 7, 7, 0x7E, 0x7F) & 0x7F
        code = tl.where(finite[:, None], tl.maximum(code, MIN_SCALE_CODE), 0x7F)
        scale_ok = row_ok[:, None] & (blocks < num_blocks)[None, :]
        tl.store(scales_ptr + rs[:, None] * num_blocks + blocks[None, :], code.to(tl.uint8), mask=scale_ok)
        divisor = tl.where(finite[:, None], decode(code, 3, 7, 7) * scale[:, None], 1.0)
        divisor = tl.broadcast_to(divisor[:, :, None], (TILE_R, TILE_B, 8))
        zero = tl.zeros((TILE_R, TILE_B, 8), tl.int32)
        low = encode(tl.div_rn(even, divisor), zero, 1, 1, 3, 7, 7)
        high = encode(tl.div_rn(odd, divisor), zero, 1, 1, 3, 7, 7)
        half = blocks[:, None] * 8 + tl.arange(0, 8)[None, :]
        half_width = (width + 1) // 2
        ok = row_ok[:, None, None] & (half < half_width)[None, :, :]
        ptrs = codes_ptr + rs[:, None, None] * half_width + half[None, :, :]
        tl.store(ptrs, (low | (high << 4)).to(tl.uint8), mask=ok)


@triton.jit
def dequantise_kernel(
    codes_ptr, scales_ptr, row_scales_ptr, out_ptr, rows, width, num_blocks, TILE_R: tl.constexpr, TILE_B: tl.constexpr
):
    """float32 values of TILE_R rows and TILE_B blocks of each."""
    rs = (tl.program_id(0) * TILE_R + tl.arange(0, TILE_R)).to(tl.int64)
    blocks = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    cols = blocks[:, None] * 16 + tl.arange(0, 16)[None, :]
    ok = (rs < rows)[:, None, None] & (cols < width)[None, :, :]
    half_width = (width + 1) // 2
    packed = tl.load(codes_ptr + rs[:, None, None] * half_width + (cols // 2)[None, :, :], mask=ok, other=0)
    code = (packed.to(tl.int32) >> ((cols % 2) * 4)[None, :, :]) & 15
    scale_ok = (rs < rows)[:, None] & (blocks < num_blocks)[None, :]
    scale = tl.load(scales_ptr + rs[:, None] * num_blocks + blocks[None, :], mask=scale_ok, other=0).to(tl.int32)
    factor = tl.where(scale == 0x7F, float("nan"), decode(scale, 3, 7, 7))
    row_scale = tl.load(row_scales_ptr + rs, mask=rs < rows, other=0.0)
    value = (decode(code, 1, 1, 3) * factor[:, :, None]) * row_scale[:, None, None]
    tl.store(out_ptr + rs[:, None, None] * width + cols[None, :, :], value, mask=ok)


assert (E4M3.mantissa_bits, E4M3.bias, E4M3.sign_bit, E4M3.max_code, E4M3.nan_code) == (3, 7, 7, 0x7E, 0x7F)
assert (E2M1.mantissa_bits, E2M1.bias, E2M1.sign_bit, E2M1.max_code, E2M1.nan_code) == (1, 1, 3, 7, 7)


def _tiles(rows: int, num_blocks: int) -> dict[str, int]:
    if not INTERPRETED:
        return {"TILE_R": 4, "TILE_B": 32}
    tile_b = min(triton.next_power_of_2(num_blocks), 4)
    return {"TILE_R": min(triton.next_power_of_2(rows), 8192 // tile_b), "TILE_B": tile_b}


def quantise(x_RK: Tensor, scaling: Scaling) -> NVFP4:
    """The Triton path of `kernels.nvfp4.quantise`."""
    rows, width = x_RK.shape
    num_blocks = -(-width // BLOCK)
    codes_RK = x_RK.new_empty(rows, -(-width // 2), dtype=torch.uint8)
    scales_RB = x_RK.new_empty(rows, num_blocks, dtype=torch.uint8)
    row_scales_R = x_RK.new_empty(rows, dtype=torch.float32)
    given = scaling == "tensor" and x_RK.numel() > 0
    amax = x_RK.abs().max().float() if given else row_scales_R
    if rows:
        tiles = _tiles(rows, num_blocks)
        quantise_kernel[(triton.cdiv(rows, tiles["TILE_R"]),)](
            x_RK, amax, codes_RK, scales_RB, row_scales_R, rows, width, num_blocks, *x_RK.stride(),
            FULL_RANGE, LARGEST, MIN_ROW_SCALE, GIVEN_AMAX=given, MIN_SCALE_CODE=MIN_SCALE_CODE, **tiles,
        )  # fmt: skip
    return NVFP4(codes=codes_RK, scales=scales_RB, row_scales=row_scales_R, width=width)


def dequantise(quantised: NVFP4) -> Tensor:
    """The Triton path of `kernels.nvfp4.dequantise`."""
    rows, num_blocks = quantised.scales.shape
    out_RK = quantised.codes.new_empty(rows, quantised.width, dtype=torch.float32)
    if out_RK.numel():
        tiles = _tiles(rows, num_blocks)
        grid = (triton.cdiv(rows, tiles["TILE_R"]), triton.cdiv(num_blocks, tiles["TILE_B"]))
        dequantise_kernel[grid](
            quantised.codes, quantised.scales, quantised.row_scales, out_RK, rows, quantised.width, num_blocks, **tiles
        )
    return out_RK
