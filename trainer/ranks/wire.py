"""What rows look like while they travel between processes: as they are, or in a low-precision format (RC2-7.7).

Shape letters: N rows, D their width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import mxfp8, nvfp4
from trainer.config import ExpertNumerics, Form

Wire = Form | None  # None: as they are


def wires_of(numerics: ExpertNumerics) -> tuple[Wire, Wire]:
    """How tokens go to their experts, and how results come back."""
    return (numerics.dispatch, numerics.combine) if numerics.products == "quantised" else (None, None)


def packed(x_ND: Tensor, wire: Wire) -> tuple[Tensor, ...]:
    """Codes and scales, a row of each for every row of x: nothing else is sent, and no row needs another's."""
    if wire == "mxfp8":
        blocks = mxfp8.quantise(x_ND)
        return blocks.codes, blocks.scales
    if wire == "nvfp4":
        rows = nvfp4.quantise(x_ND)
        return rows.codes, rows.scales, rows.row_scales
    return (x_ND if wire is None else x_ND.to(torch.bfloat16),)


def unpacked(parts: tuple[Tensor, ...], wire: Wire, width: int, dtype: torch.dtype) -> Tensor:
    """[N, D] the values that were sent, in `dtype`."""
    if wire == "mxfp8":
        codes, scales = parts
        return mxfp8.dequantise(mxfp8.MXFP8(codes=codes, scales=scales)).to(dtype)
    if wire == "nvfp4":
        codes, scales, row_scales = parts
        rows = nvfp4.NVFP4(codes=codes, scales=scales, row_scales=row_scales, width=width)
        return nvfp4.dequantise(rows).to(dtype)
    return parts[0].to(dtype)
