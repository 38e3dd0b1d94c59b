"""Grouped GEMM emulated in MXFP8 and NVFP4: what low-precision training would compute, on any machine.

Shape letters: T sorted rows, K and N contraction and output dimensions, E groups.
"""

from __future__ import annotations

from torch import Tensor

from kernels.backend import FLOATS, Backend, require
from kernels.quantised_gemm.products import QuantisedProduct
from kernels.quantised_gemm.settings import Form, Precision

__all__ = ["Form", "Precision", "quantised_grouped_gemm"]


def quantised_grouped_gemm(
    x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, *, precision: Precision, backend: Backend | str | None = None
) -> Tensor:
    """As `kernels.grouped_gemm.grouped_gemm`, with operands rounded to the formats of `precision`; differentiable.

    Rounding passes gradients straight through. Formats scale by token in the forward product, so with any of them a
    token's result depends on that token and the weights alone. Every part runs on `backend`; the values are the same
    bits on all of them, the float32 sums may differ in order. Raises UserInputError on dtypes other than float32 and
    bfloat16 and on shapes that do not fit.
    """
    served = x_TK.dtype in FLOATS and w_EKN.dtype in FLOATS
    require(served, f"quantised_gemm: {x_TK.dtype}, {w_EKN.dtype}", "convert to float32 or bfloat16")
    chosen = None if backend is None else Backend(backend)
    y_TN: Tensor = QuantisedProduct.apply(x_TK, w_EKN, offsets_E, precision, chosen)  # type: ignore[no-untyped-call]
    return y_TN
