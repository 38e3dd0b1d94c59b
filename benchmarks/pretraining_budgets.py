"""Does the loss after pretraining predict what comes of it? One JSON object as the last line (RC2-3.3).

A small model reads 1, 4 and 16 times as many tokens of code (the main phase of continued pretraining); then each gets
the same small SFT on coding tasks, then the same round of reinforcement: for every task that it learned it writes four
answers at temperature 1, and those that are right become the examples of a second, shorter SFT (expert iteration: a
policy gradient is not part of this trainer). Over budgets and seeds, rank correlations (Spearman) of

    held-out loss before, and loss on the answers of held-out tasks after the SFT
    loss after the SFT, and reward after it: the mean probability that an answer drawn for a held-out task is right
    loss after the SFT, and reward after the reinforcement

with 95 % intervals by resampling seeds whole (a correlation over three budgets of few seeds is coarse, and a budget
moves all of them at once: within-budget correlations are given too). What it says holds for this tiny model.
"""

from __future__ import annotations

import argparse
import itertools
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
from scipy import stats

from benchmarks.coding_tasks import Task, coding_tasks, write_examples
from benchmarks.continued_pretraining import codebase
from trainer.config import TrainConfig
from trainer.corpus import load_corpus
from trainer.generate import Sampling, generate
from trainer.held_out import held_out_loss
from trainer.recipe import Recipe
from trainer.recipes.continued_pretraining import recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.tiny_sft import Budget, answer_loss, answered, tuned_from
from trainer.training import Training, TrainingState

MULTIPLES = (1, 4, 16)
_SFT = Budget(steps=100, batch_size=4, seq_len=128, lr_scale=1.0)
_REINFORCED = replace(_SFT, steps=40, lr_scale=0.3)
_TRIES = 4
PAIRS = (("pretraining_loss", "sft_loss"), ("sft_loss", "sft_reward"), ("sft_loss", "reinforced_reward"))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one budget and seed. Losses are nats per byte, rewards mean probabilities of a right answer."""

    multiple: int
    seed: int
    pretraining_loss: float
    sft_loss: float
    sft_reward: float
    reinforced_reward: float


def reward(config: TrainConfig, state: TrainingState, tasks: Sequence[Task]) -> float:
    met = (answered(config, state.weights, task.prompt.encode(), task.answer.encode()) for task in tasks)
    return float(np.mean([each.probability for each in met]))


def right_answers(config: TrainConfig, state: TrainingState, tasks: Sequence[Task], seed: int) -> list[Task]:
    """Tasks by as many of their tries as were exactly right."""
    generator, found = torch.Generator().manual_seed(seed), list[Task]()
    for _, alike in itertools.groupby(sorted(tasks, key=_lengths), key=_lengths):
        some = [*alike]
        prompts = torch.tensor([[*task.prompt.encode()] for task in some]).repeat_interleave(_TRIES, dim=0)
        wanted = [[*task.answer.encode(), 0] for task in some for _ in range(_TRIES)]
        tokens = generate(config, state.weights, prompts, len(wanted[0]), Sampling(temperature=1.0), generator)
        written = tokens[:, prompts.shape[1] :].tolist()
        found += [some[i // _TRIES] for i, (a, b) in enumerate(zip(written, wanted, strict=True)) if a == b]
    return found


def _lengths(task: Task) -> tuple[int, int]:
    return len(task.prompt), len(task.answer)


def outcomes(steps: int, seed: int, folder: Path) -> list[Outcome]:
    """One pretraining, looked at after each multiple of `steps`."""
    config = recipe().with_overrides({"seed": seed}).plan()[0].config.with_overrides({"steps": steps * MULTIPLES[-1]})
    training = Training(Recipe(config=config), load_corpus(config.data.corpus_bytes), None, time.perf_counter)
    found = []
    for multiple in MULTIPLES:
        while training.step < steps * multiple:
            training.advance()
        found.append(_outcome(config, training.state(), multiple, seed, folder))
        sys.stderr.write(f"{found[-1]}\n")
    return found


def _outcome(config: TrainConfig, state: TrainingState, multiple: int, seed: int, folder: Path) -> Outcome:
    learned, held_out = coding_tasks(seed)
    recipe_, clock = Recipe(config=config), time.perf_counter
    examples = write_examples(learned, folder / "learned.jsonl")
    others = write_examples(held_out, folder / "held_out.jsonl")
    tuned = tuned_from(recipe_, state, examples, _SFT, clock).state
    right = right_answers(config, tuned, learned, seed)
    reinforced = tuned
    if right:
        own = write_examples(right, folder / "right.jsonl")
        reinforced = tuned_from(recipe_, tuned, own, _REINFORCED, clock).state
    return Outcome(
        multiple=multiple,
        seed=seed,
        pretraining_loss=held_out_loss(config, state.weights, codebase(16_000), 64),
        sft_loss=answer_loss(recipe_, tuned, others, _SFT.seq_len),
        sft_reward=reward(config, tuned, held_out),
        reinforced_reward=reward(config, reinforced, held_out),
    )


def correlation(found: Sequence[Outcome], a: str, b: str) -> dict[str, Any]:
    """Spearman's rho over all, its interval over resampled seeds, and its mean within a budget."""
    seeds = sorted({each.seed for each in found})
    by_seed = {seed: [each for each in found if each.seed == seed] for seed in seeds}
    draw = np.random.default_rng(0)
    resampled = [
        rho([each for seed in draw.choice(seeds, len(seeds)) for each in by_seed[int(seed)]], a, b) for _ in range(1000)
    ]
    within = [rho([each for each in found if each.multiple == multiple], a, b) for multiple in MULTIPLES]
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return {"rho": rho(found, a, b), "interval_95": [float(low), float(high)], "within_a_budget": within}


def rho(found: Sequence[Outcome], a: str, b: str) -> float:
    return float(stats.spearmanr(*([getattr(each, name) for each in found] for name in (a, b))).statistic)


def table_of(found: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Means over the seeds by budget."""
    names = ("pretraining_loss", "sft_loss", "sft_reward", "reinforced_reward")
    table = {}
    for multiple in MULTIPLES:
        mine = [each for each in found if each.multiple == multiple]
        table[f"{multiple}x"] = {name: float(np.mean([getattr(each, name) for each in mine])) for name in names}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--steps", type=int, default=40, help="of the smallest budget")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    make_deterministic(1)
    keep_freed_memory()
    found = list[Outcome]()
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            found += outcomes(options.steps, seed, Path(folder))
    correlations = {f"{a} and {b}": correlation(found, a, b) for a, b in PAIRS}
    result: Mapping[str, Any] = {"budgets": table_of(found), "correlations": correlations}
    if not options.json:
        for name, figures in {**result["budgets"], **correlations}.items():
            sys.stdout.write(f"{name}: {figures}\n")
    sys.stdout.write(json.dumps({"outcomes": [vars(each) for each in found], **result}) + "\n")


if __name__ == "__main__":
    main()
