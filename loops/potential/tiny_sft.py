"""Tiny SFT: one content-addressed recipe, applied to every checkpoint alike with several seeds (R801-4.2, 4.3).

What a checkpoint can become is measured by what the same light SFT makes of it. The recipe's digest covers the data
mix, the budget and the generator of the data; with the checkpoint's hash and a seed it names the result, which is
computed once. On one thread the same names give the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from context_store.canonical import content_hash
from contracts.errors import UserInputError
from loops.evals.protocol import protocol
from loops.evals.tasks import generated
from loops.potential.sft_recipe import DIRECT, SHARE_TOLERANCE, SftRecipe
from trainer.checkpoint import is_sound, load_checkpoint, save_checkpoint
from trainer.config import TrainConfig
from trainer.recipe import Recipe
from trainer.tiny_sft import Budget, sft_overrides, states_at
from trainer.training import TrainingState

_ARCHITECTURE = (
    "model.", "mtp.num_modules", "moe.num_", "moe.top_k", "moe.d_", "moe.gate", "moe.renormalise", "moe.routed_scale",
    "moe.router_bias", "moe.choice_bias", "moe.router_temperature",
)  # fmt: skip


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


def shared_cache(case_folder: Path) -> Path:
    """Of tuned checkpoints, for all cases of a home: names of equal results are equal."""
    return case_folder.parent / "tuned"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What is tuned: a checkpoint with the recipe that trained it, the stage it is of, and a seed of the SFT."""

    trained_by: Recipe
    state: TrainingState
    checkpoint: str  # content hash
    stage: str = ""
    seed: int = 1

    def named(self, recipe: SftRecipe, data: str) -> str:
        """Names the result: equal names, equal weights. `data`: the hash of the mix, which the avoided texts shape."""
        return content_hash([recipe.digest, data, self.checkpoint, self.stage, self.config.flat()])[:32]

    @property
    def config(self) -> TrainConfig:
        """The model of the checkpoint, and for the rest the trainer's defaults: one SFT, whatever trained the model."""
        trained = self.trained_by.config.flat()
        model = {key: value for key, value in trained.items() if key.startswith(_ARCHITECTURE)}
        return TrainConfig().with_overrides({**model, "seed": self.seed, "parallel.dp_size": 1})


def tuned(
    recipe: SftRecipe, tuning: Tuning, examples: Path, cache: Path, clock: Callable[[], float]
) -> list[tuple[int, TrainingState]]:
    """(SFT steps, weights) at each of the recipe's marks; from the cache where they are there."""
    steps, name = recipe.marks_in(tuning.stage), tuning.named(recipe, content_hash(examples.read_text()))
    folders = [cache / name / f"step-{step:06d}" for step in steps]
    if not all(map(is_sound, folders)):
        _compute(recipe, tuning, examples, dict(zip(steps, folders, strict=True)), clock)
    return [(step, load_checkpoint(folder)) for step, folder in zip(steps, folders, strict=True)]


def tuned_config(recipe: SftRecipe, tuning: Tuning) -> Recipe:
    """The recipe whose config fits the tuned weights."""
    config = tuning.config
    return Recipe(config=config.with_overrides(sft_overrides(config, budget(recipe, tuning.stage))))


def budget(recipe: SftRecipe, stage: str) -> Budget:
    """In the trainer's words."""
    return Budget(
        steps=recipe.steps_in(stage), batch_size=recipe.batch_size, seq_len=recipe.seq_len, lr_scale=recipe.lr_scale
    )


def _compute(
    recipe: SftRecipe, tuning: Tuning, examples: Path, folders: Mapping[int, Path], clock: Callable[[], float]
) -> None:
    marks: Sequence[int] = list(folders)
    states = states_at(Recipe(config=tuning.config), tuning.state, examples, budget(recipe, tuning.stage), marks, clock)
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
