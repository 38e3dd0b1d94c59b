"""Expert parallelism: tokens travel to the processes that have their experts, and the results travel back.

What DeepEP does on GPUs, by all-to-all. With `numerics.experts.products=quantised` tokens travel in the `dispatch`
format and results in `combine` (RC2-7.7): scales are per token, so rounding before sending equals rounding behind it.

Shape letters: T own tokens, K experts a token goes to, A = K * T assignments, W processes of a group, E experts,
L = E / W own experts, M rows received, D model width, F expert width.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.nn import functional

from trainer.config import ExpertNumerics
from trainer.expert_kernels import kernel_experts
from trainer.experts import Assignments
from trainer.ranks.collectives import exchanged
from trainer.ranks.wire import wires_of
from trainer.router import Routing

Matrices = tuple[Tensor, Tensor, Tensor]  # gate, up and down, each [L, F, D]


def dispatched_experts(
    x_TD: Tensor, routing: Routing, matrices: Matrices, numerics: ExpertNumerics, group: ProcessGroup
) -> Tensor:
    """[T, D] as `block.local_experts` gives it, where this process has only its stretch of the experts."""
    pairs = Assignments.sort(routing.choice_KT, routing.chosen_ET)
    sent_WL = routing.chosen_ET.sum(dim=1).to(torch.int64).view(group.size(), -1)
    received_WL = torch.empty_like(sent_WL)
    dist.all_to_all_single(received_WL, sent_WL.contiguous(), group=group)
    sent_W, received_W = sent_WL.sum(dim=1).tolist(), received_WL.sum(dim=1).tolist()
    there, back = wires_of(numerics)
    x_MD = exchanged(x_TD.index_select(0, pairs.token_A), sent_W, received_W, group, there)
    expert_M = torch.arange(received_WL.shape[1]).repeat(group.size()).repeat_interleave(received_WL.flatten())
    out_MD = _own_experts(x_MD, expert_M, received_WL.sum(dim=0), matrices, numerics)
    back_AD = exchanged(out_MD, received_W, sent_W, group, back)
    weight_A1 = routing.weight_KT.reshape(-1, 1).index_select(0, pairs.order_A)
    return pairs.sum_choices(back_AD.float() * weight_A1, len(x_TD)).to(x_TD.dtype)


def _own_experts(
    x_MD: Tensor, expert_M: Tensor, count_L: Tensor, matrices: Matrices, numerics: ExpertNumerics
) -> Tensor:
    """[M, D] SwiGLU of each row by its expert. Without rows the weights still take part, with a gradient of zeros."""
    if not len(x_MD):
        return x_MD + 0.0 * sum(matrix.sum() for matrix in matrices)
    if numerics.products != "torch":
        return kernel_experts(x_MD, torch.ones(1, len(x_MD)), expert_M.unsqueeze(0), matrices, numerics)
    order_M = expert_M.argsort(stable=True)
    sorted_MD, end_L = x_MD.index_select(0, order_M), count_L.cumsum(0).to(torch.int32)
    *inner, down_LFD = matrices
    gate, up = (functional.grouped_mm(sorted_MD, w.transpose(1, 2), offs=end_L) for w in inner)
    out_MD = functional.grouped_mm(functional.silu(gate) * up, down_LFD, offs=end_L)
    return out_MD.index_select(0, order_M.argsort())
