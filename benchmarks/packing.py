"""Attention-balanced sampling at 128 ranks (R801-7.8 to 7.10): how even the work is, and how fast it is planned.

Documents of several sources are packed into rows of 256K tokens, mixed into one global order, and read in windows of W
steps, one row a rank; then eight rows a rank, largest first. Before anything is timed or counted, every label of every
document is found in exactly one row, and every row in exactly one step. A cell is a distribution of lengths;
`--grid FILE` replaces the cells, a JSON list of {"name", "documents", "capacity", "sources": {name: [median, sigma]}};
`--lengths FILE` measures one cell of the lengths in a file (one a line, or .npy).

    imbalance_before, _after   mean over steps of the busiest rank's work / the mean rank's, in order and with the
                               widest window, in the worst cell
    documents_per_minute       packed, sorted and assigned, in the worst cell (the widest window, process CPU time)
    lost                       labels and rows that are not there exactly once, over all cells
    cost_time_correlation      with --time: equation (3) against measured seconds of attention, forward and backward
    attention_x                with --time: measured seconds of the busiest of 8 ranks, in order / balanced
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import LatheError, UserInputError
from trainer.balanced_sampling import assign_ranks, drift, imbalance, plan_window
from trainer.order import GlobalOrder, MixtureEvent
from trainer.packing import Packs, pack_documents

Ints = NDArray[np.int64]

RANKS = 128
WINDOWS = (1, 2, 4, 8, 16, 32, 64, 128)
ROWS_A_RANK = 8  # of the second study
GOALS = {"imbalance_after": 1.03, "documents_per_minute": 1_000_000, "lost": 0}
CELLS: tuple[dict[str, Any], ...] = (
    {"name": "web, code and books", "sources": {"web": [900, 1.3], "code": [2500, 1.5], "books": [60_000, 1.0]}},
    {"name": "web with a long tail", "sources": {"web": [1300, 1.5]}},
    {"name": "long tail of long documents", "sources": {"papers": [8000, 1.5], "code": [1300, 2.0]}},
    {"name": "agent trajectories", "sources": {"agent": [30_000, 1.2], "chat": [600, 1.0]}},
)
ROWS = RANKS * WINDOWS[-1]  # a cell makes documents for some more rows than these


def lengths_of(cell: Mapping[str, Any]) -> dict[str, Ints]:
    """Log-normal lengths of each source, drawn by the cell's seed; sources have equally many tokens."""
    capacity = cell.get("capacity", 262_144)
    lengths = {}
    for number, (name, (median, sigma)) in enumerate(cell["sources"].items()):
        draw = np.random.default_rng([cell.get("seed", 0), number])
        mean = median * math.exp(sigma**2 / 2)
        count = cell.get("documents") or int(1.3 * ROWS * capacity / mean / len(cell["sources"]))
        lengths[name] = np.clip(np.exp(draw.normal(math.log(median), sigma, count)), 2, 4 * capacity).astype(np.int64)
    return lengths


def missing_labels(lengths: Ints, packs: Packs) -> int:
    """Labels (tokens behind the first of a document) that lie in no row or in two: pieces must tile the labels."""
    first_label = np.concatenate([[0], np.cumsum(lengths - 1)])
    begin_N = np.sort(first_label[packs.document_N] + packs.start_N)
    end_N = np.sort(first_label[packs.document_N] + packs.start_N + packs.length_N - 1)
    gaps = np.concatenate([begin_N, first_label[-1:]]) - np.concatenate([[0], end_N])
    return int(np.abs(gaps).sum())


def global_order(packs: Sequence[Packs], num_rows: int) -> tuple[Ints, Ints]:
    """Cost and source of each row in the order of positions."""
    counts = [len(p) for p in packs]
    event = MixtureEvent(start=0, seed=1, weights=tuple(float(count) for count in counts))
    order = GlobalOrder(counts, [event], shuffle=True)
    ids = order.ids(np.arange(num_rows))
    return np.concatenate([p.costs() for p in packs])[ids], order.source_of(ids)


