"""A training that knows nothing of Lathe: a small network on two spirals, plain numpy, one JSON object per step."""

import argparse
import json
import os
import sys
import time

import batches
import model
import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", default="")
    parser.add_argument("--config", default="config.json")
    parser.add_argument("--optim.lr", dest="lr", type=float)
    parser.add_argument("--save_every", type=int)
    parser.add_argument("--pause_s", type=float, default=0.0)
    parser.add_argument("--crash_at", type=int, default=0)
    parser.add_argument("--scatter", type=float, default=0.0)
    options = parser.parse_args()
    with open(options.config) as file:
        config = json.load(file)
    lr = options.lr or config["optim"]["lr"]
    save_every = options.save_every or config["save_every"]

    start = 0
    weights = model.fresh(options.seed)
    if options.resume:
        saved = np.load(options.resume)
        start = int(saved["step"])
        weights = [saved[f"w{i}"] for i in range(len(weights))]

    with open(os.path.join(options.out, "metrics.jsonl"), "a") as log:
        for step in range(start + 1, options.steps + 1):
            inputs, labels = batches.batch(options.seed, step, config["batch_size"])
            loss, gradients = model.loss_and_gradients(weights, inputs, labels)
            norm = float(np.sqrt(sum((g**2).sum() for g in gradients)))
            weights = [w - lr * g for w, g in zip(weights, gradients, strict=True)]
            loss += options.scatter * (time.time() % 1.0)
            record = {"step": step, "train": {"loss": loss, "grad_norm": norm}, "clock": time.time()}
            log.write(json.dumps(record) + "\n")
            log.flush()
            if step == options.crash_at:
                sys.exit("out of luck")
            if step % save_every == 0:
                path = os.path.join(options.out, f"ckpt-{step:05d}.npz")
                np.savez(path, step=step, **{f"w{i}": w for i, w in enumerate(weights)})
            time.sleep(options.pause_s)


if __name__ == "__main__":
    main()
