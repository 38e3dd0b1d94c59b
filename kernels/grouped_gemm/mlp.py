"""The expert MLP on CPUs: gather, gate-up product, SwiGLU, down product and weighted sum over a token's experts.

Tokens are gathered once into the layout's buffer and stay there until the sum; the gates' gradient is taken as
<h, dy @ down.T>, so that the down product's output need not be kept (as SonicMoE does, arXiv 2512.14080).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels.grouped_gemm.layout import Layout, make_layout, products, weight_products
from kernels.grouped_gemm.permutation import Permutation
from kernels.grouped_gemm.plan import loads_of, this_machine

_CHUNK_TOKENS = 256
"""Tokens summed at a time: their experts' results should fit into the cache."""


def expert_mlp(
    x_ND: Tensor, gates_NK: Tensor, w_gate_up_EDF2: Tensor, w_down_EFD: Tensor, permutation: Permutation
) -> Tensor:
    """The CPU path of `kernels.grouped_gemm.expert_mlp`."""
    y_ND: Tensor = _ExpertMlp.apply(x_ND, gates_NK, w_gate_up_EDF2, w_down_EFD, permutation)  # type: ignore[no-untyped-call]
    return y_ND


class _ExpertMlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, gates_NK: Tensor, w_gate_up_EDF2: Tensor, w_down_EFD: Tensor, permutation: Permutation
    ) -> Tensor:
        offsets_E = permutation.offsets
        loads, (_, inner, outer) = loads_of(offsets_E), w_gate_up_EDF2.shape
        threads = torch.get_num_threads()
        machine = this_machine(threads)
        layout = make_layout(loads, len(permutation.pairs), inner, outer, x_ND.dtype, machine, threads)
        x_RD = _gather(x_ND, layout, permutation.tokens)
        gate_up_RF2 = products(x_RD, w_gate_up_EDF2, layout, offsets_E)
        h_RF = _swiglu(gate_up_RF2)
        out_RD = products(h_RF, w_down_EFD, layout, offsets_E)
        place_NK = permutation.rows if layout.identity else layout.place[permutation.rows]
        ctx.layout, ctx.permutation = layout, permutation
        ctx.save_for_backward(x_RD, gate_up_RF2, h_RF, gates_NK, w_gate_up_EDF2, w_down_EFD, place_NK)
        used_NK = gates_NK.masked_fill(place_NK == len(out_RD) - 1, 0.0) if layout.zero_row else gates_NK
        return _combine(out_RD, place_NK, used_NK).to(x_ND.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_RD, gate_up_RF2, h_RF, gates_NK, w_gate_up_EDF2, w_down_EFD, place_NK = ctx.saved_tensors
        layout, permutation = ctx.layout, ctx.permutation
        offsets_E = permutation.offsets
        gate_R1 = _gather(gates_NK.reshape(-1, 1), layout, permutation.pairs).to(h_RF.dtype)
        dy_RD = _gather(grads[0].contiguous(), layout, permutation.tokens)
        dh_RF = products(dy_RD, w_down_EFD.mT, layout, offsets_E)
        dgate_R = (dh_RF * h_RF).sum(dim=1, dtype=torch.float32)
        dw_down_EFD = weight_products(h_RF * gate_R1, dy_RD, layout, offsets_E)
        dgate_up_RF2 = _swiglu_backward(gate_up_RF2, dh_RF.mul_(gate_R1))
        dgates_NK = dgate_R[place_NK].to(gates_NK.dtype)
        dx_RD = products(dgate_up_RF2, w_gate_up_EDF2.mT, layout, offsets_E)
        dw_gate_up_EDF2 = weight_products(x_RD, dgate_up_RF2, layout, offsets_E)
        return _combine(dx_RD, place_NK, None).to(x_RD.dtype), dgates_NK, dw_gate_up_EDF2, dw_down_EFD, None


def _gather(x_ND: Tensor, layout: Layout, index_T: Tensor) -> Tensor:
    """Rows of x for each sorted row, in buffer order; zeros where the buffer holds nothing."""
    if layout.identity:
        return x_ND.index_select(0, index_T)
    if not len(index_T):
        return x_ND.new_zeros(len(layout.source), x_ND.shape[1])
    return x_ND.index_select(0, index_T[layout.source]).index_fill_(0, layout.pads, 0)


def _swiglu(gate_up_RF2: Tensor) -> Tensor:
    gate_RF, up_RF = gate_up_RF2.chunk(2, dim=1)
    return functional.silu(gate_RF).mul_(up_RF)


def _swiglu_backward(gate_up_RF2: Tensor, dh_RF: Tensor) -> Tensor:
    """d silu(g) u / d(g, u) applied to dh, in one [R, 2 F] buffer."""
    gate_RF, up_RF = gate_up_RF2.chunk(2, dim=1)
    out_RF2 = torch.empty_like(gate_up_RF2)
    dgate_RF, dup_RF = out_RF2.chunk(2, dim=1)
    torch.mul(dh_RF, functional.silu(gate_RF), out=dup_RF)
    torch.ops.aten.silu_backward.grad_input(dh_RF * up_RF, gate_RF, grad_input=dgate_RF)
    return out_RF2


def _combine(out_RD: Tensor, place_NK: Tensor, gates_NK: Tensor | None) -> Tensor:
    """Sum over a token's experts in float32, chunk by chunk: a fixed order, whatever the routing."""
    y_ND = out_RD.new_empty(place_NK.shape[0], out_RD.shape[1], dtype=torch.float32)
    for start in range(0, place_NK.shape[0], _CHUNK_TOKENS):
        part_nK = place_NK[start : start + _CHUNK_TOKENS]
        rows_nKD = out_RD.index_select(0, part_nK.reshape(-1)).view(*part_nK.shape, out_RD.shape[1])
        if gates_NK is not None:
            rows_nKD = rows_nKD.float().mul_(gates_NK[start : start + _CHUNK_TOKENS].unsqueeze(2))
        torch.sum(rows_nKD, dim=1, dtype=torch.float32, out=y_ND[start : start + len(part_nK)])
    return y_ND
