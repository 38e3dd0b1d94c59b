"""Which number format each of the four flows of an expert product uses (RC2-7.7, RC2-8.2, RC2-8.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["bf16", "mxfp8", "nvfp4"]


@dataclass(frozen=True, kw_only=True)
class Precision:
    """dispatch  tokens as they travel to their experts
    forward   both operands of the forward product
    backward  both operands of dgrad and of wgrad
    combine   results as they travel back
    """

    dispatch: Form = "mxfp8"
    forward: Form = "nvfp4"
    backward: Form = "mxfp8"
    combine: Form = "bf16"
