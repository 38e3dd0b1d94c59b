"""Tiny SFT: one content-addressed recipe, applied to every checkpoint alike with several seeds (R801-4.2, 4.3).

What a checkpoint can become is measured by what the same light SFT makes of it. The recipe's digest covers the data
mix, the budget and the generator of the data; with the checkpoint's hash and a seed it names the result, which is
computed once. On one thread the same names give the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from context_store.canonical import content_hash
from contracts.errors import UserInputError
from loops.evals.protocol import protocol
from loops.evals.tasks import generated
from trainer.checkpoint import is_sound, load_checkpoint, save_checkpoint
from trainer.recipe import Recipe
from trainer.tiny_sft import Budget, sft_overrides, states_at
from trainer.training import TrainingState

# Shares of the report's 6.33B tokens: math, science and code about 2.00B each, instruction following 0.331B.
SHARES: Mapping[str, float] = {"math": 0.316, "science": 0.316, "code": 0.316, "instruction": 0.052}
SHARE_TOLERANCE = 0.001
DIRECT = "0_shot_direct"  # the protocol whose form the examples have


@dataclass(frozen=True, kw_only=True)
class SftRecipe:
    """`num_bytes` of prompts and answers in the given shares. `epochs`: by stage of the checkpoint, as early ones obey
    instructions weakly; the steps of the budget are multiplied by it. `marks`: shares of the budget at which the
    tuned model is scored for learnability."""

    num_bytes: int = 200_000
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    data_seed: int = 1000
    budget: Budget = field(default_factory=Budget)
    epochs: Mapping[str, int] = field(default_factory=dict)  # stage name -> times the budget; 1 for others
    marks: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5, 1.0)

    @cached_property
    def digest(self) -> str:
        return content_hash([asdict(self), generated.VERSION, protocol(DIRECT).digest])

    def budget_of(self, stage: str) -> Budget:
        return replace(self.budget, steps=self.budget.steps * self.epochs.get(stage, 1))

    def steps_of(self, stage: str) -> tuple[int, ...]:
        """SFT steps at which the model is scored."""
        steps = self.budget_of(stage).steps
        return tuple(sorted({max(1, round(mark * steps)) for mark in self.marks}))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a mix became: bytes and examples by group, and the hash of the file."""

    recipe: str
    sha256: str
    num_bytes: Mapping[str, int]
    num_examples: Mapping[str, int]

    @property
    def shares(self) -> dict[str, float]:
        total = sum(self.num_bytes.values())
        return {group: count / total for group, count in self.num_bytes.items()}


def build_mix(recipe: SftRecipe, avoid: set[str], folder: Path) -> tuple[Path, Manifest]:
    """Write the examples, none of whose questions is in `avoid`; the file's name is its content.

    Raises UserInputError when the shares cannot be met within 0.1 point at this size.
    """
    form = protocol(DIRECT)
    streams = {group: generated.stream(group, recipe.data_seed, avoid) for group in recipe.shares}
    sizes, counts = dict.fromkeys(recipe.shares, 0), dict.fromkeys(recipe.shares, 0)
    lines = []
    while sum(sizes.values()) < recipe.num_bytes:
        total = sum(sizes.values()) + 1
        group = max(recipe.shares, key=lambda each: recipe.shares[each] - sizes[each] / total)
        question = next(streams[group])
        prompt = form.question.format(question=question.text) + form.cue
        lines.append(json.dumps({"prompt": prompt, "answer": f" {question.answer}"}))
        sizes[group] += len(prompt) + len(question.answer) + 1
        counts[group] += 1
    content = "\n".join(lines) + "\n"
    manifest = Manifest(recipe=recipe.digest, sha256=content_hash(content), num_bytes=sizes, num_examples=counts)
    _check_shares(manifest, recipe)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sft-{manifest.sha256[:16]}.jsonl"
    if not path.exists():
        path.write_text(content)
    return path, manifest


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What is tuned: a checkpoint with the recipe that trained it, the stage it is of, and a seed of the SFT."""

    trained_by: Recipe
    state: TrainingState
    checkpoint: str  # content hash
    stage: str = ""
    seed: int = 1

    def named(self, recipe: SftRecipe) -> str:
        """Names the result: equal names, equal weights."""
        config = self.trained_by.config.with_overrides({"seed": self.seed}).flat()
        return content_hash([recipe.digest, self.checkpoint, self.stage, self.seed, config])[:32]


def tuned(
    recipe: SftRecipe, tuning: Tuning, examples: Path, cache: Path, clock: Callable[[], float]
) -> list[tuple[int, TrainingState]]:
    """(SFT steps, weights) at each of the recipe's marks; from the cache where they are there."""
    steps = recipe.steps_of(tuning.stage)
    folders = [cache / tuning.named(recipe) / f"step-{step:06d}" for step in steps]
    if not all(map(is_sound, folders)):
        _compute(recipe, tuning, examples, dict(zip(steps, folders, strict=True)), clock)
    return [(step, load_checkpoint(folder)) for step, folder in zip(steps, folders, strict=True)]


def tuned_config(recipe: SftRecipe, tuning: Tuning) -> Recipe:
    """The recipe whose config fits the tuned weights."""
    budget = recipe.budget_of(tuning.stage)
    config = tuning.trained_by.config.with_overrides(
        sft_overrides(tuning.trained_by.config, budget) | {"seed": tuning.seed}
    )
    return Recipe(config=config, parts=tuning.trained_by.parts)


def _compute(
    recipe: SftRecipe, tuning: Tuning, examples: Path, folders: Mapping[int, Path], clock: Callable[[], float]
) -> None:
    seeded = Recipe(
        config=tuning.trained_by.config.with_overrides({"seed": tuning.seed}), parts=tuning.trained_by.parts
    )
    marks: Sequence[int] = list(folders)
    states = states_at(seeded, tuning.state, examples, recipe.budget_of(tuning.stage), marks, clock)
    for step, state in zip(marks, states, strict=True):
        save_checkpoint(state, folders[step])


def _check_shares(manifest: Manifest, recipe: SftRecipe) -> None:
    off = {group: manifest.shares[group] - share for group, share in recipe.shares.items()}
    if max(map(abs, off.values())) > SHARE_TOLERANCE:
        worst = max(off, key=lambda group: abs(off[group]))
        raise UserInputError(
            f"a mix of {recipe.num_bytes} bytes misses the share of {worst} by {off[worst]:+.2%}",
            remedy="raise num_bytes, or give shares that sum to 1",
        )