def planned(costs: Ints, window: int, rows_a_step: int) -> Ints:
    """Positions in the order in which balanced steps read them."""
    rows = window * rows_a_step
    plans = [first + plan_window(costs[first : first + rows], window) for first in range(0, len(costs), rows)]
    return np.concatenate(plans).reshape(-1)


def measure_cell(cell: Mapping[str, Any], lengths: Mapping[str, Ints], windows: Sequence[int]) -> dict[str, Any]:
    """One distribution of lengths: what is lost, the curve over windows, and the planning speed."""
    capacity = cell.get("capacity", 262_144)
    begin = time.process_time()
    packs = [pack_documents(of_source.tolist(), capacity) for of_source in lengths.values()]
    packing_s = time.process_time() - begin
    stretch = RANKS * windows[-1]
    num_rows = int(0.98 * sum(map(len, packs))) // stretch * stretch
    if not num_rows:
        raise UserInputError(
            f"cell '{cell['name']}' has {sum(map(len, packs))} rows, a window {stretch}",
            remedy="give more documents, a smaller capacity, or --widest a smaller window",
        )
    costs, sources = global_order(packs, num_rows)
    lost = sum(missing_labels(of_source, p) for of_source, p in zip(lengths.values(), packs, strict=True))
    lost += sum(num_rows - len(np.unique(planned(costs, window, RANKS))) for window in windows)
    begin = time.process_time()
    plan = planned(costs, windows[-1], RANKS).reshape(-1, RANKS)
    for step in plan:
        assign_ranks(costs[step], RANKS)
    plan_s = time.process_time() - begin
    num_documents = sum(map(len, lengths.values()))
    curve = {window: means(costs, sources, window, 1) for window in (0, *windows)}
    return {
        "name": cell["name"],
        "documents": num_documents,
        "rows": num_rows,
        "padding": 1 - sum(int(p.length_N.sum()) for p in packs) / (capacity * sum(map(len, packs))),
        "lost": lost,
        "imbalance_before": curve[0]["imbalance"],
        "imbalance_after": curve[windows[-1]]["imbalance"],
        "windows": curve,
        "eight_rows_a_rank": {window: means(costs, sources, window, ROWS_A_RANK)["imbalance"] for window in (0, 1)},
        "documents_per_minute": 60 * num_documents / (packing_s + plan_s),
    }


def means(costs: Ints, sources: Ints, window: int, rows_a_rank: int) -> dict[str, float]:
    """Imbalance and mixture drift, means over the steps; window 0 leaves rows and ranks as they come."""
    rows_a_step = RANKS * rows_a_rank
    usable = len(costs) // (rows_a_step * max(window, 1)) * rows_a_step * max(window, 1)
    costs, sources = costs[:usable], sources[:usable]
    order = planned(costs, window, rows_a_step) if window else np.arange(usable)
    wanted = np.bincount(sources) / usable
    found = []
    for rows in order.reshape(-1, rows_a_step):
        placed = rows[assign_ranks(costs[rows], RANKS)] if window else rows
        share = np.bincount(sources[rows], minlength=len(wanted)) / rows_a_step
        found.append((imbalance(costs[placed], RANKS), drift(share, wanted)))
    even, moved = np.mean(found, axis=0)
    return {"imbalance": float(even), "drift": float(moved)}


