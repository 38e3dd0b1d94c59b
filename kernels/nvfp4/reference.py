"""NVFP4 with one float32 scale per token, in numpy: integer encoders, IEEE float32 division everywhere (RC2-8.2, 8.5).

row scale    g = amax_row / (6 * 448)
block scale  s = E4M3((amax_block / 6) / g), at least 2^-6
code         q = E2M1(x / (s * g))
value        (q * s) * g
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from kernels.minifloat import E2M1, E4M3, reference
from kernels.nvfp4.form import BLOCK, FULL_RANGE, LARGEST, MIN_ROW_SCALE, MIN_SCALE_CODE, NVFP4, Scaling

Floats = NDArray[np.float32]
_NO_SHIFT = np.zeros((), dtype=np.int32)


def quantise(x_RK: Tensor, scaling: Scaling) -> NVFP4:
    """See `kernels.nvfp4.quantise`."""
    values = x_RK.detach().float().cpu().numpy()
    rows, width = values.shape
    num_blocks = -(-width // BLOCK)
    padded = np.zeros((rows, num_blocks * BLOCK), dtype=np.float32)
    padded[:, :width] = values
    blocks = padded.reshape(rows, num_blocks, BLOCK)
    amax_blocks = np.abs(blocks).max(axis=2, initial=0.0)
    amax_rows = amax_blocks.max(axis=1, initial=0.0)
    if scaling == "tensor":
        amax_rows = np.full(rows, amax_rows.max(initial=0.0), dtype=np.float32)
    row_scales = _row_scales(amax_rows)
    finite = np.isfinite(row_scales)
    safe = np.where(finite, row_scales, np.float32(1.0))[:, None]
    wanted = np.where(finite[:, None], (amax_blocks / np.float32(LARGEST)) / safe, np.float32(np.nan))
    scales = np.maximum(reference.encode(wanted, _NO_SHIFT, E4M3) & 0x7F, MIN_SCALE_CODE).astype(np.uint8)
    divisors: Floats = np.where(finite[:, None], reference.decode(scales, E4M3) * safe, 1.0).astype(np.float32)
    clean: Floats = np.where(finite[:, None, None], blocks, np.float32(0.0)).astype(np.float32)
    quotients: Floats = clean / divisors[:, :, None]
    codes = reference.encode(quotients, _NO_SHIFT, E2M1).reshape(padded.shape)
    packed = (codes[:, ::2] | (codes[:, 1::2] << 4))[:, : -(-width // 2)]
    return NVFP4(
        codes=from_numpy(np.ascontiguousarray(packed)),
        scales=from_numpy(scales),
        row_scales=from_numpy(row_scales),
        width=width,
    )


def _row_scales(amax_rows: Floats) -> Floats:
    scaled = np.maximum(amax_rows / np.float32(FULL_RANGE), np.float32(MIN_ROW_SCALE))
    scaled = np.where(amax_rows == 0, np.float32(1.0), scaled)
    out: Floats = np.where(np.isfinite(amax_rows), scaled, np.float32(np.nan)).astype(np.float32)
    return out


def dequantise(quantised: NVFP4) -> Tensor:
    """See `kernels.nvfp4.dequantise`."""
    packed = quantised.codes.cpu().numpy()
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), 2 * packed.shape[1])[:, : quantised.width]
    scales = reference.decode(quantised.scales.cpu().numpy(), E4M3)
    spread = np.repeat(scales, BLOCK, axis=1)[:, : quantised.width]
    out = (reference.decode(codes, E2M1) * spread) * quantised.row_scales.cpu().numpy()[:, None]
    return from_numpy(out.astype(np.float32)).to(torch.float32)
