"""MXFP8: E4M3 values with one power-of-two scale per 32 along the contraction dimension.

Shape letters: R rows, K the contraction dimension (last), B = ceil(K / 32) blocks of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.mxfp8 import cpu, reference
from kernels.mxfp8.form import BLOCK, MXFP8, Mode

__all__ = ["BLOCK", "MXFP8", "Mode", "dequantise", "quantise"]

_QUANTISE = Operation(
    name="mxfp8.quantise",
    reference=reference.quantise,
    cpu=cpu.quantise,
    triton="kernels.mxfp8.triton:quantise",
    dtypes={Backend.REFERENCE: FLOATS, Backend.CPU: FLOATS, Backend.TRITON: FLOATS},
)
_DEQUANTISE = Operation(
    name="mxfp8.dequantise",
    reference=reference.dequantise,
    cpu=cpu.dequantise,
    triton="kernels.mxfp8.triton:dequantise",
    dtypes=dict.fromkeys(Backend, (torch.uint8,)),
)


def quantise(x_RK: Tensor, *, mode: Mode = "rceil", backend: Backend | str | None = None) -> MXFP8:
    """Quantise along the last dimension; a last block may be shorter than 32. Same bits on every backend.

    A block with a NaN or an infinity gets the NaN scale: it is NaN as a whole, and no other block changes. Zeros give
    scale 2^-127. To contract over the other dimension, quantise the transpose: a transposed MXFP8 is not an MXFP8.
    """
    _check(x_RK, "mxfp8")
    require(mode in ("rceil", "floor"), f"mxfp8: unknown mode {mode!r}", "use rceil or floor")
    return _QUANTISE.choose(x_RK, backend)(x_RK, mode)


def dequantise(quantised: MXFP8, *, backend: Backend | str | None = None) -> Tensor:
    """float32 [R, K] values, exact."""
    return _DEQUANTISE.choose(quantised.codes, backend)(quantised)


def _check(x_RK: Tensor, name: str) -> None:
    require(x_RK.dim() == 2, f"{name}: {tuple(x_RK.shape)} is not a matrix", "flatten leading dimensions to [R, K]")
