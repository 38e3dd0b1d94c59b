"""The report's small studies of scaling and of division, as functions of a seed (RC2-8.3, RC2-8.5).

`scaling_study`   per-tensor against per-token scales: what one enlarged last token, or another batch, changes in the
                  quantised values of the other tokens
`division_study`  IEEE division against multiplication by a rounded reciprocal: which codes and scales flip
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import mxfp8, nvfp4
from kernels.minifloat import E4M3
from kernels.minifloat.cpu import encode
from kernels.mxfp8.cpu import scale_values
from kernels.nvfp4.cpu import quantise_with
from kernels.nvfp4.form import Scaling


@dataclass(frozen=True, kw_only=True)
class ScalingStudy:
    """leaked       share of earlier tokens' values that change when the last token grows 37-fold
    batch_gap    share of a sequence's values that differ between two batches
    logit_gap    share of logits of the same sequence, a product with fixed weights, that differ between them
    """

    leaked: float
    batch_gap: float
    logit_gap: float


def scaling_study(scaling: Scaling, *, seed: int, tokens: int = 256, width: int = 256) -> ScalingStudy:
    """Gaussian activations; the report's emulation changed 0 % per token and about 93 % per tensor."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator)
    grown = x.clone()
    grown[-1] *= 37.0
    before, after = _values(x, scaling), _values(grown, scaling)
    others = torch.randn(2, tokens, width, generator=generator) * torch.tensor([1.0, 3.0])[:, None, None]
    first, second = (_values(torch.cat([x, other]), scaling)[:tokens] for other in others)
    head = torch.randn(width, 64, generator=generator)
    return ScalingStudy(
        leaked=_changed(before[:-1], after[:-1]),
        batch_gap=_changed(first, second),
        logit_gap=_changed(first @ head, second @ head),
    )


def _values(x: Tensor, scaling: Scaling) -> Tensor:
    return nvfp4.dequantise(nvfp4.quantise(x, scaling=scaling))


def _changed(a: Tensor, b: Tensor) -> float:
    return float((a != b).double().mean())


@dataclass(frozen=True, kw_only=True)
class DivisionStudy:
    """Shares of entries that differ from IEEE division."""

    nvfp4_codes: float
    nvfp4_scales: float
    mxfp8_codes: float
    mxfp8_scales: float


def division_study(*, seed: int, tokens: int = 512, width: int = 1024) -> DivisionStudy:
    """Gaussian bf16 activations; the report's emulation flipped 0.05 to 0.13 % in NVFP4."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator).to(torch.bfloat16).float()
    exact, approximate = nvfp4.quantise(x), quantise_with(x, "token", reciprocal_multiply)
    codes = torch.stack([(exact.codes ^ approximate.codes) & 15, (exact.codes ^ approximate.codes) >> 4])
    mx_exact, mx_codes, mx_scales = mxfp8.quantise(x), *_mxfp8_approximately(x)
    return DivisionStudy(
        nvfp4_codes=float((codes != 0).double().mean()),
        nvfp4_scales=_changed(exact.scales, approximate.scales),
        mxfp8_codes=_changed(mx_exact.codes, mx_codes),
        mxfp8_scales=_changed(mx_exact.scales, mx_scales),
    )


def reciprocal_multiply(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator * fl(1 / denominator): what a fast division does, up to the hardware's reciprocal."""
    return numerator * (1.0 / denominator)


def _mxfp8_approximately(x_RK: Tensor) -> tuple[Tensor, Tensor]:
    """RCEIL with both of its quotients by reciprocals; scales are powers of two, whose reciprocals are exact."""
    blocks = x_RK.view(len(x_RK), -1, mxfp8.BLOCK)
    quotient = reciprocal_multiply(blocks.abs().amax(dim=2), torch.tensor(448.0))
    power = torch.ceil(torch.log2(quotient.double())).clamp(-127, 127).to(torch.int32)
    scales = torch.where(quotient == 0, 0, power + 127).to(torch.uint8)
    scaled = reciprocal_multiply(blocks, scale_values(scales).unsqueeze(2))
    return encode(scaled, 0, E4M3).view(x_RK.shape), scales
