"""A ladder that is really trained: recipes x sizes x seeds on the embedded trainer, each with two light SFTs.

Every cell trains a model from random weights on one mixture, scores it, tunes it by the Tiny-SFT recipe and, apart
from that, by one four times as long, and scores both. What it scored lies in a folder as raw outputs; a cell that is
there is not computed again. Recipes differ in what they read and when, never in how much.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from contracts.events import Scalar
from loops.evals.bits import bits_per_byte
from loops.evals.checkpoint_model import CheckpointModel
from loops.evals.protocol import protocol
from loops.evals.run import evaluate, save
from loops.evals.task import Task, Text
from loops.evals.tasks import generated
from loops.potential.sft_recipe import SftRecipe
from loops.potential.tiny_sft import Tuning, budget, build_mix, tuned_config
from trainer.config import TrainConfig
from trainer.corpus import corpus_of, load_corpus
from trainer.recipe import Recipe
from trainer.tiny_sft import states_at
from trainer.training import Training, TrainingState

STEPS = 150
TINY_STEPS, LONGER = 30, 4
NUM_ITEMS = 25  # of each family
SEEDS = (1, 2, 3)
_SHARE_BYTES = 400_000
_HELD_OUT = 16_384
_LATE, _EARLY = STEPS * 7 // 10, STEPS * 3 // 10

# Parameters: 0.2, 0.6 and 1.5 million.
SIZES: Mapping[str, Mapping[str, Scalar]] = {
    "small": {"model.num_layers": 4, "model.d_model": 48, "moe.d_expert": 32},
    "middle": {"model.num_layers": 5, "model.d_model": 80, "moe.d_expert": 48},
    "large": {"model.num_layers": 6, "model.d_model": 128, "moe.d_expert": 64},
}
_CODE_DOCS = "code=0.6 docs=0.4 tables=0 questions=0"
RECIPES: Mapping[str, Mapping[str, Scalar]] = {
    "code": {"data.mixture.folders": "code=1 docs=0 tables=0 questions=0"},
    "docs": {"data.mixture.folders": "code=0 docs=1 tables=0 questions=0"},
    "tables": {"data.mixture.folders": "code=0 docs=0 tables=1 questions=0"},
    "code_docs": {"data.mixture.folders": _CODE_DOCS},
    "all_text": {"data.mixture.folders": "code=0.4 docs=0.3 tables=0.3 questions=0"},
    "questions_5": {"data.mixture.folders": "code=0.55 docs=0.4 tables=0 questions=0.05"},
    "questions_20": {"data.mixture.folders": "code=0.45 docs=0.35 tables=0 questions=0.2"},
    "questions_late": {"data.mixture.folders": _CODE_DOCS, "data.mixture.changes": f"{_LATE}: questions=1"},
    "questions_early": {
        "data.mixture.folders": "code=0.6 docs=0.4 tables=0 questions=1",
        "data.mixture.changes": f"{_EARLY}: questions=0",
    },
}


def cells(recipes: Sequence[str], sizes: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Seed by seed, so that what is there early is a whole ladder of fewer seeds."""
    for seed in seeds:
        for size in sizes:
            for recipe in recipes:
                yield recipe, size, seed


def tasks() -> list[Task]:
    return generated.tasks(NUM_ITEMS)


def build_corpus(folder: Path) -> None:
    """Sources as files: text of this Python, and generated questions with answers, none of them a test item's."""
    avoid = {item.question for task in tasks() for item in (*task.items, *task.examples)}
    library, packages, docs, tables = load_corpus(40_000_000).sources
    half = _SHARE_BYTES // 2
    code = library[:half].tobytes() + packages[:half].tobytes()
    content = {
        "code": code,
        "docs": docs[:_SHARE_BYTES].tobytes(),
        "tables": tables[:_SHARE_BYTES].tobytes(),
        "questions": _questions(avoid),
    }
    for name, text in content.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        with (folder / name / "text.jsonl").open("w") as file:
            for document in text.split(b"\0"):
                file.write(json.dumps({"text": document.decode("utf-8", "replace")}) + "\n")


def held_out() -> list[Text]:
    library, _, docs, tables = load_corpus(40_000_000).sources
    ends = {"code": library[-_HELD_OUT:], "docs": docs[-_HELD_OUT:], "tables": tables[-_HELD_OUT:]}
    return [
        Text(name=f"bits_{name}", version=1, documents=(text.tobytes().decode("utf-8", "ignore"),))
        for name, text in ends.items()
    ]


def config_of(recipe: str, size: str, seed: int, corpus: Path) -> TrainConfig:
    own: dict[str, Scalar] = {
        "seed": seed,
        "steps": STEPS,
        "data.folder": str(corpus),
        "data.seq_len": 128,
        "parallel.dp_size": 1,
        "data.corpus_bytes": 4 * _SHARE_BYTES,
        "schedule.kind": "linear",
        "schedule.decay_steps": STEPS,
        "diagnostics.norms_every": STEPS,
        "diagnostics.routing_every": STEPS,
    }
    return TrainConfig().with_overrides({**own, **SIZES[size], **RECIPES[recipe]})


