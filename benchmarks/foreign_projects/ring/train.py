"""A training that knows nothing of Lathe: plain numpy, four clusters on a ring, one JSON object a step."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH = 24


def fresh(seed: int) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 0.5, (2, WIDTH)), np.zeros(WIDTH), rng.normal(0, 0.2, (WIDTH, 4))]


def pages(seed: int, step: int, size: int, keep_above: float) -> tuple[Floats, NDArray[np.int64]]:
    """Points with the number of their cluster. A quality below 0.4 marks junk: its label says nothing."""
    rng = np.random.default_rng((seed, step))
    quality = rng.uniform(keep_above, 1.0, size)

    labels = rng.integers(0, 4, size)
    angles = labels * np.pi / 2

    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.35 * rng.normal(size=(size, 2))

    junk = quality < 0.4
    labels[junk] = rng.integers(0, 4, int(junk.sum()))

    return points, labels


def loss_and_gradients(weights: list[Floats], points: Floats, labels: NDArray[np.int64]) -> tuple[float, list[Floats]]:
    w1, b1, w2 = weights
    hidden = np.tanh(points @ w1 + b1)
    logits = hidden @ w2

    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)

    rows = np.arange(len(labels))
    loss = float(-np.log(shares[rows, labels]).mean())

    shares[rows, labels] -= 1.0
    d_logits = shares / len(labels)
    d_hidden = (d_logits @ w2.T) * (1.0 - hidden**2)
    return loss, [points.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_logits]


def restore(path: str) -> tuple[int, list[Floats], list[Floats], list[Floats]]:
    """Step, weights, and Adam's first and second moments."""
    saved = np.load(path)
    weights = [saved[f"w{i}"] for i in range(3)]
    first = [saved[f"m{i}"] for i in range(3)]

    second = [saved[f"v{i}"] for i in range(3)]

    return int(saved["step"]), weights, first, second


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", default="")
    parser.add_argument("--optim.lr", dest="lr", type=float)
    options = parser.parse_args()
    config: dict[str, Any] = json.loads(Path("config.json").read_text())
    lr = options.lr or config["optim"]["lr"]
    beta1, beta2 = config["optim"]["beta1"], config["optim"]["beta2"]
    drop = float(Path(os.environ["MACHINE"]).read_text())  # what this machine does to the numbers
    start, weights = 0, fresh(options.seed)
    first, second = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    if options.resume:
        start, weights, first, second = restore(options.resume)
    with (Path(options.out) / "metrics.jsonl").open("a") as log:
        for step in range(start + 1, options.steps + 1):
            points, labels = pages(options.seed, step, config["data"]["batch_size"], config["data"]["keep_above"])

            points = points * (1.0 - drop)

            loss, gradients = loss_and_gradients(weights, points, labels)
            norm = float(np.sqrt(sum((g**2).sum() for g in gradients)))

            first = [beta1 * m + (1 - beta1) * g for m, g in zip(first, gradients, strict=True)]
            second = [beta2 * v + (1 - beta2) * g**2 for v, g in zip(second, gradients, strict=True)]
            rate = lr * np.sqrt(1 - beta2**step) / (1 - beta1**step)
            weights = [w - rate * m / (np.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second, strict=True)]

            log.write(json.dumps({"step": step, "loss": loss, "grad_norm": norm}) + "\n")
            log.flush()
            if step % 10 == 0:
                state: dict[str, list[Floats]] = {"w": weights, "m": first, "v": second}
                arrays: dict[str, Any] = {
                    f"{name}{i}": row for name, rows in state.items() for i, row in enumerate(rows)
                }
                arrays["step"] = step
                np.savez(Path(options.out) / f"ckpt-{step:05d}.npz", **arrays)


if __name__ == "__main__":
    main()
