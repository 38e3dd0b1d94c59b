"""The kernels on this CPU against their named peers, one JSON object as the last line.

Interleaved rounds in one process, equality checked first, medians of paired ratios, equal threads (all cores and wall
time; with --threads 1 CPU time), freed memory kept by the process as in the trainer (else page faults are what one
measures). Refuses to begin when the load exceeds the cores; what was measured while other processes worked is measured
again. `--keep FILE` remembers every figure, so that a run that was aborted goes on. `--shapes FILE` replaces the
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
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels.cross_entropy import bench as cross_entropy
from kernels.grouped_gemm import bench as grouped_gemm
from kernels.measure import MOST_OTHERS, geometric_mean, refuse_a_busy_machine, undisturbed
from kernels.mxfp8 import bench as mxfp8
from kernels.newton_schulz import bench as newton_schulz
from kernels.norm_rope import bench as norm_rope
from kernels.nvfp4 import bench as nvfp4
from kernels.nvfp4.study import division_study, scaling_study
from kernels.packed_attention import bench as packed_attention
from kernels.quantised_gemm import bench as quantised_gemm
from kernels.quantised_gemm.study import gradient_error, log_prob_gap
from kernels.router import bench as router
from trainer.session import keep_freed_memory

EXPERTS = (16, 32, 64, 128)
LOADS = ("uniform", "dirichlet")
# Gate-up and down products of a 256-wide model with experts of 96.
SHAPES: tuple[dict[str, Any], ...] = (
    {"rows": 8192, "inner": 256, "outer": 192},
    {"rows": 8192, "inner": 96, "outer": 256},
)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
PARTS = ("gemm", "mlp", "cross_entropy", "attention", "others", "formats", "studies")
AT_LEAST = {
    "gemm_x_torch_bf16": 1.3,
    "gemm_x_torch_fp32": 1.04,
    "gemm_worst": 0.95,
    "gemm_of_dense": 0.8,
    "gemm_of_dense_e128": 0.7,
    "ce_x_torch": 0.95,
}
AT_MOST = {"ce_memory": 0.25}


class Bench:
    """Measures by name, undisturbed; with a file, a figure that it holds for this code is not measured again."""

    def __init__(self, keep: Path | None, *, threads: int, rounds: int, most_others: float) -> None:
        self.rounds = rounds
        self._keep, self._most_others = keep, most_others
        self._prefix = f"{code_hash()} threads={threads} rounds={rounds} "
        lines = keep.read_text().splitlines() if keep is not None and keep.exists() else []
        self._known: dict[str, Any] = dict(json.loads(line) for line in lines)

    def __call__(self, name: str, measure: Callable[[], Any]) -> Any:
        """What `measure` gives: a JSON value."""
        key = self._prefix + name
        if key not in self._known:
            self._known[key] = undisturbed(measure, limit=self._most_others)
            if self._keep is not None:
                with self._keep.open("a") as file:
                    file.write(json.dumps([key, self._known[key]]) + "\n")
            sys.stderr.write(f"{name}: {self._known[key]}\n")
        return self._known[key]


def code_hash() -> str:
    """Of the sources of the kernels."""
    files = sorted((Path(__file__).parents[1] / "kernels").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


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


def gemm_figures(cell: grouped_gemm.Cell, *, rounds: int, new_rounds: int) -> dict[str, float | None]:
    return grouped_gemm.measure(cell, rounds=rounds, new_rounds=new_rounds).figures()


def ce_figures(dtype: str, *, rounds: int) -> dict[str, float]:
    return vars(cross_entropy.measure(dtype, rounds=rounds))


def bench_gemm(bench: Bench, shapes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    results = []
    for cell in cells(shapes):
        new_rounds = 3 if cell.dtype == torch.bfloat16 else 0
        run = partial(gemm_figures, cell, rounds=bench.rounds, new_rounds=new_rounds)
        results.append((cell, bench(f"{cell.name} {cell.loads}", run)))
    worst_cell, worst = min(results, key=lambda pair: pair[1]["x_torch"])
    sys.stderr.write(f"worst cell: {worst_cell.name}, {worst['x_torch']:.2f} x torch\n")
    figures: dict[str, Any] = {"gemm_worst": worst["x_torch"], "gemm_worst_cell": worst_cell.name}

    for name, dtype in {**DTYPES, "": None}.items():
        end = f"_{name}" if name else ""
        mine = [(cell.experts, r) for cell, r in results if dtype in (None, cell.dtype)]
        figures[f"gemm_x_torch{end}"] = geometric_mean(r["x_torch"] for _, r in mine)
        figures[f"gemm_of_dense{end}"] = geometric_mean(r["of_dense"] for experts, r in mine if experts < 128)
        figures[f"gemm_of_dense_e128{end}"] = geometric_mean(r["of_dense"] for experts, r in mine if experts >= 128)
    new = [r["x_torch_new"] for _, r in results if r["x_torch_new"] is not None]
    figures["gemm_x_torch_bf16_new"] = geometric_mean(new)
    figures["gemm_cells"] = [{"cell": cell.name, **result} for cell, result in results]
    return figures


def bench_models(bench: Bench, parts: Sequence[str]) -> dict[str, Any]:
    """Expert MLP, output layer and attention."""
    rounds = bench.rounds
    figures: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        if "mlp" in parts:
            sizes = [(1024, 4, 32), (2048, 8, 128)]
            ratios = [
                bench(
                    f"mlp_{name} tokens={n} choices={k} experts={e}",
                    partial(grouped_gemm.measure_mlp, dtype, tokens=n, choices=k, experts=e, rounds=rounds),
                )
                for n, k, e in sizes
            ]
            figures[f"mlp_x_torch_{name}"] = geometric_mean(ratios)
        if "attention" in parts:
            key = f"attention_x_masked_{name}"
            figures[key] = bench(key, partial(packed_attention.measure, dtype, rounds=rounds))
    if "cross_entropy" in parts:
        ratios_by_dtype = {
            name: bench(f"ce {name}", partial(ce_figures, name, rounds=rounds)) for name in cross_entropy.DTYPES
        }
        figures["ce_memory"] = max(r["memory"] for r in ratios_by_dtype.values())
        figures["ce_x_torch"] = min(r["speed"] for r in ratios_by_dtype.values())
        figures["ce_cells"] = ratios_by_dtype
    return figures


def bench_others(bench: Bench, parts: Sequence[str]) -> dict[str, Any]:
    """The smaller operations, the number formats and what their studies find."""
    rounds = bench.rounds
    measures: dict[str, Callable[[], Any]] = {}
    if "others" in parts:
        measures["newton_schulz_x_loop"] = partial(newton_schulz.measure, rounds=rounds)
        measures["router_x_plain"] = partial(router.measure, rounds=rounds)
        for name, dtype in DTYPES.items():
            measures[f"norm_rope_x_plain_{name}"] = partial(norm_rope.measure, dtype, rounds=rounds)
    if "formats" in parts:
        measures["mxfp8_gb_s"] = partial(mxfp8.measure, rounds=rounds)
        measures["nvfp4_gb_s"] = partial(nvfp4.measure, "token", rounds=rounds)
        measures["nvfp4_per_tensor_gb_s"] = partial(nvfp4.measure, "tensor", rounds=rounds)
        measures["quantised_gemm_x_plain"] = partial(quantised_gemm.measure, rounds=3)
    figures = {name: bench(name, measure) for name, measure in measures.items()}
    if "studies" in parts:
        figures["scaling"] = {scaling: vars(scaling_study(scaling, seed=1)) for scaling in ("token", "tensor")}
        figures["division_flips"] = vars(division_study(seed=1))
        figures["backward"] = {form: vars(gradient_error(form, seed=1)) for form in ("mxfp8", "nvfp4")}
        figures["log_prob_gap"] = {form: log_prob_gap("nvfp4", form, seed=1) for form in ("nvfp4", "mxfp8", "bf16")}
    return figures


def goals_of(figures: dict[str, Any]) -> dict[str, bool]:
    """Which of the goals that were measured are met."""
    known = {name: value for name, value in figures.items() if value is not None}
    met = {name: known[name] >= goal for name, goal in AT_LEAST.items() if name in known}
    return met | {name: known[name] <= goal for name, goal in AT_MOST.items() if name in known}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--shapes", type=Path, help="JSON file with the grouped GEMM's shapes")
    parser.add_argument("--keep", type=Path, help="file of figures: those in it are not measured again")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both candidates; default: all cores")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--any-load", action="store_true", help="measure on a busy machine too; for a rough look")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if not options.any_load:
        refuse_a_busy_machine()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    shapes = SHAPES if options.shapes is None else json.loads(options.shapes.read_text())
    most_others = math.inf if options.any_load else MOST_OTHERS
    bench = Bench(options.keep, threads=options.threads, rounds=options.rounds, most_others=most_others)
    figures: dict[str, Any] = {"threads": options.threads, "torch": torch.__version__}
    if "gemm" in options.parts:
        figures |= bench_gemm(bench, shapes)
    figures |= bench_models(bench, options.parts) | bench_others(bench, options.parts)
    figures = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in figures.items()}
    figures["goals_met"] = goals_of(figures)
    for name, value in figures.items():
        if isinstance(value, float):
            met = figures["goals_met"].get(name)
            goal = "" if met is None else f"  goal {(AT_LEAST | AT_MOST)[name]}: {'met' if met else 'missed'}"
            sys.stdout.write(f"{name:28} {value:.3f}{goal}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
