"""What NVFP4 is here. Shape letters: R rows (tokens), K the contraction dimension, B = ceil(K / 16) blocks of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

BLOCK = 16
LARGEST = 6.0
"""Largest E2M1 value."""
FULL_RANGE = 6.0 * 448.0
"""Largest value times largest block scale: the row scale is amax / FULL_RANGE."""
MIN_SCALE_CODE = 0x08
"""E4M3 code of 2^-6, the smallest normal: block scales are never smaller, so that no division is by zero."""
MIN_ROW_SCALE = 2.0**-120
"""Rows below 2688 * 2^-120 share this scale, so that block scale * row scale is never subnormal."""

Scaling = Literal["token", "tensor"]


@dataclass(frozen=True, kw_only=True)
class NVFP4:
    """codes      [R, ceil(K / 2)] uint8: E2M1 codes, even column in the low four bits
    scales     [R, B] uint8 E4M3, one per 16
    row_scales [R] float32; one value repeated when scaling was per tensor
    width      K
    """

    codes: Tensor
    scales: Tensor
    row_scales: Tensor
    width: int
