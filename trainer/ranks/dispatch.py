"""Expert parallelism: tokens travel to the processes that have their experts, and the results travel back.

Shape letters: T own tokens, K experts a token goes to, A = K * T assignments, W processes of a group, E experts,
L = E / W own experts, M rows received, D model width, F expert width.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.nn import functional

from trainer.experts import Assignments
from trainer.ranks.collectives import exchanged
from trainer.router import Routing


def dispatched_experts(
    x_TD: Tensor, routing: Routing, gate_LFD: Tensor, up_LFD: Tensor, down_LFD: Tensor, group: ProcessGroup
) -> Tensor:
    """[T, D] as `experts.routed_experts` gives it, where this process has only its stretch of the experts."""
    pairs = Assignments.sort(routing.choice_KT, routing.chosen_ET)
    sent_WL = routing.chosen_ET.sum(dim=1).to(torch.int64).view(group.size(), -1)
    received_WL = torch.empty_like(sent_WL)
    dist.all_to_all_single(received_WL, sent_WL.contiguous(), group=group)
    sent_W, received_W = sent_WL.sum(dim=1).tolist(), received_WL.sum(dim=1).tolist()
    x_MD = exchanged(x_TD.index_select(0, pairs.token_A), sent_W, received_W, group)
    expert_M = torch.arange(received_WL.shape[1]).repeat(group.size()).repeat_interleave(received_WL.flatten())
    order_M = expert_M.argsort(stable=True)
    out_MD = _own_experts(x_MD.index_select(0, order_M), received_WL.sum(dim=0), gate_LFD, up_LFD, down_LFD)
    back_AD = exchanged(out_MD.index_select(0, order_M.argsort()), received_W, sent_W, group)
    weight_A1 = routing.weight_KT.to(x_TD.dtype).reshape(-1, 1).index_select(0, pairs.order_A)
    return pairs.sum_choices(back_AD * weight_A1, len(x_TD))


def _own_experts(x_MD: Tensor, count_L: Tensor, gate_LFD: Tensor, up_LFD: Tensor, down_LFD: Tensor) -> Tensor:
    """SwiGLU of rows sorted by expert. Without rows the weights still take part, with a gradient of zeros."""
    if not len(x_MD):
        return x_MD + 0.0 * (gate_LFD.sum() + up_LFD.sum() + down_LFD.sum())
    end_L = count_L.cumsum(0).to(torch.int32)
    gate, up = (functional.grouped_mm(x_MD, w.transpose(1, 2), offs=end_L) for w in (gate_LFD, up_LFD))
    return functional.grouped_mm(functional.silu(gate) * up, down_LFD, offs=end_L)
