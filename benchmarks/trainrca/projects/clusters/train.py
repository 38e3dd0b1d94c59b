"""A training in plain numpy; it knows nothing of Lathe. `python train.py --out FOLDER --steps 200`."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from evaluation import evaluate
from network import forward, fresh, gradients_of, loss_of
from numpy.typing import NDArray
from optimizer import AdamW, clipped, norm_of, rate_at
from pages import page
from report import measured, of_layers, write
from state import restore, save

Floats = NDArray[np.float64]
Numbers = dict[str, Any]
PACE_S = 0.004  # a step takes at least this long, whatever the machine


def settings(given: list[str]) -> Numbers:
    """The file, and what the command line sets otherwise: --optim.lr=0.02."""
    config: Numbers = json.loads(Path("config.json").read_text())
    for argument in given:
        key, _, value = argument.removeprefix("--").partition("=")
        section, _, field = key.partition(".")
        config[section][field] = json.loads(value)
    return config


def micro_batches(points: Floats, labels: NDArray[np.int64], count: int) -> list[tuple[Floats, NDArray[np.int64]]]:
    """Equal parts of one page."""
    return list(zip(np.array_split(points, count), np.array_split(labels, count), strict=True))


def gradients_over(
    weights: list[Floats], points: Floats, labels: NDArray[np.int64], count: int
) -> tuple[float, list[Floats]]:
    """Loss and gradients of one page, in `count` passes."""
    losses, total = [], [np.zeros_like(w) for w in weights]
    for some, classes in micro_batches(points, labels, count):
        hidden = forward(weights, some)

        losses.append(loss_of(hidden[2], classes))

        found = gradients_of(weights, some, hidden, classes)

        total = [t + g / count for t, g in zip(total, found, strict=True)]

    return float(np.mean(losses)), total


def advance(
    weights: list[Floats], adam: AdamW, step: int, start: int, seed: int, config: Numbers, data: Numbers
) -> tuple[list[Floats], Numbers]:
    """One step: new weights, and what was measured."""
    began = time.perf_counter()
    points, labels = page(seed, step, data)

    points = points * (1.0 - float(Path(os.environ["MACHINE"]).read_text()))  # what this machine does to the numbers

    loss, gradients = gradients_over(weights, points, labels, config["train"]["accumulation"])

    norm, rate = norm_of(gradients), rate_at(step, config["optim"])

    used = clipped(gradients, norm, config["optim"]["clip_norm"])

    weights = adam.step(weights, used, rate, step, config["optim"])

    time.sleep(max(0.0, PACE_S - (time.perf_counter() - began)))

    speed = len(labels) / (time.perf_counter() - began)
    values: Numbers = measured(loss, norm, rate, speed)
    if config["log"]["layers"]:
        values |= of_layers(weights, gradients)
    return weights, values


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", default="")
    options, given = parser.parse_known_args()
    config, data = settings(given), json.loads(Path("data.json").read_text())
    weights, start = fresh(options.seed), 0
    adam = AdamW(weights)
    if options.resume:
        start, weights = restore(options.resume, adam)
    with (options.out / "metrics.jsonl").open("a") as log:
        for step in range(start + 1, options.steps + 1):
            weights, values = advance(weights, adam, step, start, options.seed, config, data)

            if config["log"]["evaluation"]:
                values["eval_loss"], values["accuracy"] = evaluate(weights, options.seed, step, data)

            write(log, step, values)
            if step % config["train"]["save_every"] == 0:
                save(options.out, step, weights, adam)


if __name__ == "__main__":
    main()
