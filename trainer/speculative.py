"""Speculative decoding: MTP modules draft, the main model verifies all drafts in one pass. Lossless.

A draft is kept with probability min(1, p / q), and the token after the last kept one is drawn from max(0, p - q), so
that tokens are distributed as the main model's (Leviathan et al., arXiv 2211.17192 section 2.3); at temperature 0
they are its own, one by one.

Shape letters: Q new positions, D model width, V vocabulary. There is one sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contracts.errors import ConfigError
from trainer.config import TrainConfig
from trainer.decoder import CachedBlock, Decoder, embedded, inference_config
from trainer.generate import Sampling
from trainer.model import output_logits
from trainer.mtp import PREFIX, joined


@dataclass(frozen=True, kw_only=True)
class Speculated:
    """The prompt with what follows, and how many passes of the main model it took."""

    tokens: tuple[int, ...]
    num_passes: int  # without the one over the prompt
    num_drafted: int
    num_accepted: int


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A proposed token and the distribution [V] it was drawn from."""

    token: int
    probs_V: Tensor


class Drafter:
    """All MTP modules with their caches. Entries that rest on drafts are made again in the next round."""

    def __init__(self, config: TrainConfig, weights: Mapping[str, Tensor], decoder: Decoder, capacity: int) -> None:
        num_modules = config.mtp.num_modules
        self._config, self._weights = inference_config(config), weights
        self._prefixes = [f"{PREFIX}{module}." for module in range(num_modules)]
        self._blocks = [CachedBlock(weights, prefix, self._config, decoder.tables, 1) for prefix in self._prefixes]
        self._hidden = [torch.zeros(1, capacity, config.model.d_model) for _ in range(num_modules + 1)]
        self._sure = [0] * num_modules  # positions of each module that rest on decided tokens only

    def remember(self, hidden_1QD: Tensor, start: int) -> None:
        """What the main model gave at positions `start` and following."""
        self._hidden[0][:, start : start + hidden_1QD.shape[1]] = hidden_1QD

    @torch.no_grad()
    def drafts(self, tokens: Sequence[int], sampling: Sampling, generator: torch.Generator) -> list[Draft]:
        """One token of each module behind `tokens`, of which the main model has seen all but the last."""
        found: list[Draft] = []
        end = len(tokens) - 1
        for module, (prefix, block) in enumerate(zip(self._prefixes, self._blocks, strict=True)):
            depth, start = module + 1, self._sure[module]
            told = [*tokens, *(draft.token for draft in found)][start + depth :]
            embedded_1QD = embedded(torch.tensor([told]), self._weights, self._config)
            before_1QD = self._hidden[module][:, start:end]
            x_1QD = joined(before_1QD, embedded_1QD, self._weights, prefix, self._config.model)
            hidden_1QD = block.extend(x_1QD, start)
            self._hidden[depth][:, start:end] = hidden_1QD
            self._sure[module] = max(0, end - module)
            last = output_logits(hidden_1QD[:, -1:], self._weights, f"{prefix}final_norm.weight", self._config)
            probs_1V = sampling.distribution(last[:, 0])
            found.append(Draft(token=int(sampling.draw(probs_1V, generator)), probs_V=probs_1V[0]))
        return found


def keep_probability(target_V: Tensor, draft: Draft) -> float:
    """min(1, p / q) of the drafted token."""
    return min(1.0, float(target_V[draft.token] / draft.probs_V[draft.token]))


def remainder(target_V: Tensor, draft: Draft) -> Tensor:
    """[V] what a token is drawn from when the draft was not kept: max(0, p - q), normalised."""
    rest_V = (target_V - draft.probs_V).clamp_(min=0.0)
    return rest_V / rest_V.sum()


def verified(target_QV: Tensor, drafts: Sequence[Draft], sampling: Sampling, generator: torch.Generator) -> list[int]:
    """The drafts that are kept, and one more token. Row i of `target_QV` is the main model's after i drafts."""
    kept: list[int] = []
    for target_V, draft in zip(target_QV, drafts, strict=False):
        chance = keep_probability(target_V, draft)
        if chance < 1.0 and float(torch.rand((), generator=generator, dtype=torch.float64)) >= chance:
            return [*kept, int(sampling.draw(remainder(target_V, draft).unsqueeze(0), generator))]
        kept.append(draft.token)
    return [*kept, int(sampling.draw(target_QV[-1:], generator))]


def generate_speculatively(
    config: TrainConfig,
    weights: Mapping[str, Tensor],
    prompt: Sequence[int],
    num_tokens: int,
    sampling: Sampling,
    generator: torch.Generator,
) -> Speculated:
    """As `generate.generate` for one prompt. Raises ConfigError when the model has no MTP module."""
    num_modules = config.mtp.num_modules
    if not num_modules:
        raise ConfigError("the model has no module that could draft", remedy="train with mtp.num_modules of 1 or more")
    goal = len(prompt) + num_tokens
    capacity = goal + num_modules + 1
    decoder = Decoder(config, weights, 1, capacity)
    drafter = Drafter(config, weights, decoder, capacity)
    hidden, logits = decoder.extend(torch.tensor([[*prompt]]))
    drafter.remember(hidden, 0)
    tokens = [*prompt, int(sampling.draw(sampling.distribution(logits[:, -1]), generator))]
    num_passes = num_drafted = num_accepted = 0
    while len(tokens) < goal:
        drafts, start = drafter.drafts(tokens, sampling, generator), decoder.length
        hidden, logits = decoder.extend(torch.tensor([[tokens[-1], *(draft.token for draft in drafts)]]))
        drafter.remember(hidden, start)
        new = verified(sampling.distribution(logits[0]), drafts, sampling, generator)
        decoder.rewind(start + len(new))
        tokens += new
        num_passes, num_drafted = num_passes + 1, num_drafted + len(drafts)
        num_accepted += len(new) - 1
    return Speculated(
        tokens=tuple(tokens[:goal]), num_passes=num_passes, num_drafted=num_drafted, num_accepted=num_accepted
    )
