"""The model one stretch of tokens at a time: keys and values of earlier tokens are kept.

Shape letters: B sequences, Q new positions, S positions so far with the new ones, D model width, K key/value heads,
C head width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from contracts.errors import ConfigError
from trainer.attention import AttentionTables, projected, turn
from trainer.block import feed_forward
from trainer.config import TrainConfig
from trainer.model import output_logits
from trainer.norm import rms_norm


def inference_config(config: TrainConfig) -> TrainConfig:
    """The same model without the noise that only training has."""
    return config.with_overrides({"moe.router_jitter": 0.0})


class CachedBlock:
    """One transformer block with room for the keys and values of `capacity` positions."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        prefix: str,
        config: TrainConfig,
        tables: AttentionTables,
        num_sequences: int,
    ) -> None:
        self._weights, self._prefix, self._config, self._tables = weights, prefix, config, tables
        shape = (num_sequences, config.model.num_kv_heads, tables.mask_TS.shape[1], config.model.head_dim)
        self._key_BKSC, self._value_BKSC = torch.zeros(shape), torch.zeros(shape)

    def extend(self, x_BQD: Tensor, start: int) -> Tensor:
        """The residual stream behind the block at positions `start` and following; later ones are forgotten."""
        model, prefix = self._config.model, self._prefix
        normal_BQD = rms_norm(x_BQD, self._weights[f"{prefix}attn_norm.weight"], model.norm_eps)
        mixed_BQD = self._attention(normal_BQD, start)
        out_BQD, _ = feed_forward(x_BQD.add(mixed_BQD, alpha=model.residual_scale), self._weights, prefix, self._config)
        return out_BQD

    def _attention(self, x_BQD: Tensor, start: int) -> Tensor:
        model, tables, prefix = self._config.model, self._tables, f"{self._prefix}attn."
        heads, end = model.num_heads, start + x_BQD.shape[1]
        qkv_BQAC = projected(x_BQD, self._weights, prefix, model)
        qk_BQJC = turn(qkv_BQAC[:, :, : heads + model.num_kv_heads], tables.rotation_S1C[start:end])
        self._key_BKSC[:, :, start:end] = qk_BQJC[:, :, heads:].transpose(1, 2)
        self._value_BKSC[:, :, start:end] = qkv_BQAC[:, :, heads + model.num_kv_heads :].transpose(1, 2)
        out_BHQC = functional.scaled_dot_product_attention(
            qk_BQJC[:, :, :heads].transpose(1, 2),
            self._key_BKSC[:, :, :end],
            self._value_BKSC[:, :, :end],
            attn_mask=tables.mask_TS[start:end, :end],
            scale=tables.scale,
            enable_gqa=True,
        )
        return functional.linear(out_BHQC.transpose(1, 2).flatten(2), self._weights[f"{prefix}o_proj.weight"])


class Decoder:
    """The main model over `num_sequences` rows of equal length, up to `capacity` tokens each."""

    def __init__(self, config: TrainConfig, weights: Mapping[str, Tensor], num_sequences: int, capacity: int) -> None:
        """Raises ConfigError for more positions than the rotation can tell apart."""
        if capacity > config.model.longest_distance():
            raise ConfigError(
                f"{capacity} positions are beyond the rotation of model.rope_base {config.model.rope_base}",
                remedy="generate fewer tokens, or train with a larger model.rope_base",
            )
        self._config, self._weights = inference_config(config), weights
        self.tables = AttentionTables.build(config.model, capacity)
        self.length = 0
        self._blocks = [
            CachedBlock(weights, f"layers.{layer}.", self._config, self.tables, num_sequences)
            for layer in range(config.model.num_layers)
        ]

    @torch.no_grad()
    def extend(self, tokens_BQ: Tensor) -> tuple[Tensor, Tensor]:
        """Residual stream [B, Q, D] behind the last block and logits [B, Q, V] at the new tokens."""
        x_BQD = embedded(tokens_BQ, self._weights, self._config)
        for block in self._blocks:
            x_BQD = block.extend(x_BQD, self.length)
        self.length += tokens_BQ.shape[1]
        return x_BQD, output_logits(x_BQD, self._weights, "final_norm.weight", self._config)

    def rewind(self, length: int) -> None:
        """Forget the tokens from position `length` on."""
        self.length = length


def embedded(tokens_BQ: Tensor, weights: Mapping[str, Tensor], config: TrainConfig) -> Tensor:
    """[B, Q, D]."""
    return functional.embedding(tokens_BQ, weights["embedding.weight"]) * config.model.embedding_scale
