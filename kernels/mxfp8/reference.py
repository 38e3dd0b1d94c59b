"""MXFP8 in numpy integer code (OCP MX 1.0, section 6.3)."""

from __future__ import annotations

import numpy as np
from torch import Tensor, from_numpy

from kernels.minifloat import E4M3, reference
from kernels.mxfp8.form import BLOCK, EMAX, MXFP8, NAN_SCALE, THREE_QUARTERS, Mode


def quantise(x_RK: Tensor, mode: Mode) -> MXFP8:
    """See `kernels.mxfp8.quantise`."""
    values = x_RK.detach().float().cpu().numpy()
    rows, width = values.shape
    num_blocks = -(-width // BLOCK)
    padded = np.zeros((rows, num_blocks * BLOCK), dtype=np.float32)
    padded[:, :width] = values
    blocks = padded.reshape(rows, num_blocks, BLOCK)
    magnitude = (blocks.view(np.uint32) & 0x7FFFFFFF).max(axis=2, initial=0).astype(np.int32)
    exponent, significand = reference.split(magnitude)
    power = exponent - 127 - EMAX
    if mode == "rceil":
        power += (significand & 0x7FFFFF) > THREE_QUARTERS
    power = np.clip(power, -127, 127)
    finite = magnitude < 0x7F800000
    scales = np.where(finite, power + 127, NAN_SCALE).astype(np.uint8)
    codes = reference.encode(blocks, np.where(finite, power, 0)[:, :, None], E4M3)
    kept = np.ascontiguousarray(codes.reshape(padded.shape)[:, :width])
    return MXFP8(codes=from_numpy(kept), scales=from_numpy(scales))


def dequantise(quantised: MXFP8) -> Tensor:
    """See `kernels.mxfp8.dequantise`."""
    codes, scales = quantised.codes.cpu().numpy(), quantised.scales.cpu().numpy().astype(np.int32)
    powers = np.ldexp(np.float32(1.0), np.minimum(scales, NAN_SCALE - 1) - 127)
    factors = np.where(scales == NAN_SCALE, np.float32(np.nan), powers)
    spread = np.repeat(factors.astype(np.float32), BLOCK, axis=1)[:, : codes.shape[1]]
    return from_numpy(reference.decode(codes, E4M3) * spread)
