"""The loss on text that a training never reads, over the tokens that it has read (RC2-3.2).

Shape letters: B rows, S positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.generate import full_logits
from trainer.model import LanguageModel
from trainer.parts import Parts
from trainer.recipe import Recipe, stage_of
from trainer.staged import StagedTraining
from trainer.targets import Sequences

_ROWS = 16  # read together


@dataclass(frozen=True, kw_only=True)
class Point:
    """`tokens` read before the measurement, `loss` per held-out token in nats."""

    stage: str
    step: int
    tokens: int
    loss: float


@torch.no_grad()
def held_out_loss(config: TrainConfig, weights: Mapping[str, Tensor], text: NDArray[np.uint8], seq_len: int) -> float:
    """Mean loss per token over windows of `seq_len` that follow each other; a last short one is left out."""
    own: dict[str, Scalar] = {
        **dict.fromkeys(("parallel.dp_size", "parallel.cp_size", "parallel.ep_size"), 1),
        "parallel.processes": False,
        "parallel.places": "",
        "data.seq_len": seq_len,
        "data.documents": "stream",
        "data.balance_window": 0,
        "moe.router_jitter": 0.0,
    }
    model = LanguageModel(config.with_overrides(own), Parts())
    rows = (len(text) - 1) // seq_len
    tokens_BS = np.lib.stride_tricks.sliding_window_view(text, seq_len + 1)[::seq_len][:rows].astype(np.int64)
    parts = torch.split(torch.from_numpy(tokens_BS), _ROWS)
    total = sum(float(model.forward(weights, Sequences(tokens_BS=part), 0).lm_loss) * len(part) for part in parts)
    return total / rows


@torch.no_grad()
def loss_by_position(
    config: TrainConfig, weights: Mapping[str, Tensor], text: NDArray[np.uint8], seq_len: int
) -> NDArray[np.float64]:
    """[seq_len] mean loss of the token behind each position, over windows that follow each other."""
    rows = (len(text) - 1) // seq_len
    windows = np.lib.stride_tricks.sliding_window_view(text, seq_len + 1)[::seq_len][:rows].astype(np.int64)
    total_S = torch.zeros(seq_len, dtype=torch.float64)
    for tokens_BS in torch.split(torch.from_numpy(windows), 1):
        logits_BSV = full_logits(config, weights, tokens_BS[:, :-1])
        total_S += functional.cross_entropy(logits_BSV[0], tokens_BS[0, 1:], reduction="none")
    return (total_S / rows).numpy()


def held_out_curve(
    recipe: Recipe,
    text: NDArray[np.uint8],
    *,
    every: int,
    seq_len: int,
    clock: Callable[[], float],
    at_end: Callable[[str, TrainConfig, Mapping[str, Tensor]], None] | None = None,
) -> Iterator[Point]:
    """Train the recipe to its end; a point before the first step, every so many, and at the end of each stage.

    `at_end` is told each stage's name, config and last weights, which the next step changes.
    """
    training, plan, tokens = StagedTraining(recipe, None, clock), recipe.plan(), 0

    def measured() -> Point:
        stage = stage_of(plan, max(training.step - 1, 0))
        loss = held_out_loss(stage.config, training.state().weights, text, seq_len)
        return Point(stage=stage.name, step=training.step, tokens=tokens, loss=loss)

    yield measured()
    while training.step < plan[-1].last_step:
        training.advance()
        data = training.config.data
        tokens += data.batch_size * data.seq_len
        is_end = training.ends_stage_early or training.step == plan[-1].last_step
        if is_end and at_end:
            at_end(stage_of(plan, training.step - 1).name, training.config, training.state().weights)
        if training.step % every == 0 or is_end:
            yield measured()
