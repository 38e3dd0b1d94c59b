"""Grouped GEMM emulated in MXFP8 and NVFP4: what low-precision training would compute, on any machine.

Shape letters: T sorted rows, K and N contraction and output dimensions, E groups.
"""

from __future__ import annotations

from torch import Tensor

from kernels.backend import FLOATS, Backend, require
from kernels.grouped_gemm import Permutation
from kernels.quantised_gemm import mlp
from kernels.quantised_gemm.products import quantised_product
from kernels.quantised_gemm.settings import Form, Precision

__all__ = ["Form", "Precision", "quantised_expert_mlp", "quantised_grouped_gemm"]


def quantised_grouped_gemm(
    x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, *, precision: Precision, backend: Backend | str | None = None
) -> Tensor:
    """As `kernels.grouped_gemm.grouped_gemm`, with operands rounded to the formats of `precision`; differentiable.

    Rounding passes gradients straight through. Formats scale by token in the forward product, so with any of them a
    token's result depends on that token and the weights alone. Every part runs on `backend`; the values are the same
    bits on all of them, the float32 sums may differ in order. Raises UserInputError on dtypes other than float32 and
    bfloat16 and on shapes that do not fit.
    """
    _check(x_TK, w_EKN)
    return quantised_product(x_TK, w_EKN, offsets_E, precision, _known(backend))


def quantised_expert_mlp(
    x_ND: Tensor,
    gates_NK: Tensor,
    w_gate_up_EDF2: Tensor,
    w_down_EFD: Tensor,
    permutation: Permutation,
    *,
    precision: Precision,
    backend: Backend | str | None = None,
) -> Tensor:
    """As `kernels.grouped_gemm.expert_mlp`, with both products in the formats of `precision`; differentiable.

    Tokens travel to their experts in `dispatch` and results back in `combine`; hidden rows between the products are
    bf16. Raises UserInputError as `quantised_grouped_gemm` does.
    """
    _check(x_ND, w_gate_up_EDF2)
    return mlp.quantised_expert_mlp(x_ND, gates_NK, w_gate_up_EDF2, w_down_EFD, permutation, precision, _known(backend))


def _check(x: Tensor, w: Tensor) -> None:
    served = x.dtype in FLOATS and w.dtype in FLOATS
    require(served, f"quantised_gemm: {x.dtype}, {w.dtype}", "convert to float32 or bfloat16")


def _known(backend: Backend | str | None) -> Backend | None:
    names = ", ".join(Backend)
    require(
        backend is None or backend in list(Backend),
        f"quantised_gemm: unknown backend {backend!r}",
        f"use one of {names}",
    )
    return None if backend is None else Backend(backend)
