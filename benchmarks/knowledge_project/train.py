"""A training of a second that knows nothing of Lathe: plain numpy, one JSON object a step, checkpoints."""

import argparse
import json
import os

import net
import numpy as np
import rates
import samples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", default="")
    parser.add_argument("--optim.lr", dest="lr", type=float)
    options = parser.parse_args()
    with open("config.json") as file:
        config = json.load(file)
    lr = options.lr or config["optim"]["lr"]
    start, weights = 0, net.fresh(options.seed)
    if options.resume:
        saved = np.load(options.resume)
        start, weights = int(saved["step"]), [saved[f"w{i}"] for i in range(len(weights))]
    with open(os.path.join(options.out, "metrics.jsonl"), "a") as log:
        for step in range(start + 1, options.steps + 1):
            points, labels = samples.samples_of(options.seed, step, config["batch_size"])
            loss, gradients = net.loss_and_gradients(weights, points, labels)
            norm, gradients = net.clipped(gradients)
            rate = rates.rate_of(step, lr)
            weights = [w - rate * g for w, g in zip(weights, gradients, strict=True)]
            log.write(json.dumps({"step": step, "loss": loss, "grad_norm": norm}) + "\n")
            log.flush()
            if step % 10 == 0:
                path = os.path.join(options.out, f"ckpt-{step:05d}.npz")
                np.savez(path, step=step, **{f"w{i}": w for i, w in enumerate(weights)})


if __name__ == "__main__":
    main()
