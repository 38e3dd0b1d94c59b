"""What processes of one training send each other, counted on gloo, one JSON object as the last line (RC2-7.3 to 7.9).

    layouts   tensor against context parallelism on one block: bytes, shapes of products, rate of those (RC2-7.3)
    latents   context parallelism that gathers KV latents: bytes, and where the gather ends (RC2-7.4)
    wires     bits of a value on its way to an expert, error of the sum of what comes back (RC2-7.7)
    ranks     unequal sequences shared out in three ways: work of the busiest rank / the mean one (RC2-7.8)
    pipeline  an expert layer in 1, 2, 4 micro-batches, computing while others travel (RC2-7.9)

Bytes are exact; times are those of this machine's loopback and cores, where the processes share two of them, and say
nothing of NVLink, DeepEP or MXFP8 tensor cores, which are not here. `--lengths FILE` (one number a line) gives other
sequences to `ranks`; without it they are the files of Python's own library.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.communication_parts import latents, layouts, pipeline, rank_times, wires
from contracts.errors import LatheError, UserInputError
from kernels.measure import refuse_a_busy_machine

_LONGEST = 8192


def lengths_of(path: Path | None) -> list[int]:
    """Raises UserInputError for a file that is no list of lengths."""
    if path is None:
        return rank_times.real_lengths(_LONGEST, 64)
    try:
        found = [int(line) for line in path.read_text().split()]
    except (OSError, ValueError) as error:
        raise UserInputError(f"{path} is no list of lengths: {error}", remedy="write one number a line") from error
    if not found or min(found) < 1:
        raise UserInputError(f"{path} holds no lengths above 0", remedy="write one number a line")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--parts", nargs="+", choices=("layouts", "latents", "wires", "ranks", "pipeline"))
    parser.add_argument("--lengths", type=Path, metavar="FILE")
    parser.add_argument("--any-load", action="store_true", help="measure although the machine is busy")
    options = parser.parse_args()
    if not options.any_load:
        refuse_a_busy_machine()
    torch.set_num_threads(1)
    rounds, lengths = options.rounds, lengths_of(options.lengths)
    parts: Mapping[str, Callable[[], Any]] = {
        "layouts": lambda: [
            layouts.measure(size=4, seq_len=seq_len, width=512, rounds=rounds) for seq_len in (256, 1024)
        ],
        "latents": lambda: latents.measure(size=2, shape=latents.LatentShape()),
        "wires": lambda: wires.measure(size=2),
        "ranks": lambda: rank_times.measure(lengths, num_ranks=8, longest=max(lengths), rounds=max(3, rounds // 2)),
        "pipeline": lambda: [
            pipeline.measure(size=2, tokens=tokens, width=256, hidden=512, rounds=rounds) for tokens in (256, 4096)
        ],
    }
    figures = {name: parts[name]() for name in options.parts or parts}
    if not options.json:
        for name, found in figures.items():
            sys.stdout.write(f"{name}\n{json.dumps(found, indent=2)}\n")
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LatheError as error:
        sys.exit(str(error))
