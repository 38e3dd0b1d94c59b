"""Which implementation serves a call: the one dispatcher that every operation shares.

`reference`  plain torch (or numpy) written to be read; differentiable, fp64-capable; the meaning of the operation
`cpu`        the fast path on CPUs
`triton`     one Triton kernel for NVIDIA GPUs; on a CPU it runs only in Triton's interpreter, for tests

Without an override a CUDA tensor goes to `triton` and a CPU tensor to `cpu`, or to `reference` where the dtype is
served by nothing faster.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from contracts.errors import EnvironmentFault, UserInputError

P = ParamSpec("P")
R = TypeVar("R")


class Backend(StrEnum):
    """Where an operation runs."""

    REFERENCE = "reference"
    CPU = "cpu"
    TRITON = "triton"


FLOATS = (torch.float32, torch.bfloat16)
"""What the fast paths serve unless an operation says otherwise; references take float64 as well."""


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[P, R]):
    """One operation and its implementations; all take the same arguments.

    `triton` is "module:function", imported at the first call that needs it: triton is an optional dependency.
    """

    name: str
    reference: Callable[P, R]
    cpu: Callable[P, R]
    triton: str
    dtypes: Mapping[Backend, tuple[torch.dtype, ...]]

    def choose(self, tensor: Tensor, backend: Backend | str | None) -> Callable[P, R]:
        """The implementation for calls like this one.

        Raises UserInputError when the backend asked for cannot serve the tensor's device or dtype, EnvironmentFault
        when triton is needed and not installed.
        """
        chosen = self._automatic(tensor) if backend is None else self._asked(tensor, backend)
        if chosen is Backend.TRITON:
            return self._load_triton(tensor)
        return self.cpu if chosen is Backend.CPU else self.reference

    def _automatic(self, tensor: Tensor) -> Backend:
        fast = Backend.TRITON if tensor.is_cuda else Backend.CPU
        return fast if self._serves(fast, tensor) else Backend.REFERENCE

    def _asked(self, tensor: Tensor, backend: Backend | str) -> Backend:
        names = ", ".join(Backend)
        if backend not in list(Backend):
            raise UserInputError(f"{self.name}: unknown backend {backend!r}", remedy=f"use one of {names}")
        chosen = Backend(backend)
        if chosen is Backend.CPU and tensor.is_cuda:
            remedy = "move the tensors to the CPU or let the backend be chosen"
            raise UserInputError(f"{self.name}: the cpu backend got a CUDA tensor", remedy=remedy)
        if not self._serves(chosen, tensor):
            served = ", ".join(str(dtype).removeprefix("torch.") for dtype in self.dtypes[chosen])
            message = f"{self.name}: the {chosen} backend does not serve {str(tensor.dtype).removeprefix('torch.')}"
            raise UserInputError(message, remedy=f"convert to {served}, or use the reference backend")
        return chosen

    def _serves(self, backend: Backend, tensor: Tensor) -> bool:
        return backend not in self.dtypes or tensor.dtype in self.dtypes[backend]

    def _load_triton(self, tensor: Tensor) -> Callable[P, R]:
        module_name, _, function = self.triton.partition(":")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != "triton":
                raise
            remedy = "pip install '.[kernels]' in Lathe's folder, or choose the cpu or reference backend"
            raise EnvironmentFault(f"{self.name}: triton is not installed", remedy=remedy) from error
        if not tensor.is_cuda and not importlib.import_module("kernels.interpreter").INTERPRETED:
            remedy = "set TRITON_INTERPRET=1 before triton is first imported, or choose the cpu backend"
            raise UserInputError(f"{self.name}: the triton backend got a CPU tensor", remedy=remedy)
        return cast(Callable[P, R], getattr(module, function))


def require(condition: bool, message: str, remedy: str) -> None:
    """Raise UserInputError unless the caller's arguments satisfy `condition`."""
    if not condition:
        raise UserInputError(message, remedy=remedy)
