"""Whether the potential loop's measures can be believed: simulated ladders with known answers, and a trained one.

`python -m benchmarks.potential --json` prints one JSON object as its last line.

simulation  a fixed grid (`--grid FILE` gives another, a JSON object with items, seed_sd and seeds): coverage and
            refusals of N*, bias of the maximum over protocols with the naive one beside it, wrong and right verdicts.
            The worst cell of each figure is printed. Shows R801-4.9, R801-4.10, R801-4.14, R801-4.6.
gaps        published differences between protocols, re-created by models that behave as reported: each has to be
            flagged with its cause.
local       a real small language model (extra local-llm) under all protocols in words: the gap table. Slow too.
ladder      9 recipes x 3 sizes x 3 seeds really trained on the embedded trainer, each tuned twice: whether Tiny-SFT
            predicts the ranking after an SFT four times as long better than the base score does, and whether small
            models predict the ranking of the largest. `--folder` keeps what is trained; a run that was cut off goes
            on; `--fresh` trains all again. Slow: give it with `--only ladder`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.potential_parts import ladder, local_model, published_gaps
from benchmarks.potential_parts.ladder_figures import figures as ladder_figures
from benchmarks.potential_parts.simulation import GRID, simulated

Rows = Sequence[Mapping[str, Any]]


def simulation(grid: Mapping[str, list[float]], num_ladders: int, seed: int) -> dict[str, Any]:
    begin = time.perf_counter()
    rows = simulated(grid, num_ladders, seed)
    powered = [row for row in rows if row["has_power"]]
    furthest = max(rows, key=lambda row: abs(row["nstar_coverage"] - 0.95))
    return {
        "nstar_coverage": furthest["nstar_coverage"],
        "nstar_coverage_range": [min(_all(rows, "nstar_coverage")), max(_all(rows, "nstar_coverage"))],
        "nstar_refused": max(_all(rows, "nstar_refused")),
        "max_bias_pts": max(_all(rows, "max_bias_pts")),
        "max_bias_naive_pts": max(_all(rows, "max_bias_naive_pts")),
        "false_positive": max(_all(rows, "false_positive")),
        "recall_2pt": min(_all(powered, "recall_2pt"), default=None),
        "cells_with_power": len(powered),
        "worst_cell": _worst(rows, powered),
        "num_ladders": num_ladders,
        "cells": list(rows),
        "simulation_s": round(time.perf_counter() - begin, 1),
    }


def trained_ladder(options: argparse.Namespace) -> dict[str, Any]:
    sizes = options.sizes or list(ladder.SIZES)
    wanted = list(ladder.cells(options.recipes or list(ladder.RECIPES), sizes, range(1, options.seeds + 1)))
    cells = ladder.trained(options.folder, wanted, workers=options.workers, fresh=options.fresh)
    return ladder_figures(cells, sizes)


def _worst(rows: Rows, powered: Rows) -> dict[str, str]:
    worst = {
        "nstar_coverage": max(rows, key=lambda row: abs(row["nstar_coverage"] - 0.95)),
        "nstar_refused": max(rows, key=lambda row: row["nstar_refused"]),
        "max_bias_pts": max(rows, key=lambda row: row["max_bias_pts"]),
        "false_positive": max(rows, key=lambda row: row["false_positive"]),
    }
    if powered:
        worst["recall_2pt"] = min(powered, key=lambda row: row["recall_2pt"])
    return {name: f"n={row['items']} sd={row['seed_sd']} seeds={row['seeds']}" for name, row in worst.items()}


def _all(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows]


def _table(rows: Rows) -> str:
    names = ("items", "seed_sd", "seeds", "nstar_coverage", "nstar_refused", "nstar_unbounded", "max_bias_pts",
             "max_bias_naive_pts", "max_bias_spread_pts", "false_positive", "recall_2pt", "expected_power",
             "true_plateau_named", "overtraining_named", "false_degradation_named")  # fmt: skip
    lines = ["  ".join(name.rjust(max(len(name), 6)) for name in names)]
    for row in rows:
        lines.append("  ".join(f"{row[name]:.4g}".rjust(max(len(name), 6)) for name in names))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument(
        "--only", nargs="+", choices=("simulation", "gaps", "local", "ladder"), default=["simulation", "gaps"]
    )
    parser.add_argument("--grid", type=Path, help="JSON file with items, seed_sd and seeds (lists)")
    parser.add_argument("--ladders", type=int, default=10_000, help="simulated ladders a cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "lathe-potential-ladder")
    parser.add_argument("--fresh", action="store_true", help="train the ladder again")
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--items", type=int, default=200, help="questions of the local model")
    parser.add_argument("--recipes", nargs="+", choices=list(ladder.RECIPES))
    parser.add_argument("--sizes", nargs="+", choices=list(ladder.SIZES), help="ascending")
    parser.add_argument("--seeds", type=int, default=len(ladder.SEEDS))
    options = parser.parse_args()
    grid = json.loads(options.grid.read_text()) if options.grid else GRID
    figures: dict[str, Any] = {}
    if "simulation" in options.only:
        figures |= simulation(grid, options.ladders, options.seed)
        sys.stdout.write(_table(figures["cells"]) + "\n")
    if "gaps" in options.only:
        figures["gaps"] = list(published_gaps.found())
        figures["gaps_flagged"] = f"{sum(each['flagged'] for each in figures['gaps'])}/{len(figures['gaps'])}"
    if "local" in options.only:
        figures |= local_model.gap_table(options.items, options.folder / "local")
    if "ladder" in options.only:
        figures |= trained_ladder(options)
    figures["load"] = round(os.getloadavg()[0], 2)
    for name, value in figures.items():
        if name != "cells" and not name.endswith("means"):
            sys.stdout.write(f"{name:24} {value}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
