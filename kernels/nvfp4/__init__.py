"""NVFP4: E2M1 values, one E4M3 scale per 16 along the contraction dimension, one float32 scale per token row.

Shape letters: R rows (tokens), K the contraction dimension (last), B = ceil(K / 16) blocks of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.nvfp4 import cpu, reference
from kernels.nvfp4.form import BLOCK, NVFP4, Scaling

__all__ = ["BLOCK", "NVFP4", "Scaling", "dequantise", "quantise"]

_QUANTISE = Operation(
    name="nvfp4.quantise",
    reference=reference.quantise,
    cpu=cpu.quantise,
    triton="kernels.nvfp4.triton:quantise",
    dtypes={Backend.REFERENCE: FLOATS, Backend.CPU: FLOATS, Backend.TRITON: FLOATS},
)
_DEQUANTISE = Operation(
    name="nvfp4.dequantise",
    reference=reference.dequantise,
    cpu=cpu.dequantise,
    triton="kernels.nvfp4.triton:dequantise",
    dtypes=dict.fromkeys(Backend, (torch.uint8,)),
)


def quantise(x_RK: Tensor, *, scaling: Scaling = "token", backend: Backend | str | None = None) -> NVFP4:
    """Quantise along the last dimension; a last block may be shorter than 16. Same bits on every backend.

    With scaling "token" a row's result depends on that row alone (RC2-8.2); "tensor" is stock NVFP4, kept to compare
    with (RC2-8.3). An all-zero row has row scale 1 and zero codes. A row with a NaN or an infinity is NaN as a whole
    (row scale NaN, block scales 0x7F, codes 0); with "tensor" scaling that is every row.
    """
    require(x_RK.dim() == 2, f"nvfp4: {tuple(x_RK.shape)} is not a matrix", "flatten leading dimensions to [R, K]")
    require(scaling in ("token", "tensor"), f"nvfp4: unknown scaling {scaling!r}", "use token or tensor")
    return _QUANTISE.choose(x_RK, backend)(x_RK, scaling)


def dequantise(quantised: NVFP4, *, backend: Backend | str | None = None) -> Tensor:
    """float32 [R, K] values: (code * block scale) * row scale."""
    return _DEQUANTISE.choose(quantised.codes, backend)(quantised)