def timed_rows(num_rows: int = 128, capacity: int = 4096) -> dict[str, float]:
    """Attention of rows, measured one by one on one thread, and what balancing makes of it for 8 ranks."""
    import torch

    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    lengths = np.clip(np.exp(draw.normal(5.5, 1.3, 40 * num_rows)), 2, capacity).astype(np.int64)
    packs = pack_documents(lengths.tolist(), capacity)
    chosen = np.sort(draw.permutation(len(packs))[:num_rows])
    seconds = np.array([attention_s(packs.length_N[packs.pieces(pack)]) for pack in chosen.tolist()])
    costs = packs.costs()[chosen]
    order = planned(costs, num_rows // 8, 8)
    before, after = (seconds[rows].reshape(-1, 8).max(axis=1).mean() for rows in (np.arange(num_rows), order))
    return {"cost_time_correlation": float(np.corrcoef(costs, seconds)[0, 1]), "attention_x": float(before / after)}


def attention_s(lengths: Ints) -> float:
    """CPU seconds of attention inside the documents of one row, forward and backward; the best of three."""
    import torch

    from kernels.packed_attention import packed_attention

    ends = torch.from_numpy(np.cumsum(lengths)).to(torch.int32)
    query, key, value = (torch.randn(int(lengths.sum()), 4, 32, requires_grad=True) for _ in range(3))
    best = math.inf
    for _ in range(3):
        begin = time.process_time()
        torch.autograd.grad(packed_attention(query, key, value, ends).sum(), (query, key, value))
        best = min(best, time.process_time() - begin)
    return best


def from_file(path: Path) -> dict[str, Ints]:
    """One source with the lengths of a file. Raises UserInputError."""
    try:
        numbers = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, ndmin=1)
        lengths = np.asarray(numbers, dtype=np.int64).reshape(-1)
    except (OSError, ValueError) as error:
        raise UserInputError(
            f"{path} has no lengths ({error})", remedy="give one whole number a line, or .npy"
        ) from error
    if not len(lengths) or lengths.min() < 1:
        raise UserInputError(f"{path}: a document has at least one token", remedy="remove lengths below 1")
    return {"file": lengths}


def grid_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """Cells of a JSON file. Raises UserInputError."""
    try:
        cells: list[dict[str, Any]] = json.loads(path.read_text())
        for cell in cells:
            _ = cell["name"], [(float(median), float(sigma)) for median, sigma in cell["sources"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = 'give a JSON list of {"name": "...", "sources": {"web": [median, sigma]}}'
        raise UserInputError(f"{path} is no grid ({error!r})", remedy=remedy) from error
    return cells


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="attention-balanced sampling at 128 ranks")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--grid", type=Path, help="JSON list of cells instead of the built-in ones")
    parser.add_argument("--lengths", type=Path, help="one cell: document lengths, one a line, or .npy")
    parser.add_argument("--capacity", type=int, default=262_144, help="tokens of a row, for --lengths")
    parser.add_argument("--time", action="store_true", help="also measure attention on rows of 4096 tokens")
    parser.add_argument("--widest", type=int, default=WINDOWS[-1], help="the widest window, in steps")
    return parser.parse_args()


def figures_of(results: Sequence[Mapping[str, Any]], window: int) -> dict[str, Any]:
    """The figures that the goals speak of, over all cells."""
    worst = max(results, key=lambda result: float(result["imbalance_after"]))
    figures: dict[str, Any] = {
        "imbalance_before": worst["imbalance_before"],
        "imbalance_after": worst["imbalance_after"],
        "documents_per_minute": min(result["documents_per_minute"] for result in results),
        "lost": sum(result["lost"] for result in results),
        "window": window,
        "worst_cell": worst["name"],
        "cells": results,
    }
    figures["goals_met"] = {
        "imbalance_after": figures["imbalance_after"] <= GOALS["imbalance_after"],
        "documents_per_minute": figures["documents_per_minute"] >= GOALS["documents_per_minute"],
        "lost": figures["lost"] == GOALS["lost"],
    }
    return figures


def main() -> None:
    options = parse()
    windows = [window for window in WINDOWS if window < options.widest] + [options.widest]
    cells: Sequence[Mapping[str, Any]] = grid_of(options.grid) if options.grid else CELLS
    if options.lengths:
        cell = {"name": options.lengths.name, "capacity": options.capacity}
        results = [measure_cell(cell, from_file(options.lengths), windows)]
    else:
        results = [measure_cell(cell, lengths_of(cell), windows) for cell in cells]
    figures = figures_of(results, windows[-1])
    for result in results:
        mark = "  <- worst" if result["name"] == figures["worst_cell"] else ""
        curve = "  ".join(f"W={w} {v['imbalance']:.3f}/{v['drift']:.3f}" for w, v in result["windows"].items())
        sys.stdout.write(f"{result['name']:30} lost {result['lost']}  imbalance/drift: {curve}{mark}\n")
    if options.time:
        figures |= timed_rows()
        sys.stdout.write("correlation {cost_time_correlation:.4f}, balanced {attention_x:.2f}x\n".format(**figures))
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LatheError as error:
        sys.exit(str(error))
