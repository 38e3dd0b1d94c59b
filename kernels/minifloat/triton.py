# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,untyped-decorator,no-untyped-call"
"""Minifloats inside Triton kernels: the same integer operations as reference.py, and bf16 rounding that is right."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def narrow(x: tl.tensor, dtype: tl.constexpr, INTERPRET: tl.constexpr) -> tl.tensor:
    """x (float32) in `dtype`, rounded to nearest even. The interpreter truncates to bf16, so there integers round."""
    if INTERPRET and dtype == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet = (bits >> 16) | 0x40
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        out = tl.where(is_nan, quiet, rounded).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        out = x.to(dtype)
    return out


@triton.jit
def encode(
    x: tl.tensor, exponents: tl.tensor, MANTISSA: tl.constexpr, BIAS: tl.constexpr, SIGN: tl.constexpr,
    MAX: tl.constexpr, NAN: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """int32 codes of x (float32) * 2**-exponents (int32), rounded to nearest even and saturated."""
    bits = x.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    subnormal = magnitude < 0x00800000
    normalised = tl.where(subnormal, magnitude, 0).to(tl.float32).to(tl.int32, bitcast=True)
    kept = tl.where(subnormal, normalised, magnitude)
    exponent = (kept >> 23) - tl.where(subnormal, 149, 0)
    significand = (kept & 0x007FFFFF) | 0x00800000
    below = (128 - BIAS) + exponents - exponent
    drop = tl.minimum(tl.maximum(below, 0) + (23 - MANTISSA), 26)
    odd = (significand >> drop) & 1
    half = (tl.full(drop.shape, 1, tl.int32) << (drop - 1)) - 1
    rounded = (significand + half + odd) >> drop
    code = tl.minimum(tl.maximum(-below, 0) * (1 << MANTISSA) + rounded, MAX)
    code = tl.where(magnitude > 0x7F800000, NAN, code)
    return code | tl.where(bits < 0, 1 << SIGN, 0)


@triton.jit
def decode(code: tl.tensor, MANTISSA: tl.constexpr, BIAS: tl.constexpr, SIGN: tl.constexpr) -> tl.tensor:
    """Exact float32 values of int32 codes; NaN codes are not told apart."""
    magnitude = code & ((1 << SIGN) - 1)
    exponent = magnitude >> MANTISSA
    mantissa = magnitude & ((1 << MANTISSA) - 1)
    bits = ((exponent + (127 - BIAS)) << 23) | (mantissa << (23 - MANTISSA))
    lowest = ((128 - BIAS - MANTISSA) + tl.zeros(code.shape, tl.int32)) << 23
    subnormal = mantissa.to(tl.float32) * lowest.to(tl.float32, bitcast=True)
    value = tl.where(exponent > 0, bits.to(tl.float32, bitcast=True), subnormal)
    return tl.where((code >> SIGN) & 1 == 1, -value, value)
