"""A module that predicts one token further, over the phases of continued pretraining; one JSON object as the last line.

A main phase, a long context, a brief SFT (`trainer.recipes.continued_pretraining`, scaled by `--steps`). In the middle
of the main phase the main model stands still and a module starts from scratch on it, for as many steps as the main
phase has left (RC2-3.4), once with the next tokens as labels and once with the main head's distribution as teacher
(RC2-3.5). Then the main phase ends without it, and the last two phases follow twice: without the module, which is put
onto the final model as it was, and jointly with it (RC2-3.6). All is measured on a held-out codebase, greedily.

    teachers   loss on the next tokens, KL from the main head, drafts accepted: labels against main_head, equal steps
    phases     drafts accepted on the final model: the module of the middle, and the one that was trained jointly

Each has `accepted`, `tokens_a_pass` of the main model, and `speed` against plain decoding (CPU time); `all_equal` says
that every text is the one that plain decoding gives.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.coding_tasks import coding_tasks, write_examples
from benchmarks.continued_pretraining import codebase, scaled_recipe
from benchmarks.muon_steps import interval
from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.corpus import load_corpus
from trainer.generate import Sampling, generate
from trainer.model import LanguageModel
from trainer.mtp import PREFIX
from trainer.parts import Parts
from trainer.recipe import Recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.speculative import generate_speculatively
from trainer.staged import StagedTraining
from trainer.targets import Sequences
from trainer.training import Training, TrainingState

Weights = Mapping[str, Tensor]
_TEACHERS = ("labels", "main_head")
_PROMPTS, _PROMPT, _NEW = 8, 48, 48  # prompts, bytes of each, bytes generated behind it


@dataclass(frozen=True, kw_only=True)
class Drafting:
    """Over all prompts. `is_equal`: the tokens are those of plain greedy decoding."""

    accepted: float
    tokens_a_pass: float
    speed: float
    is_equal: bool


def drafting(config: TrainConfig, weights: Weights) -> Drafting:
    text = codebase(_PROMPTS * 1000)
    prompts = [text[1000 * index : 1000 * index + _PROMPT].tolist() for index in range(_PROMPTS)]
    generator = torch.Generator().manual_seed(0)
    passes = drafted = accepted = 0
    seconds, is_equal = {"plain": 0.0, "speculative": 0.0}, True
    for prompt in prompts:
        begin = time.process_time()
        plain = generate(config, weights, torch.tensor([prompt]), _NEW, Sampling(), generator)[0].tolist()
        middle = time.process_time()
        found = generate_speculatively(config, weights, prompt, _NEW, Sampling(), generator)
        seconds["plain"] += middle - begin
        seconds["speculative"] += time.process_time() - middle
        is_equal &= plain == list(found.tokens)
        passes, drafted, accepted = (
            passes + found.num_passes,
            drafted + found.num_drafted,
            accepted + found.num_accepted,
        )
    return Drafting(
        accepted=accepted / drafted,
        tokens_a_pass=(passes + accepted) / passes,
        speed=seconds["plain"] / seconds["speculative"],
        is_equal=is_equal,
    )


@torch.no_grad()
def module_losses(config: TrainConfig, weights: Weights) -> dict[str, float]:
    """Per held-out token: of the tokens themselves, and from the main head's distribution."""
    text = torch.from_numpy(codebase(64 * 64 + 1).astype(np.int64))
    tokens_BS = text.unfold(0, 65, 64)
    found = {}
    for teacher in _TEACHERS:
        model = LanguageModel(config.with_overrides({"mtp.teacher": teacher, "parallel.dp_size": 1}), Parts())
        found[teacher] = float(model.forward(weights, Sequences(tokens_BS=tokens_BS), 0).mtp_K[0])
    return {"loss": found["labels"], "kl": found["main_head"]}


