"""Floating-point numbers of 4 and 8 bits: encoders and decoders that agree bit for bit on every backend.

Rounding is to nearest, ties to even, by integer operations on the bits of the float32 input, so that numpy, torch, the
Triton interpreter (whose own conversions are wrong) and a GPU give the same codes. A value is scaled by a power of
two inside the encoder, exactly, also where the scaled value would be subnormal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Format:
    """One sign bit, then exponent bits, then `mantissa_bits`; exponent 0 is subnormal. No infinity.

    max_code   magnitude code of the largest finite value; larger ones saturate to it
    nan_code   magnitude code a NaN becomes (E2M1 has none: NaN saturates, its block's scale tells)
    """

    mantissa_bits: int
    bias: int
    sign_bit: int
    max_code: int
    nan_code: int


E4M3 = Format(mantissa_bits=3, bias=7, sign_bit=7, max_code=0x7E, nan_code=0x7F)
"""FP8 E4M3 (OCP FP8 1.0): +-448, smallest normal 2^-6, smallest subnormal 2^-9."""

E2M1 = Format(mantissa_bits=1, bias=1, sign_bit=3, max_code=0x7, nan_code=0x7)
"""FP4 E2M1 (OCP MX 1.0): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""
