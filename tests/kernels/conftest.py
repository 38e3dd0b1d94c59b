"""The same test body on every implementation: reference, CPU path, and Triton on a GPU or in its interpreter.

Triton decides at its first import whether it interprets its own functions. It is imported here, with TRITON_INTERPRET
set only for the time of the import, so that other tests do not see the variable nor interpret by accident.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch

HAS_TRITON = importlib.util.find_spec("triton") is not None


def _import_triton() -> None:
    before = os.environ.get("TRITON_INTERPRET")
    interpret = not torch.cuda.is_available()
    if interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        importlib.import_module("kernels.interpreter")
        # The knob is for the kernels' own modules, which are imported later.
        importlib.import_module("triton").knobs.runtime.interpret = interpret
    finally:
        if before is None:
            os.environ.pop("TRITON_INTERPRET", None)
        else:
            os.environ["TRITON_INTERPRET"] = before


if HAS_TRITON:
    _import_triton()


@pytest.fixture(
    params=["reference", "cpu", pytest.param("triton", marks=pytest.mark.skipif(not HAS_TRITON, reason="no triton"))]
)
def backend(request: pytest.FixtureRequest) -> str:
    """Name of the implementation under test."""
    name: str = request.param
    return name


@pytest.fixture
def device(backend: str) -> str:
    """Where the backend's tensors live here."""
    return "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test draws the same numbers, on one thread."""
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