def copied(state: TrainingState) -> TrainingState:
    """In memory of its own: the training goes on in that of the state."""
    optimizer = {
        name: replace(kept, tensors={key: tensor.clone() for key, tensor in kept.tensors.items()})
        for name, kept in state.optimizer.items()
    }
    return replace(state, weights={n: w.clone() for n, w in state.weights.items()}, optimizer=optimizer)


def module_of(recipe: Recipe, middle: TrainingState, steps: int, teacher: str) -> dict[str, Tensor]:
    """Weights of a module trained from scratch on a main model that stands still."""
    end = middle.step + steps
    changes: dict[str, Scalar] = {
        "mtp.num_modules": 1,
        "mtp.teacher": teacher,
        "mtp.freeze_main_until": end,
        "steps": end,
    }
    config = recipe.plan()[0].config.with_overrides(changes)
    training = Training(Recipe(config=config), load_corpus(config.data.corpus_bytes), middle, time.perf_counter)
    while training.step < end:
        training.advance()
    return {name: weight for name, weight in training.state().weights.items() if name.startswith(PREFIX)}


def finished(recipe: Recipe, state: TrainingState) -> tuple[TrainConfig, Weights]:
    """The config of the last phase, and the weights at its end."""
    training = StagedTraining(recipe, state, time.perf_counter)
    while training.step < recipe.plan()[-1].last_step:
        training.advance()
    return training.config, training.state().weights


def measure(steps: int, seed: int, folder: Path) -> dict[str, Any]:
    examples = write_examples(coding_tasks(seed)[0], folder / "tasks.jsonl")
    recipe = scaled_recipe(steps, examples).with_overrides({"seed": seed})
    training = StagedTraining(recipe, None, time.perf_counter)
    while training.step < steps // 2:
        training.advance()
    middle = copied(training.state())
    with_module: dict[str, Scalar] = {"mtp.num_modules": 1}
    modules, teachers = {}, {}
    for teacher in _TEACHERS:
        modules[teacher] = module_of(recipe, middle, steps - steps // 2, teacher)
        config, taught = training.config.with_overrides(with_module), {**middle.weights, **modules[teacher]}
        teachers[teacher] = module_losses(config, taught) | vars(drafting(config, taught))
    while training.step < steps:
        training.advance()
    end, module = copied(training.state()), modules["main_head"]
    config, weights = finished(recipe, end)
    apart = drafting(config.with_overrides(with_module), {**weights, **module})
    jointly = recipe.with_overrides({**with_module, "mtp.teacher": "main_head"})
    joint = drafting(*finished(jointly, replace(end, weights={**end.weights, **module})))
    return {"teachers": teachers, "phases": {"apart": vars(apart), "jointly": vars(joint)}}


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and the paired differences with Student's 95 % intervals."""
    table: dict[str, Any] = {}
    for part in ("teachers", "phases"):
        names = [*found[0][part]]
        for name in names:
            keys = [key for key, value in found[0][part][name].items() if not isinstance(value, bool)]
            table[f"{part}.{name}"] = {key: float(np.mean([each[part][name][key] for each in found])) for key in keys}
        first, second = ([each[part][name]["accepted"] for each in found] for name in names)
        differences = [b - a for a, b in zip(first, second, strict=True)]
        table[f"{part}.accepted_{names[1]}_minus_{names[0]}"] = {
            "mean": float(np.mean(differences)), "interval_95": interval(differences) if len(found) > 1 else None
        }  # fmt: skip
    table["all_equal"] = all(each[part][name]["is_equal"] for each in found for part in each for name in each[part])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--steps", type=int, default=200, help="of the main phase")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    make_deterministic(1)
    keep_freed_memory()
    found = []
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(options.steps, seed, Path(folder)))
        sys.stderr.write(f"seed {seed}: {json.dumps(found[-1])}\n")
    table = summary(found)
    if not options.json:
        for name, figures in table.items():
            sys.stdout.write(f"{name}: {figures}\n")
    sys.stdout.write(json.dumps({"seeds": options.seeds, "steps": options.steps, **table}) + "\n")


if __name__ == "__main__":
    main()
