"""Grouped-query causal attention with rotary positions.

Shape letters: B sequences, S positions, D model width, H query heads, K key/value heads, J = H + K,
G = H / K, C head width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainer.config import ModelConfig
from trainer.norm import rms_norm


@dataclass(frozen=True, kw_only=True)
class AttentionTables:
    """What depends only on the sequence length."""

    rotation_S1C: Tensor  # complex64, half the head width
    mask_TS: Tensor  # 0 where position T % S may see position S, else -inf; T = G * S

    @classmethod
    def build(cls, config: ModelConfig, seq_len: int) -> AttentionTables:
        """Rotary angles position / scale * base^(-2c/C) (Su et al., arXiv 2104.09864) and the causal mask."""
        half = torch.arange(config.head_dim // 2, dtype=torch.float64)
        frequency_C = config.rope_base ** (-2.0 * half / config.head_dim)
        position_S = torch.arange(seq_len, dtype=torch.float64) / config.rope_scale
        angle = torch.outer(position_S, frequency_C).unsqueeze(1)
        causal = torch.full((seq_len, seq_len), -math.inf).triu(diagonal=1)
        return cls(
            rotation_S1C=torch.polar(torch.ones_like(angle), angle).to(torch.complex64),
            mask_TS=causal.repeat(config.num_heads // config.num_kv_heads, 1),
        )


def attention(
    x_BSD: Tensor, weights: Mapping[str, Tensor], prefix: str, config: ModelConfig, tables: AttentionTables
) -> Tensor:
    """One attention layer. `weights` holds `<prefix>q_proj.weight` and so on."""
    num_sequences, seq_len, _ = x_BSD.shape
    groups = config.num_heads // config.num_kv_heads
    heads = [config.num_heads, config.num_kv_heads]
    qk_BSJC, v_BSKC = _projections(x_BSD, weights, prefix, config)
    if config.qk_norm:
        scales = zip(("q", "k"), heads, strict=True)
        scale_JC = torch.cat([weights[f"{prefix}{name}_norm.weight"].expand(count, -1) for name, count in scales])
        qk_BSJC = rms_norm(qk_BSJC, scale_JC, config.norm_eps)
    q_BSHC, k_BSKC = torch.split(_rotate(qk_BSJC, tables), heads, dim=2)
    batch = num_sequences * config.num_kv_heads
    q_BSKGC = q_BSHC.reshape(num_sequences, seq_len, config.num_kv_heads, groups, config.head_dim)
    q = q_BSKGC.permute(0, 2, 3, 1, 4).reshape(batch, groups * seq_len, config.head_dim)
    k = k_BSKC.transpose(1, 2).reshape(batch, seq_len, config.head_dim)
    v = v_BSKC.transpose(1, 2).reshape(batch, seq_len, config.head_dim)
    scale = config.attention_scale / math.sqrt(config.head_dim)
    scores = torch.baddbmm(tables.mask_TS, q, k.transpose(1, 2), alpha=scale)
    out = torch.bmm(scores.softmax(dim=-1), v)
    out_BKGSC = out.view(num_sequences, config.num_kv_heads, groups, seq_len, config.head_dim)
    out_BSD = out_BKGSC.permute(0, 3, 1, 2, 4).reshape(num_sequences, seq_len, -1)
    return functional.linear(out_BSD, weights[f"{prefix}o_proj.weight"])


def _projections(
    x_BSD: Tensor, weights: Mapping[str, Tensor], prefix: str, config: ModelConfig
) -> tuple[Tensor, Tensor]:
    """Queries with keys, and values, by one product: the matrices are joined for it, the parameters stay apart."""
    names = [f"{prefix}{name}_proj" for name in ("q", "k", "v")]
    matrix = torch.cat([weights[f"{name}.weight"] for name in names])
    bias = torch.cat([weights[f"{name}.bias"] for name in names]) if config.attention_bias else None
    heads = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
    joined = functional.linear(x_BSD, matrix, bias).view(*x_BSD.shape[:2], sum(heads), config.head_dim)
    qk, v = torch.split(joined, [heads[0] + heads[1], heads[2]], dim=2)
    return qk, v


def _rotate(x_BSJC: Tensor, tables: AttentionTables) -> Tensor:
    """Neighbouring pairs of channels are turned as complex numbers."""
    pairs = torch.view_as_complex(x_BSJC.reshape(*x_BSJC.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * tables.rotation_S1C).flatten(-2)
