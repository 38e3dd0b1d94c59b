"""Routed SwiGLU experts as grouped matrix products over tokens sorted by expert.

Shape letters: T tokens, K experts a token goes to, D model width, E experts, F expert width, G = 2 * F,
A = K * T assignments. Every result is a fixed-order sum, so equal inputs give equal bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_silu_backward = torch.ops.aten.silu_backward


@dataclass(frozen=True, kw_only=True)
class Assignments:
    """All (choice, token) pairs sorted by expert; within an expert by choice, then token."""

    order_A: Tensor  # index of the pair, choice * T + token
    place_A: Tensor  # the inverse: where each pair went
    token_A: Tensor
    end_E: Tensor  # int32, end of each expert's stretch

    @classmethod
    def sort(cls, choice_KT: Tensor, chosen_ET: Tensor) -> Assignments:
        """`chosen_ET` is 1.0 where the token goes to the expert, else 0.0."""
        order_A = choice_KT.reshape(-1).argsort(stable=True)
        return cls(
            order_A=order_A,
            place_A=torch.empty_like(order_A).scatter_(0, order_A, torch.arange(len(order_A))),
            token_A=order_A % choice_KT.shape[1],
            end_E=chosen_ET.sum(dim=1).cumsum(0).to(torch.int32),
        )

    def sum_choices(self, x_AD: Tensor, num_tokens: int) -> Tensor:
        """[T, D] sum over the choices of each token."""
        total_TD, *others_TD = x_AD.index_select(0, self.place_A).view(-1, num_tokens, x_AD.shape[1]).unbind()
        for other_TD in others_TD:
            total_TD = total_TD + other_TD
        return total_TD


class _RoutedExperts(torch.autograd.Function):
    """Forward and backward share the sorted copies, which the composite form would make again."""

    @staticmethod
    def forward(
        ctx: Any,
        x_TD: Tensor,
        weight_KT: Tensor,
        pairs: Assignments,
        gate_EFD: Tensor,
        up_EFD: Tensor,
        down_EFD: Tensor,
    ) -> Tensor:
        x_AD = x_TD.index_select(0, pairs.token_A)
        weight_A1 = weight_KT.to(x_TD.dtype).reshape(-1, 1).index_select(0, pairs.order_A)
        gate_up_EGD = torch.cat([gate_EFD, up_EFD], dim=1)
        gate_up_AG = functional.grouped_mm(x_AD, gate_up_EGD.transpose(1, 2), offs=pairs.end_E)
        gate_AF, up_AF = gate_up_AG.chunk(2, dim=1)
        active_AF = functional.silu(gate_AF)
        hidden_AF = active_AF * up_AF
        weighted_AF = hidden_AF * weight_A1
        out_AD = functional.grouped_mm(weighted_AF, down_EFD, offs=pairs.end_E)
        ctx.pairs = pairs
        ctx.save_for_backward(x_AD, weight_A1, gate_up_EGD, down_EFD, gate_AF, up_AF, active_AF, hidden_AF, weighted_AF)
        return pairs.sum_choices(out_AD, len(x_TD))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_AD, weight_A1, gate_up_EGD, down_EFD, gate_AF, up_AF, active_AF, hidden_AF, weighted_AF = ctx.saved_tensors
        pairs: Assignments = ctx.pairs
        (grad_TD,) = grads
        grad_AD = grad_TD.index_select(0, pairs.token_A)
        grad_down_EFD = functional.grouped_mm(weighted_AF.t(), grad_AD, offs=pairs.end_E)
        grad_weighted_AF = functional.grouped_mm(grad_AD, down_EFD.transpose(1, 2), offs=pairs.end_E)
        grad_weight_A = torch.linalg.vecdot(grad_weighted_AF, hidden_AF).index_select(0, pairs.place_A)
        grad_hidden_AF = grad_weighted_AF.mul_(weight_A1)
        grad_gate_AF = _silu_backward(grad_hidden_AF * up_AF, gate_AF)
        grad_gate_up_AG = torch.cat([grad_gate_AF, grad_hidden_AF * active_AF], dim=1)
        grad_gate_up_EGD = functional.grouped_mm(grad_gate_up_AG.t(), x_AD, offs=pairs.end_E)
        grad_x_AD = functional.grouped_mm(grad_gate_up_AG, gate_up_EGD, offs=pairs.end_E)
        grad_x_TD = pairs.sum_choices(grad_x_AD, len(grad_TD))
        return grad_x_TD, grad_weight_A.view(-1, len(grad_TD)), None, *grad_gate_up_EGD.chunk(2, dim=1), grad_down_EFD


def routed_experts(
    x_TD: Tensor, weight_KT: Tensor, pairs: Assignments, gate_EFD: Tensor, up_EFD: Tensor, down_EFD: Tensor
) -> Tensor:
    """sum_k weight_k * down(silu(gate(x)) * up(x)) over the chosen experts of each token (Shazeer, arXiv 2002.05202).

    An expert without tokens gets a zero gradient. `d_model` and `d_expert` must be multiples of 4.
    """
    out: Tensor = _RoutedExperts.apply(x_TD, weight_KT, pairs, gate_EFD, up_EFD, down_EFD)  # type: ignore[no-untyped-call]
    return out


def shared_experts(x_TD: Tensor, gate_EFD: Tensor, up_EFD: Tensor, down_EFD: Tensor) -> Tensor:
    """The sum of experts that every token passes through."""
    gate, up, down = (matrix.flatten(0, 1) for matrix in (gate_EFD, up_EFD, down_EFD))
    return (functional.silu(functional.linear(x_TD, gate)) * functional.linear(x_TD, up)) @ down
