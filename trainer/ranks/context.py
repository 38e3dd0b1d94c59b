"""Attention of a process that has some positions of each sequence: keys and values of the others are gathered.

Shape letters: B sequences, S positions of a sequence, P own positions, A = H + 2 * K heads, C head width, N = B * K,
T = G * P rows of queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from trainer.attention import AttentionTables, Rotations, turn
from trainer.config import ModelConfig
from trainer.ranks.collectives import gathered
from trainer.ranks.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class ContextTables(AttentionTables):
    """Tables of the own positions `columns_P` only; `place_S` says where each position stands among the gathered."""

    columns_P: Tensor
    place_S: Tensor
    group: ProcessGroup

    @classmethod
    def cut(cls, model: ModelConfig, seq_len: int, mesh: Mesh, context_rank: int, group: ProcessGroup) -> ContextTables:
        """The part of `AttentionTables.build` that belongs to a rank of the group."""
        every = Rotations.of(model, seq_len)
        columns_P = mesh.columns(context_rank, seq_len)
        order = torch.cat([mesh.columns(rank, seq_len) for rank in range(mesh.cp_size)])
        is_later_PS = torch.arange(seq_len) > columns_P.unsqueeze(1)
        mask_PS = torch.zeros(is_later_PS.shape).masked_fill(is_later_PS, -math.inf)
        return cls(
            rotation_S1C=every.rotation_S1C[columns_P],
            rotation_back_S1C=every.rotation_back_S1C[columns_P],
            mask_TS=mask_PS.repeat(model.num_heads // model.num_kv_heads, 1),
            scale=every.scale,
            num_heads=every.num_heads,
            num_kv_heads=every.num_kv_heads,
            columns_P=columns_P,
            place_S=order.argsort(),
            group=group,
        )

    def own(self, x_BS: Tensor) -> Tensor:
        return x_BS[:, self.columns_P]

    def attend(self, qkv_BSAC: Tensor, mask_NTS: Tensor | None) -> Tensor:
        """Keys and values travel in the model's precision; scores and sums are float32."""
        heads, kv_heads = self.num_heads, self.num_kv_heads
        num_sequences, num_own, _, width = qkv_BSAC.shape
        turned = turn(qkv_BSAC[:, :, : heads + kv_heads], self.rotation_S1C)
        q_NTC = self.query_rows(turned[:, :, :heads]).float()
        own = torch.cat([turned[:, :, heads:], qkv_BSAC[:, :, heads + kv_heads :]], dim=2)
        every = gathered(own.transpose(0, 1).contiguous(), self.group)[self.place_S]
        keys, values = every.float().permute(1, 2, 0, 3).chunk(2, dim=1)
        k_NSC, v_NSC = (x.reshape(-1, len(self.place_S), width) for x in (keys, values))
        mask = self.mask_TS if mask_NTS is None else mask_NTS
        probs_NTS = torch.baddbmm(mask, q_NTC, k_NSC.transpose(1, 2), alpha=self.scale).softmax(dim=-1)
        out = torch.bmm(probs_NTS, v_NSC).view(num_sequences, kv_heads, heads // kv_heads, num_own, width)
        return out.permute(0, 3, 1, 2, 4).reshape(num_sequences, num_own, heads * width).to(qkv_BSAC.dtype)
