"""Text from a model: greedy or sampled, one token after another.

Shape letters: B sequences, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import TrainConfig
from trainer.decoder import Decoder


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is chosen. Temperature 0 takes the most probable one; `top_p` leaves out the improbable tail."""

    temperature: float = 0.0
    top_p: float = 1.0

    def distribution(self, logits_BV: Tensor) -> Tensor:
        """[B, V] float64 probabilities that a token is drawn from."""
        if self.temperature == 0.0:
            return torch.zeros_like(logits_BV, dtype=torch.float64).scatter_(-1, _largest(logits_BV), 1.0)
        probs_BV = (logits_BV.double() / self.temperature).softmax(dim=-1)
        if self.top_p < 1.0:
            sorted_BV, order_BV = probs_BV.sort(dim=-1, descending=True)
            tail_BV = sorted_BV.cumsum(dim=-1) - sorted_BV >= self.top_p
            probs_BV = probs_BV.masked_fill(torch.zeros_like(tail_BV).scatter_(-1, order_BV, tail_BV), 0.0)
            probs_BV = probs_BV / probs_BV.sum(dim=-1, keepdim=True)
        return probs_BV

    def draw(self, probs_BV: Tensor, generator: torch.Generator) -> Tensor:
        """[B, 1] tokens. Nothing is drawn from the generator at temperature 0."""
        if self.temperature == 0.0:
            return _largest(probs_BV)
        return torch.multinomial(probs_BV, 1, generator=generator)


def _largest(x_BV: Tensor) -> Tensor:
    return x_BV.argmax(dim=-1, keepdim=True)


def generate(
    config: TrainConfig,
    weights: Mapping[str, Tensor],
    prompt_BS: Tensor,
    num_tokens: int,
    sampling: Sampling,
    generator: torch.Generator,
) -> Tensor:
    """[B, S + num_tokens] the prompts with what follows. All prompts have one length, at least 1."""
    decoder = Decoder(config, weights, len(prompt_BS), prompt_BS.shape[1] + num_tokens)
    tokens_BS, new_BQ = prompt_BS, prompt_BS
    for _ in range(num_tokens):
        _, logits_BQV = decoder.extend(new_BQ)
        new_BQ = sampling.draw(sampling.distribution(logits_BQV[:, -1]), generator)
        tokens_BS = torch.cat([tokens_BS, new_BQ], dim=1)
    return tokens_BS


def full_logits(config: TrainConfig, weights: Mapping[str, Tensor], tokens_BS: Tensor) -> Tensor:
    """[B, S, V] of the main model at every token, in one pass."""
    _, logits_BSV = Decoder(config, weights, len(tokens_BS), tokens_BS.shape[1]).extend(tokens_BS)
    return logits_BSV
