"""Weights in the precision that the model computes in (`numerics.compute`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Computed(Mapping[str, Tensor]):
    """The matrices and biases of `weights` in `dtype`, made where they are asked for; routers and norms as they are.

    Gradients reach the weights themselves, in their own precision.
    """

    def __init__(self, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype

    def __getitem__(self, name: str) -> Tensor:
        weight = self._weights[name]
        return weight if "norm" in name or ".router." in name else weight.to(self._dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def computed(weights: Mapping[str, Tensor], dtype: torch.dtype) -> Mapping[str, Tensor]:
    """`weights` themselves where the model computes in their precision."""
    return weights if dtype == torch.float32 else Computed(weights, dtype)
