"""The kernels on this CPU against their named peers, one JSON object as the last line.

Interleaved rounds in one process, equality checked first, medians of paired ratios, equal threads (all cores and wall
time; with --threads 1 CPU time); refuses to measure when the load exceeds the cores. `--shapes FILE` replaces the
grouped GEMM's shapes: a JSON list of objects with rows, inner, outer and optionally experts (a list) and loads (a list
of "equal", "uniform", "dirichlet" or of row counts).

    gemm_x_torch_bf16, _fp32   geometric mean over shapes of F.grouped_mm's seconds / ours, forward and backward, the
                               same loads in every round (torch has every primitive cached)
    gemm_x_torch_bf16_new      the same with loads drawn anew in every round, as a trained router's are
    gemm_worst                 the worst cell of the first two
    gemm_of_dense, _e128       speed against one dense product of as many rows, E < 128 and E = 128
    mlp_x_torch_bf16, _fp32    the whole expert MLP against gather, F.grouped_mm, SwiGLU and index_add, new loads
    ce_memory, ce_x_torch      peak memory and speed against F.cross_entropy on whole logits, the worse dtype
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from kernels.cross_entropy import bench as cross_entropy
from kernels.grouped_gemm import bench as grouped_gemm
from kernels.measure import geometric_mean, refuse_a_busy_machine
from kernels.mxfp8 import bench as mxfp8
from kernels.newton_schulz import bench as newton_schulz
from kernels.norm_rope import bench as norm_rope
from kernels.nvfp4 import bench as nvfp4
from kernels.nvfp4.study import division_study, scaling_study
from kernels.packed_attention import bench as packed_attention
from kernels.quantised_gemm import bench as quantised_gemm
from kernels.router import bench as router

EXPERTS = (16, 32, 64, 128)
LOADS = ("equal", "uniform", "dirichlet")
# Gate-up and down products of a 256-wide model with experts of 96, and of one four times as wide.
SHAPES: tuple[dict[str, Any], ...] = (
    {"rows": 8192, "inner": 256, "outer": 192},
    {"rows": 8192, "inner": 96, "outer": 256},
)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
PARTS = ("gemm", "mlp", "cross_entropy", "attention", "others", "formats")


def cells(shapes: Sequence[dict[str, Any]]) -> Iterator[grouped_gemm.Cell]:
    for shape in shapes:
        for dtype in DTYPES.values():
            for loads in shape.get("loads", LOADS):
                given = isinstance(loads, list)
                for experts in [len(loads)] if given else shape.get("experts", EXPERTS):
                    yield grouped_gemm.Cell(
                        rows=sum(loads) if given else shape["rows"],
                        inner=shape["inner"],
                        outer=shape["outer"],
                        experts=experts,
                        loads=tuple(loads) if given else loads,
                        dtype=dtype,
                    )


def bench_gemm(shapes: Sequence[dict[str, Any]], rounds: int) -> dict[str, Any]:
    results = []
    for cell in cells(shapes):
        new_rounds = 3 if cell.dtype == torch.bfloat16 else 0
        result = grouped_gemm.measure(cell, rounds=rounds, new_rounds=new_rounds)
        new = "" if math.isnan(result.x_torch_new) else f", new loads {result.x_torch_new:.1f} x"
        sys.stderr.write(f"{cell.name}: {result.x_torch:.2f} x torch, {result.of_dense:.2f} of dense{new}\n")
        results.append(result)
    worst = min(results, key=lambda r: r.x_torch)
    sys.stderr.write(f"worst cell: {worst.cell.name}, {worst.x_torch:.2f} x torch\n")
    figures: dict[str, Any] = {"gemm_worst": worst.x_torch, "gemm_worst_cell": worst.cell.name}
    for name, dtype in DTYPES.items():
        mine = [r for r in results if r.cell.dtype == dtype]
        figures[f"gemm_x_torch_{name}"] = geometric_mean(r.x_torch for r in mine)
        figures[f"gemm_of_dense_{name}"] = geometric_mean(r.of_dense for r in mine if r.cell.experts < 128)
        figures[f"gemm_of_dense_e128_{name}"] = geometric_mean(r.of_dense for r in mine if r.cell.experts >= 128)
    figures["gemm_x_torch_bf16_new"] = geometric_mean(r.x_torch_new for r in results if r.x_torch_new > 0)
    figures["gemm_of_dense"] = geometric_mean(r.of_dense for r in results if r.cell.experts < 128)
    figures["gemm_of_dense_e128"] = geometric_mean(r.of_dense for r in results if r.cell.experts >= 128)
    figures["gemm_cells"] = [
        {
            "cell": r.cell.name,
            "x_torch": r.x_torch,
            "of_dense": r.of_dense,
            "x_torch_new": r.x_torch_new,
            "ms": r.ours_s * 1e3,
        }
        for r in results
    ]
    return figures


def bench_others(parts: Sequence[str], rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if "mlp" in parts:
        for name, dtype in DTYPES.items():
            sizes = [(1024, 4, 32), (2048, 8, 128)]
            ratios = [
                grouped_gemm.measure_mlp(dtype, tokens=n, choices=k, experts=e, rounds=rounds) for n, k, e in sizes
            ]
            figures[f"mlp_x_torch_{name}"] = geometric_mean(ratios)
    if "cross_entropy" in parts:
        ratios_by_dtype = {name: cross_entropy.measure(name, rounds=rounds) for name in cross_entropy.DTYPES}
        figures["ce_memory"] = max(r.memory for r in ratios_by_dtype.values())
        figures["ce_x_torch"] = min(r.speed for r in ratios_by_dtype.values())
        figures["ce_cells"] = {name: vars(r) for name, r in ratios_by_dtype.items()}
    if "attention" in parts:
        for name, dtype in DTYPES.items():
            figures[f"attention_x_masked_{name}"] = packed_attention.measure(dtype, rounds=rounds)
    if "others" in parts:
        figures["newton_schulz_x_loop"] = newton_schulz.measure(rounds=rounds)
        figures["router_x_plain"] = router.measure(rounds=rounds)
        for name, dtype in DTYPES.items():
            figures[f"norm_rope_x_plain_{name}"] = norm_rope.measure(dtype, rounds=rounds)
    if "formats" in parts:
        figures["mxfp8_gb_s"] = mxfp8.measure(rounds=rounds)
        figures["nvfp4_gb_s"] = nvfp4.measure("token", rounds=rounds)
        figures["nvfp4_per_tensor_gb_s"] = nvfp4.measure("tensor", rounds=rounds)
        figures["quantised_gemm_x_plain"] = quantised_gemm.measure(rounds=3)
        figures["leaked_per_token"] = scaling_study("token", seed=1).leaked
        figures["leaked_per_tensor"] = scaling_study("tensor", seed=1).leaked
        figures["division_flips"] = vars(division_study(seed=1))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--shapes", type=Path, help="JSON file with the grouped GEMM's shapes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both candidates; default: all cores")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--any-load", action="store_true", help="measure on a busy machine too; for a rough look")
    options = parser.parse_args()
    if not options.any_load:
        refuse_a_busy_machine()
    torch.set_num_threads(options.threads)
    shapes = SHAPES if options.shapes is None else json.loads(options.shapes.read_text())
    figures: dict[str, Any] = {
        "threads": options.threads,
        "load_before": os.getloadavg()[0],
        "torch": torch.__version__,
    }
    if "gemm" in options.parts:
        figures |= bench_gemm(shapes, options.rounds)
    figures |= bench_others(options.parts, options.rounds)
    figures["load_after"] = os.getloadavg()[0]
    for name, value in figures.items():
        if isinstance(value, float):
            sys.stdout.write(f"{name:28} {value:.3f}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
