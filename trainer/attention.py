"""Grouped-query causal attention with rotary positions.

Shape letters: B sequences, S positions, D model width, H query heads, K key/value heads, G = H / K, J = H + K,
A = H + 2 * K, C head width, N = B * K, T = G * S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kernels.packed_attention import packed_attention
from trainer.config import ModelConfig
from trainer.norm import rms_norm

LONG = 256
"""Positions of a row from which on attention goes document by document; shorter float32 rows are whole matrices."""


@dataclass(frozen=True, kw_only=True)
class Rotations:
    """Rotary angles of a sequence, and how the heads are grouped."""

    rotation_S1C: Tensor  # complex64, half the head width
    rotation_back_S1C: Tensor  # its conjugate, times `scale`
    scale: float  # of the scores
    num_heads: int
    num_kv_heads: int

    @classmethod
    def of(cls, config: ModelConfig, seq_len: int) -> Rotations:
        """Angles position / scale * base^(-2c/C) (Su et al., arXiv 2104.09864)."""
        half = torch.arange(config.head_dim // 2, dtype=torch.float64)
        frequency_C = config.rope_base ** (-2.0 * half / config.head_dim)
        position_S = torch.arange(seq_len, dtype=torch.float64) / config.rope_scale
        angle = torch.outer(position_S, frequency_C).unsqueeze(1)
        scale = config.attention_scale / math.sqrt(config.head_dim)
        return Rotations(
            rotation_S1C=torch.polar(torch.ones_like(angle), angle).to(torch.complex64),
            rotation_back_S1C=torch.polar(torch.full_like(angle, scale), -angle).to(torch.complex64),
            scale=scale,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
        )


@dataclass(frozen=True, kw_only=True)
class LongRows(Rotations):
    """Attention over documents end to end: no matrix of all pairs of positions is ever made."""

    @classmethod
    def build(cls, config: ModelConfig, seq_len: int) -> LongRows:
        return cls(**vars(Rotations.of(config, seq_len)))

    def sight(self, document_BS: Tensor | None) -> Tensor | None:
        """[X] int32, where documents end when all rows lie end to end; padding counts as documents of its own."""
        seq_len = len(self.rotation_S1C)
        if document_BS is None:
            return None
        document_BS = document_BS[:, :seq_len]
        begins_BS = torch.ones_like(document_BS, dtype=torch.bool)
        begins_BS[:, 1:] = document_BS[:, 1:] != document_BS[:, :-1]
        starts = np.flatnonzero(begins_BS.numpy())
        return torch.from_numpy(np.append(starts[1:], document_BS.numel()).astype(np.int32))

    def attend(self, qkv_BSAC: Tensor, ends_X: Tensor | None) -> Tensor:
        """[B, S, D] what every position takes from those it may see; plain causal rows without ends."""
        num_sequences, seq_len, _, width = qkv_BSAC.shape
        if ends_X is None:
            ends_X = torch.arange(seq_len, num_sequences * seq_len + 1, seq_len, dtype=torch.int32)
        heads = [self.num_heads, self.num_kv_heads]
        qk_BSJC, v_BSKC = torch.split(qkv_BSAC, [sum(heads), heads[1]], dim=2)
        turned_BSJC: Tensor = _Turn.apply(qk_BSJC, self.rotation_S1C)  # type: ignore[no-untyped-call]
        q_THC, k_TKC = torch.split(turned_BSJC.flatten(0, 1), heads, dim=1)
        out_THC = packed_attention(q_THC, k_TKC, v_BSKC.flatten(0, 1), ends_X, scale=self.scale)
        return out_THC.view(num_sequences, seq_len, heads[0] * width)


@dataclass(frozen=True, kw_only=True)
class AttentionTables(Rotations):
    """Attention of short rows as whole matrices."""

    mask_TS: Tensor  # 0 where position T % S may see position S, else -inf

    @classmethod
    def build(cls, config: ModelConfig, seq_len: int) -> AttentionTables:
        causal = torch.full((seq_len, seq_len), -math.inf).triu(diagonal=1)
        mask_TS = causal.repeat(config.num_heads // config.num_kv_heads, 1)
        return cls(**vars(Rotations.of(config, seq_len)), mask_TS=mask_TS)

    def sight(self, document_BS: Tensor | None) -> Tensor | None:
        """What `attend` is told of the documents of the rows."""
        return document_mask(document_BS, self)

    def attend(self, qkv_BSAC: Tensor, mask_NTS: Tensor | None) -> Tensor:
        """[B, S, D] what every position takes from those it may see; plain causal without a mask."""
        mask = self.mask_TS if mask_NTS is None else mask_NTS
        out_BSD: Tensor = _RotaryAttention.apply(qkv_BSAC, self, mask)  # type: ignore[no-untyped-call]
        return out_BSD

    def own(self, x_BS: Tensor) -> Tensor:
        """The columns of the positions that attend."""
        return x_BS

    def query_rows(self, x_BSHC: Tensor) -> Tensor:
        """[N, T, C] copy: the query heads that share a key head become rows of one matrix."""
        num_sequences, seq_len, num_heads, width = x_BSHC.shape
        groups = num_heads // self.num_kv_heads
        x_BSKGC = x_BSHC.reshape(num_sequences, seq_len, self.num_kv_heads, groups, width)
        return x_BSKGC.permute(0, 2, 3, 1, 4).reshape(-1, groups * seq_len, width)

    def query_heads(self, x_NTC: Tensor) -> Tensor:
        """[B, S, K, G, C] view: the inverse of `query_rows`."""
        groups, seq_len = self.num_heads // self.num_kv_heads, self.mask_TS.shape[1]
        return x_NTC.view(-1, self.num_kv_heads, groups, seq_len, x_NTC.shape[-1]).permute(0, 3, 1, 2, 4)


Attending = LongRows | AttentionTables


def tables_of(config: ModelConfig, seq_len: int, compute: str) -> Attending:
    """The faster way for rows of that length."""
    kind: type[Attending] = LongRows if is_long(seq_len, compute) else AttentionTables
    return kind.build(config, seq_len)


def is_long(seq_len: int, compute: str) -> bool:
    """Whether rows go document by document; in bfloat16 all do."""
    return seq_len >= LONG or compute == "bfloat16"


class _Turn(torch.autograd.Function):
    """Rotary positions: the gradient is turned back."""

    @staticmethod
    def forward(ctx: Any, x_BSJC: Tensor, rotation_S1C: Tensor) -> Tensor:
        ctx.save_for_backward(rotation_S1C)
        return turn(x_BSJC, rotation_S1C)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (rotation_S1C,) = ctx.saved_tensors
        return turn(grads[0], rotation_S1C.conj()), None


class _RotaryAttention(torch.autograd.Function):
    """Turns queries and keys, and attends. By hand it moves a third less memory than the composite form."""

    @staticmethod
    def forward(ctx: Any, qkv_BSAC: Tensor, tables: AttentionTables, mask_NTS: Tensor) -> Tensor:
        num_sequences, seq_len, _, width = qkv_BSAC.shape
        heads, kv_heads = tables.num_heads, tables.num_kv_heads
        qk_BSJC = turn(qkv_BSAC[:, :, : heads + kv_heads], tables.rotation_S1C)
        q_NTC = tables.query_rows(qk_BSJC[:, :, :heads])
        k_NSC = qk_BSJC[:, :, heads:].transpose(1, 2).reshape(-1, seq_len, width)
        v_NSC = qkv_BSAC[:, :, heads + kv_heads :].transpose(1, 2).reshape(-1, seq_len, width)
        scores_NTS = torch.baddbmm(mask_NTS, q_NTC, k_NSC.transpose(1, 2), alpha=tables.scale)
        probs_NTS = scores_NTS.softmax(dim=-1)
        ctx.tables = tables
        ctx.save_for_backward(q_NTC, k_NSC, v_NSC, probs_NTS)
        return tables.query_heads(torch.bmm(probs_NTS, v_NSC)).reshape(num_sequences, seq_len, heads * width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        q_NTC, k_NSC, v_NSC, probs_NTS = ctx.saved_tensors
        tables: AttentionTables = ctx.tables
        (grad_BSD,) = grads
        num_sequences, seq_len, _ = grad_BSD.shape
        heads, kv_heads, width = tables.num_heads, tables.num_kv_heads, q_NTC.shape[-1]
        grad_NTC = tables.query_rows(grad_BSD.view(num_sequences, seq_len, heads, width))
        grad_probs_NTS = torch.bmm(grad_NTC, v_NSC.transpose(1, 2))
        grad_scores_NTS = torch._softmax_backward_data(grad_probs_NTS, probs_NTS, -1, torch.float32)
        turned_BSJC = grad_NTC.new_empty(num_sequences, seq_len, heads + kv_heads, width)
        query_part = turned_BSJC[:, :, :heads].view(num_sequences, seq_len, kv_heads, -1, width)
        query_part.copy_(tables.query_heads(torch.bmm(grad_scores_NTS, k_NSC)))
        turned_BSJC[:, :, heads:] = _by_position(torch.bmm(grad_scores_NTS.transpose(1, 2), q_NTC), kv_heads)
        grad_v_BSKC = _by_position(torch.bmm(probs_NTS.transpose(1, 2), grad_NTC), kv_heads)
        return torch.cat([turn(turned_BSJC, tables.rotation_back_S1C), grad_v_BSKC], dim=2), None, None


def turn(x_BSJC: Tensor, rotation_S1C: Tensor) -> Tensor:
    """Neighbouring pairs of channels are multiplied as complex numbers, in float32."""
    pairs = torch.view_as_complex(x_BSJC.float().reshape(*x_BSJC.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation_S1C).flatten(-2).to(x_BSJC.dtype)


def _by_position(x_NSC: Tensor, num_kv_heads: int) -> Tensor:
    """[B, S, K, C] view."""
    return x_NSC.view(-1, num_kv_heads, *x_NSC.shape[1:]).transpose(1, 2)


def document_mask(document_BS: Tensor | None, tables: AttentionTables) -> Tensor | None:
    """[N, T, S] 0 where a position may see another: an earlier one, or itself, of its own document; else -inf.

    `document_BS` says which document a token is of, -1 for padding, and may be one token longer than the positions.
    Within a document only distances matter to rotary positions, so they need not start anew. None: no documents.
    """
    if document_BS is None:
        return None
    groups, seq_len = tables.num_heads // tables.num_kv_heads, tables.mask_TS.shape[1]
    document_BS = document_BS[:, :seq_len]
    own_BS = tables.own(document_BS)
    apart_BSS = own_BS.unsqueeze(2) != document_BS.unsqueeze(1)
    mask_BSS = tables.mask_TS[: own_BS.shape[1]].masked_fill(apart_BSS, -math.inf)
    return mask_BSS.repeat(1, groups, 1).repeat_interleave(tables.num_kv_heads, dim=0)


def attention(
    x_BSD: Tensor,
    weights: Mapping[str, Tensor],
    prefix: str,
    config: ModelConfig,
    tables: Attending,
    sight: Tensor | None = None,
) -> Tensor:
    """One attention layer; plain causal without a sight. `weights` holds `<prefix>q_proj.weight` and so on."""
    out_BSD = tables.attend(projected(x_BSD, weights, prefix, config), sight)
    return functional.linear(out_BSD, weights[f"{prefix}o_proj.weight"])


def projected(x_BSD: Tensor, weights: Mapping[str, Tensor], prefix: str, config: ModelConfig) -> Tensor:
    """[B, S, A, C] queries, keys and values, the first two normed if configured.

    The three matrices are joined for one product; as parameters they stay apart.
    """
    names = [f"{prefix}{name}_proj" for name in ("q", "k", "v")]
    matrix = torch.cat([weights[f"{name}.weight"] for name in names])
    bias = torch.cat([weights[f"{name}.bias"] for name in names]) if config.attention_bias else None
    qkv_BSAC = functional.linear(x_BSD, matrix, bias).view(*x_BSD.shape[:2], -1, config.head_dim)
    if config.qk_norm:
        heads = {"q": config.num_heads, "k": config.num_kv_heads}
        gains = [weights[f"{prefix}{name}_norm.weight"].expand(count, -1) for name, count in heads.items()]
        qk_BSJC, v_BSKC = torch.split(qkv_BSAC, [sum(heads.values()), config.num_kv_heads], dim=2)
        qkv_BSAC = torch.cat([rms_norm(qk_BSJC, torch.cat(gains), config.norm_eps), v_BSKC], dim=2)
    return qkv_BSAC
