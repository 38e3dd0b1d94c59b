"""Minifloats in numpy integer code, written to be checked against the format's definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.minifloat import Format

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def encode(values: Floats, exponents: NDArray[Any], form: Format) -> Bytes:
    """Codes of values * 2**-exponents (broadcast), rounded to nearest even and saturated."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.int32)
    magnitude = bits & 0x7FFFFFFF
    exponent, significand = split(magnitude)
    below = (128 - form.bias) - (exponent - np.asarray(exponents, dtype=np.int32))
    drop = np.minimum(np.maximum(below, 0) + 23 - form.mantissa_bits, 26)
    odd = (significand >> drop) & 1
    rounded = (significand + (np.int32(1) << (drop - 1)) - 1 + odd) >> drop
    code = np.minimum((np.maximum(-below, 0) << form.mantissa_bits) + rounded, form.max_code)
    code = np.where(magnitude > 0x7F800000, form.nan_code, code)
    coded: Bytes = (code | np.where(bits < 0, 1 << form.sign_bit, 0)).astype(np.uint8)
    return coded


def split(magnitude: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Biased exponent and 24-bit significand of non-negative float32 bits; subnormals are normalised.

    Zero gets an exponent so low that every rounding gives zero.
    """
    subnormal = magnitude < 0x00800000
    as_float = np.where(subnormal, magnitude, 0).astype(np.float32).view(np.int32)
    bits = np.where(subnormal, as_float, magnitude)
    exponent = (bits >> 23) - np.where(subnormal, np.int32(149), np.int32(0))
    return exponent, (bits & 0x007FFFFF) | 0x00800000


def decode(codes: Bytes, form: Format) -> Floats:
    """Exact float32 values of codes."""
    return decode_table(form)[codes]


def decode_table(form: Format) -> Floats:
    """The value of every code."""
    codes = np.arange(2 << form.sign_bit, dtype=np.int64)
    magnitude = codes & ((1 << form.sign_bit) - 1)
    exponent, mantissa = magnitude >> form.mantissa_bits, magnitude & ((1 << form.mantissa_bits) - 1)
    significand = np.where(exponent > 0, mantissa + (1 << form.mantissa_bits), mantissa)
    value = np.ldexp(significand.astype(np.float32), np.maximum(exponent, 1) - form.bias - form.mantissa_bits)
    value = np.where(codes >> form.sign_bit, -value, value)
    if form.nan_code > form.max_code:
        value = np.where(magnitude == form.nan_code, np.nan, value)
    table: Floats = value.astype(np.float32)
    return table
