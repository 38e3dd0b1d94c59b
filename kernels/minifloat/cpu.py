"""Minifloats in torch: the same integer operations as reference.py, on tensors of any device."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from kernels.minifloat import Format, reference


def encode(values: Tensor, exponents: Tensor | int, form: Format) -> Tensor:
    """uint8 codes of float32 values * 2**-exponents (int32, broadcast), rounded to nearest even and saturated."""
    bits = values.contiguous().view(torch.int32)
    magnitude = bits & 0x7FFFFFFF
    exponent, significand = split(magnitude)
    below = (128 - form.bias) + exponents - exponent
    drop = below.clamp(min=0).add_(23 - form.mantissa_bits).clamp_(max=26)
    odd = (significand >> drop).bitwise_and_(1)
    rounded = significand.add_(odd).add_((torch.ones_like(drop) << (drop - 1)).sub_(1)) >> drop
    code = below.neg_().clamp_(min=0).mul_(1 << form.mantissa_bits).add_(rounded).clamp_(max=form.max_code)
    code.masked_fill_(magnitude > 0x7F800000, form.nan_code)
    code |= (bits >> 31).bitwise_and_(1 << form.sign_bit)
    return code.to(torch.uint8)


def split(magnitude: Tensor) -> tuple[Tensor, Tensor]:
    """Biased exponent and 24-bit significand of non-negative float32 bits; subnormals are normalised."""
    subnormal = magnitude < 0x00800000
    bits = torch.where(subnormal, magnitude.to(torch.float32).view(torch.int32), magnitude)
    exponent = (bits >> 23).sub_(subnormal.to(torch.int32), alpha=149)
    return exponent, (bits & 0x007FFFFF).bitwise_or_(0x00800000)


def decode(codes: Tensor, form: Format) -> Tensor:
    """Exact float32 values of uint8 codes."""
    return _table(form, codes.device)[codes.to(torch.int32)]


@lru_cache(maxsize=8)
def _table(form: Format, device: torch.device) -> Tensor:
    return torch.from_numpy(reference.decode_table(form)).to(device)
