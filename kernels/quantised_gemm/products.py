"""The quantised grouped product and its gradients: which copy of what is quantised along which dimension.

    product   contracts over   left operand                 right operand
    forward   K                dispatched x, rows           w along K
    dgrad     N                dy, rows                     w along N
    wgrad     rows of a group  dispatched x, columns        dy, columns

Six copies, none the transpose of another. Products are float32 on values that the formats hold exactly, which is what
block-scaled tensor cores compute.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.backend import Backend
from kernels.grouped_gemm import grouped_gemm
from kernels.quantised_gemm.rounding import round_columns, round_rows, round_weights
from kernels.quantised_gemm.settings import Precision


def quantised_product(
    x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, precision: Precision, backend: Backend | None
) -> Tensor:
    """See `kernels.quantised_gemm.quantised_grouped_gemm`."""
    y_TN: Tensor = _QuantisedProduct.apply(x_TK, w_EKN, offsets_E, precision, backend)  # type: ignore[no-untyped-call]
    return y_TN


class _QuantisedProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, precision: Precision, backend: Backend | None
    ) -> Tensor:
        sent_TK = round_rows(x_TK, precision.dispatch, backend)
        left_TK = round_rows(sent_TK, precision.forward, backend)
        right_EKN = round_weights(w_EKN, precision.forward, backend, along_outer=False)
        y_TN = grouped_gemm(left_TK, right_EKN, offsets_E, backend=backend)
        ctx.precision, ctx.backend = precision, backend
        ctx.save_for_backward(sent_TK, w_EKN, offsets_E)
        ctx.input_dtype = x_TK.dtype
        return round_rows(y_TN, precision.combine, backend).to(x_TK.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        sent_TK, w_EKN, offsets_E = ctx.saved_tensors
        form, backend, dy_TN = ctx.precision.backward, ctx.backend, grads[0]
        right_EKN = round_weights(w_EKN, form, backend, along_outer=True)
        dx_TK = grouped_gemm(round_rows(dy_TN, form, backend), right_EKN.mT, offsets_E, backend=backend)
        left_TK = round_columns(sent_TK, offsets_E, form, backend)
        dw_EKN = _wgrad(left_TK, round_columns(dy_TN, offsets_E, form, backend), offsets_E, backend)
        return dx_TK.to(ctx.input_dtype), dw_EKN.to(w_EKN.dtype), None, None, None


def _wgrad(x_TK: Tensor, dy_TN: Tensor, offsets_E: Tensor, backend: Backend | None) -> Tensor:
    """x.T @ dy for each group, as the gradient of a grouped product whose weights do not matter."""
    w_EKN = x_TK.new_zeros(len(offsets_E), x_TK.shape[1], dy_TN.shape[1]).requires_grad_()
    with torch.enable_grad():
        y_TN = grouped_gemm(x_TK, w_EKN, offsets_E, backend=backend)
    (dw_EKN,) = torch.autograd.grad(y_TN, w_EKN, dy_TN)
    return dw_EKN
