"""What MXFP8 is. Shape letters: R rows, K the contraction dimension, B = ceil(K / 32) blocks of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

BLOCK = 32
EMAX = 8
"""Exponent of E4M3's largest binade, 2^8 <= 448."""
NAN_SCALE = 0xFF
THREE_QUARTERS = 0x600000
"""Fraction bits of 1.75: amax / 448 <= 2^e exactly if amax <= 1.75 * 2^(e + 8)."""

Mode = Literal["rceil", "floor"]
"""How a block's scale is chosen: "floor" 2^(floor(log2 amax) - 8) as OCP says (largest values may saturate), "rceil"
2^ceil(log2(amax / 448)) as NVIDIA trains with (nothing saturates; arXiv 2506.08027). Both exact, by integers."""


@dataclass(frozen=True, kw_only=True)
class MXFP8:
    """codes   [R, K] uint8 E4M3
    scales  [R, B] uint8 E8M0: 2^(byte - 127), 255 is NaN
    """

    codes: Tensor
    scales: Tensor
