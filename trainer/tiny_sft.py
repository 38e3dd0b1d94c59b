"""Tiny SFT: from the weights of a checkpoint, learn answers to prompts for a fixed number of steps.

A launch with `data.documents=answers` does it as a run of its own (`trainer.recipes.tiny_sft`); `fine_tune` does the
same in memory. Prompts and answers are packed as documents; only the tokens of answers are labels.

Shape letters: S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from contracts.errors import UserInputError
from contracts.events import Scalar
from trainer.checkpoint import load_checkpoint
from trainer.config import GROUPS, TrainConfig
from trainer.corpus import load_examples
from trainer.generate import full_logits
from trainer.loader import NOTHING_READ, sequences_of
from trainer.model import LanguageModel
from trainer.recipe import Recipe
from trainer.samples import sample_space, samples_of
from trainer.targets import Targets
from trainer.training import Training, TrainingState

_RANKS = ("parallel.dp_size", "parallel.accumulation", "parallel.cp_size")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a tiny SFT may spend; the learning rates of the checkpoint's recipe are multiplied by `lr_scale`."""

    steps: int = 60
    batch_size: int = 8  # rows
    seq_len: int = 128
    lr_scale: float = 0.3


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What came out: the state after the last step, and the mean loss on the answers of each step."""

    state: TrainingState
    losses: tuple[float, ...]


def sft_overrides(config: TrainConfig, budget: Budget) -> dict[str, Scalar]:
    """Config fields of a tiny SFT after a training with `config`: one rank, a tenth of warm-up, linear decay."""
    rates = {f"optim.{group}.lr": config.optim.group(group).lr * budget.lr_scale for group in GROUPS}
    return {
        **rates,
        "steps": budget.steps,
        "data.documents": "answers",
        "data.stride": None,
        "data.balance_window": 0,
        "data.batch_size": budget.batch_size,
        "data.seq_len": budget.seq_len,
        **dict.fromkeys(_RANKS, 1),
        "schedule.kind": "linear",
        "schedule.warmup_steps": budget.steps // 10,
        "schedule.decay_start": 0,
        "schedule.decay_steps": budget.steps,
        "schedule.min_ratio": 0.1,
    }


def fine_tune(recipe: Recipe, checkpoint: Path, examples: Path, budget: Budget, clock: Callable[[], float]) -> Tuned:
    """Train on the answers of `examples`, from the weights of a checkpoint that was trained with `recipe`.

    Equal arguments give equal bits on one thread. Raises UserInputError for examples that cannot be read or do not fit
    `budget.seq_len`, NotFound and UserInputError for the checkpoint.
    """
    return tuned_from(recipe, load_checkpoint(checkpoint), examples, budget, clock)


def tuned_from(
    recipe: Recipe, state: TrainingState, examples: Path, budget: Budget, clock: Callable[[], float]
) -> Tuned:
    """As `fine_tune`, from a state in memory."""
    training = _begun(recipe, state, examples, budget, clock)
    losses = [training.advance().values["lm_loss"] for _ in range(training.step, budget.steps)]
    return Tuned(state=training.state(), losses=tuple(losses))


def states_at(
    recipe: Recipe,
    state: TrainingState,
    examples: Path,
    budget: Budget,
    marks: Sequence[int],
    clock: Callable[[], float],
) -> Iterator[TrainingState]:
    """One tiny SFT from `state`, seen after each number of steps in `marks`; each state is a copy.

    Raises as `fine_tune`, and UserInputError for marks that do not grow or lie outside the budget.
    """
    if list(marks) != sorted(set(marks)) or not marks or marks[0] < 1 or marks[-1] > budget.steps:
        raise UserInputError(
            f"a tiny SFT of {budget.steps} steps cannot be seen at {list(marks)}",
            remedy="give growing numbers of steps between 1 and the budget",
        )
    training = _begun(recipe, state, examples, budget, clock)
    for mark in marks:
        while training.step < mark:
            training.advance()
        found = training.state()
        yield replace(found, weights={name: weight.clone() for name, weight in found.weights.items()}, optimizer={})


def _begun(
    recipe: Recipe, state: TrainingState, examples: Path, budget: Budget, clock: Callable[[], float]
) -> Training:
    config = recipe.config.with_overrides(sft_overrides(recipe.config, budget) | {"data.examples": str(examples)})
    corpus = load_examples(examples)
    state = for_answers(state, sample_space(corpus, config.data))
    return Training(Recipe(config=config, parts=recipe.parts), corpus, state, clock)


def for_answers(state: TrainingState, space: str) -> TrainingState:
    """The state itself if it was trained on these answers, else its weights alone: a start at step 0."""
    return state if state.loader.sample_space == space else replace(state, step=0, optimizer={}, loader=NOTHING_READ)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """`probability` that a sampled answer is this one to its end; `is_greedy`: it is what greedy decoding gives."""

    probability: float
    is_greedy: bool


def answered(config: TrainConfig, weights: Mapping[str, Tensor], prompt: bytes, answer: bytes) -> Answered:
    """How a model of bytes meets one task: does it write exactly this answer, and the end behind it?"""
    tokens_S = torch.tensor([*prompt, *answer, 0])
    logits_SV = full_logits(config, weights, tokens_S[None, :-1])[0, len(prompt) - 1 :]
    wanted_S = tokens_S[len(prompt) :]
    log_probs_S = logits_SV.log_softmax(dim=-1).gather(1, wanted_S.unsqueeze(1))
    is_greedy = bool((logits_SV.argmax(dim=-1) == wanted_S).all())
    return Answered(probability=float(log_probs_S.sum().exp()), is_greedy=is_greedy)


@torch.no_grad()
def answer_loss(recipe: Recipe, state: TrainingState, examples: Path, seq_len: int) -> float:
    """Mean loss per token of the answers, each read once: what a tiny SFT is judged by on examples it did not see."""
    overrides: dict[str, Scalar] = {"data.documents": "answers", "data.stride": None, "data.seq_len": seq_len}
    one_rank: dict[str, Scalar] = dict.fromkeys((*_RANKS, "data.batch_size"), 1)
    config = recipe.config.with_overrides(overrides | one_rank | {"data.balance_window": 0})
    samples = samples_of(load_examples(examples), config.data)
    model = LanguageModel(config, recipe.parts)
    total, count = 0.0, 0
    for row in range(samples.counts[0]):
        rows = samples.read(np.zeros(1, dtype=np.int64), np.array([row]))
        sequences = sequences_of(rows)
        num_labels = int(Targets.of(sequences, 0).counts_BS.sum())
        total += float(model.forward(state.weights, sequences, state.step).lm_loss) * num_labels
        count += num_labels
    return total / count
