"""The embedded trainer against its peers on this CPU, one JSON object as the last line.

One process, interleaved rounds, equal threads, equality checked first, medians of paired ratios; every figure of
several shapes is its worst one, and the cell is named. With one thread (the default) the clock is CPU time. The peer is
Hugging Face's `Qwen3MoeForCausalLM` with the same weights, its faster way of computing experts in each cell (extra
`peer-huggingface`). Refuses to begin when the load exceeds the cores. `--shapes FILE` gives other shapes
(`benchmarks/trainer_parts/shapes.py`). Norms are written every 10 steps; all other statistics at every step.

    step_x_hf_bf16, _fp32     a whole training step (AdamW) against the peer's
    packed_attention_x_hf     rows of 4096 tokens, forward and backward, against attention under its document mask
    moe_over_dense            tokens per second by those of a dense model of equal active FLOPs, the worse precision
    muon_x_torch              128 experts at once against a loop of torch.optim.Muon
    muon_step_over_adamw      a step of 8192 tokens with Muon by one with AdamW
    cold_start_s, rerun_s     `lathe train` in an empty home to its first step; one re-run of the demo's size
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.trainer_parts import attention, dense, launches, muon, steps
from benchmarks.trainer_parts.peer import transformers
from benchmarks.trainer_parts.shapes import Shape, shapes_of
from contracts.errors import LatheError
from kernels.measure import refuse_a_busy_machine
from trainer.session import keep_freed_memory

AT_LEAST = {
    "step_x_hf_bf16": 3.0,
    "step_x_hf_fp32": 1.4,
    "packed_attention_x_hf": 6.0,
    "moe_over_dense": 0.9,
    "muon_x_torch": 1.4,
}
AT_MOST = {"muon_step_over_adamw": 1.10, "cold_start_s": 6.0}
PARTS = ("steps", "attention", "dense", "muon", "launches")
_COMPUTE = {"bf16": "bfloat16", "fp32": "float32"}

Cells = Mapping[str, float]


def bench_steps(shapes: Sequence[Shape], rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for short, compute in _COMPUTE.items():
        found = [steps.measure(shape, compute, rounds=rounds) for shape in shapes]
        figures |= worst(f"step_x_hf_{short}", {each.shape: each.speed for each in found}, min)
        figures[f"step_{short}_by_peer"] = {each.shape: each.by_peer for each in found}
        figures[f"tokens_per_s_{short}"] = {each.shape: each.tokens_per_s for each in found}
    return figures


def bench_attention(rounds: int) -> dict[str, Any]:
    cells = {
        f"{short} {row}": attention.measure(row, compute, rounds=rounds)
        for short, compute in _COMPUTE.items()
        for row in attention.ROWS
    }
    return worst("packed_attention_x_hf", cells, min)


def bench_dense(shapes: Sequence[Shape], rounds: int) -> dict[str, Any]:
    cells = {
        f"{short} {shape.name}": dense.measure(shape, compute, rounds=rounds)
        for short, compute in _COMPUTE.items()
        for shape in shapes
    }
    return worst("moe_over_dense", cells, min)


def bench_muon(shapes: Sequence[Shape], rounds: int) -> dict[str, Any]:
    stacks = {"x".join(map(str, stack)): muon.measure_stack(stack, rounds=rounds) for stack in muon.STACKS}
    whole = shapes[0].model_copy(update={"batch_size": max(1, 8192 // shapes[0].seq_len)})
    cells = {
        short: muon.measure_step(whole, compute, rounds=max(3, rounds // 2)) for short, compute in _COMPUTE.items()
    }
    return worst("muon_x_torch", stacks, min) | worst("muon_step_over_adamw", cells, max)


def bench_launches(rounds: int) -> dict[str, Any]:
    figures = {}
    for name, measure in (("cold_start_s", launches.cold_start_s), ("rerun_s", launches.rerun_s)):
        with tempfile.TemporaryDirectory(prefix="l") as folder:
            found = [measure(Path(folder) / str(number)) for number in range(min(rounds, 3))]
        figures[name] = statistics.median(found)
    return figures


def worst(key: str, cells: Cells, pick: Callable[..., str]) -> dict[str, Any]:
    """The figure of that key, which cell it is, and all cells."""
    name = pick(cells, key=lambda cell: cells[cell])
    sys.stderr.write(f"{key}: worst cell {name}, {cells[name]:.3f}\n")
    return {key: cells[name], f"{key}_worst": name, f"{key}_cells": dict(cells)}


def machine() -> dict[str, Any]:
    has_bf16 = bool(torch.cpu._is_avx512_bf16_supported())
    if not has_bf16:
        sys.stderr.write("this CPU has no avx512_bf16: the bf16 figures are those of emulated products\n")
    return {
        "avx512_bf16": has_bf16,
        "amx_bf16": bool(torch.cpu._is_amx_tile_supported()),
        "torch": torch.__version__,
        "peer": f"transformers {transformers().__version__}",
        "platform": platform.platform(),
        "num_threads": torch.get_num_threads(),
    }


def goals_met(figures: Mapping[str, Any]) -> dict[str, bool]:
    found = {key: figures[key] >= goal for key, goal in AT_LEAST.items() if key in figures}
    return found | {key: figures[key] <= goal for key, goal in AT_MOST.items() if key in figures}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shapes", type=Path, metavar="FILE", help="JSON list of other shapes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--any-load", action="store_true", help="measure although the machine is busy")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if not options.any_load:
        refuse_a_busy_machine()
    shapes = shapes_of(options.shapes)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    figures = machine()
    benches: Mapping[str, Callable[[], dict[str, Any]]] = {
        "steps": lambda: bench_steps(shapes, options.rounds),
        "attention": lambda: bench_attention(options.rounds),
        "dense": lambda: bench_dense(shapes, options.rounds),
        "muon": lambda: bench_muon(shapes, options.rounds),
        "launches": lambda: bench_launches(options.rounds),
    }
    for part in options.parts:
        figures |= benches[part]()
    figures["goals_met"] = goals_met(figures)
    if not options.json:
        for key, is_met in figures["goals_met"].items():
            sys.stdout.write(f"{key}: {figures[key]:.3f} ({'met' if is_met else 'missed'})\n")
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LatheError as error:
        sys.exit(str(error))