def computed(name: tuple[str, str, int], folder: Path, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Figures of one cell, from its file where it is there."""
    path = folder / "cells" / f"{'.'.join(map(str, name))}.{_digest()}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    begin = clock()
    config = config_of(*name, folder / "corpus")
    training = Training(Recipe(config=config), corpus_of(config.data, config.model.vocab_size), None, clock)
    for _ in range(STEPS):
        training.advance()
    state = replace(training.state(), optimizer={})
    trained_s = clock() - begin
    raw = folder / "raw" / ".".join(map(str, name))
    found = {"recipe": name[0], "size": name[1], "seed": name[2], "trained_s": round(trained_s, 1)}
    found |= {"base": _scores(config, state, raw / "base", starts=True)}
    found |= {"tiny": _tuned(config, state, folder, raw / "tiny", 1, clock)}
    found |= {"long": _tuned(config, state, folder, raw / "long", LONGER, clock)}
    found["cell_s"] = round(clock() - begin, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(f".{os.getpid()}")
    partial_path.write_text(json.dumps(found))
    partial_path.replace(path)
    return found


def trained(folder: Path, wanted: Sequence[tuple[str, str, int]], *, workers: int, fresh: bool) -> list[dict[str, Any]]:
    """All cells, computed by so many processes of one thread each."""
    import multiprocessing

    if fresh:
        shutil.rmtree(folder / "cells", ignore_errors=True)
    if not (folder / "corpus" / "questions").exists():
        build_corpus(folder / "corpus")
    build_mix(_sft(1), _avoided(), folder)
    found = []
    with multiprocessing.get_context("spawn").Pool(workers, initializer=_single_thread) as pool:
        for cell in pool.imap(partial(computed, folder=folder), wanted):
            found.append(cell)
            sys.stderr.write(f"  {cell['recipe']} {cell['size']} seed {cell['seed']}: {_line(cell)}\n")
    return found


def _line(cell: Mapping[str, Any]) -> str:
    scores = ", ".join(f"{kind} {cell[kind]['accuracy']:.1f}" for kind in ("base", "tiny", "long"))
    return f"{scores} ({cell['cell_s']:.0f} s)"


def _single_thread() -> None:
    import torch

    torch.set_num_threads(1)
    os.nice(5)


def _sft(times: int) -> SftRecipe:
    return SftRecipe(steps=TINY_STEPS * times)


def _avoided() -> set[str]:
    return {item.question for task in tasks() for item in (*task.items, *task.examples)}


def _questions(avoid: set[str]) -> bytes:
    """In another form than the SFT's: what a web page with exercises may look like."""
    streams = [generated.stream(group, 77, avoid) for group in generated.FAMILIES]
    pages, size = [], 0
    while size < _SHARE_BYTES:
        page = "\n".join(f"{q.text} {q.working} {q.answer}" for _ in range(4) for q in map(next, streams))
        pages.append(page.encode())
        size += len(page) + 1
    return b"\0".join(pages)[:_SHARE_BYTES]


def _tuned(
    config: TrainConfig, state: TrainingState, folder: Path, raw: Path, times: int, clock: Callable[[], float]
) -> dict[str, Any]:
    recipe = _sft(times)
    examples, _ = build_mix(recipe, _avoided(), folder)
    tuning = Tuning(trained_by=Recipe(config=config), state=state, checkpoint="", seed=config.seed)
    (last,) = states_at(Recipe(config=tuning.config), state, examples, budget(recipe, ""), [recipe.steps], clock)
    return _scores(tuned_config(recipe, tuning).config, last, raw, starts=False)


def _scores(config: TrainConfig, state: TrainingState, raw: Path, *, starts: bool) -> dict[str, Any]:
    """Points by task: accuracy, and minus the bits that the right answer costs a byte."""
    model = CheckpointModel(raw.name, config, state.weights, starts=starts, batch_size=64)
    accuracy, bits = {}, {}
    for task in tasks():
        done = evaluate(task, protocol("ppl_acc_norm"), model)
        save(done, raw)
        accuracy[task.name] = 100.0 * done.accuracy
        bits[task.name] = _bits(task, [output.logprobs for output in done.outputs])
    found = {"accuracy": _mean(accuracy), "likelihood": -_mean(bits), "by_task": accuracy}
    if starts:
        found["bits_per_byte"] = {text.name: bits_per_byte(text, model).value for text in held_out()}
    return found


def _bits(task: Task, logprobs: Sequence[Sequence[float]]) -> float:
    total = 0.0
    for item, options in zip(task.items, logprobs, strict=True):
        total -= options[item.choices.index(item.answer)] / (len(item.answer.encode()) + 1)
    return total / len(task.items) / 0.6931471805599453


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def _digest() -> str:
    """Of all that decides a cell's figures, except its name."""
    parts = [STEPS, TINY_STEPS, LONGER, SIZES, RECIPES, _sft(1).digest, _sft(LONGER).digest, _SHARE_BYTES]
    parts += [task.digest for task in tasks()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=dict).encode()).hexdigest()[:12]
