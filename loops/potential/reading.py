"""From what was measured of a run to what may be said about it. A function of the stored measurements only.

Shape letters: C checkpoints, R seeds, J marks of the SFT, I items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError
from loops.potential.crossing import crossing
from loops.potential.learnability import data_needed, learnability, saving
from loops.potential.maximum import corrected_maximum, rank_changes
from loops.potential.ranks import rank_table, spearman
from loops.potential.verdicts import Reading, Trends, judged

Floats = NDArray[np.float64]
Body = Mapping[str, Any]


def reading(bases: Sequence[Body], tuned: Sequence[Body]) -> dict[str, Any] | None:
    """All views of a run, as JSON; None while fewer than two checkpoints have all of their seeds.

    `bases`: one body a checkpoint; `tuned`: one a checkpoint and seed.
    """
    by_step = {int(each["step"]): each for each in bases}
    seeds = sorted({int(each["seed"]) for each in tuned})
    tuned_by = {(int(each["step"]), int(each["seed"])): each for each in tuned}
    steps = [step for step in sorted(by_step) if all((step, seed) in tuned_by for seed in seeds)]
    if len(steps) < 2 or not seeds:
        return None
    ladder = {step: [tuned_by[step, seed] for seed in seeds] for step in steps}
    found = _verdict([by_step[step] for step in steps], [ladder[step] for step in steps])
    marks = {step: _learnability(ladder[step]) for step in steps}
    return {
        "steps": steps,
        "seeds": seeds,
        "tokens": [by_step[step]["tokens"] for step in steps],
        "base": [by_step[step]["score"] for step in steps],
        "sft": [[each["score"] for each in ladder[step]] for step in steps],
        "chance": by_step[steps[0]]["chance"],
        "base_raw": [by_step[step]["raw"] for step in steps],
        "sft_raw": [[each["raw"] for each in ladder[step]] for step in steps],
        "bits_per_byte": [by_step[step]["bits_per_byte"] for step in steps],
        "verdict": {**asdict(found), "detectable": found.sft.detectable},
        "ranks": _ranks(steps, by_step, ladder),
        "learnability": marks,
        "learnability_is": "experimental within one run: validated for comparing different models only",
        "crossing": _crossing(ladder[steps[0]], ladder[steps[-1]]),
        "saving": _saving(ladder[steps[0]], ladder[steps[-1]]),
        "maximum": {step: _maximum([by_step[step]]) for step in steps},
        "maximum_sft": {step: _maximum(ladder[step]) for step in steps},
        "protocol_rank_changes": _turned(by_step[steps[0]], by_step[steps[-1]]),
        "protocol_rank_changes_sft": _turned(ladder[steps[0]][0], ladder[steps[-1]][0]),
        "findings": {step: by_step[step]["findings"] for step in steps},
    }


def _verdict(bases: Sequence[Body], ladder: Sequence[Sequence[Body]]) -> Reading:
    tokens = [float(each["tokens"]) for each in bases]
    sft_CR = np.array([[each["score"] for each in row] for row in ladder])
    base_C1 = np.array([[each["score"]] for each in bases])
    base = Trends.of(tokens, base_C1[None]) if len(tokens) >= 5 else _base_change(bases)
    return judged(base, Trends.of(tokens, sft_CR[None]), num_checkpoints=len(tokens), num_seeds=sft_CR.shape[1])


def _base_change(bases: Sequence[Body]) -> Trends:
    """Last minus first over the same items; the tasks count alike, as in the score."""
    first, last = bases[0]["items"], bases[-1]["items"]
    differences = [_bits(last[name]) - _bits(first[name]) for name in first]
    variance = sum(each.var(ddof=1) / each.size for each in differences) / len(differences) ** 2
    points = 100.0 * float(np.mean([each.mean() for each in differences]))
    df = float(sum(each.size for each in differences) - len(differences))
    return Trends(points_L=np.array([points]), stderr_L=np.array([100.0 * np.sqrt(variance)]), df=df)


def _ranks(steps: Sequence[int], by_step: Mapping[int, Body], ladder: Mapping[int, Sequence[Body]]) -> dict[str, Any]:
    base = np.array([by_step[step]["score"] for step in steps])
    sft = np.array([np.mean([each["score"] for each in ladder[step]]) for step in steps])
    rows = [asdict(row) for row in rank_table([str(step) for step in steps], base, sft)]
    try:
        return {"rows": rows, "spearman": asdict(spearman(base, sft)), "refusal": ""}
    except UserInputError as error:
        return {"rows": rows, "spearman": None, "refusal": error.message}


def _marks(row: Sequence[Body]) -> tuple[list[float], Floats]:
    budgets = [float(mark["sft_step"]) for mark in row[0]["marks"]]
    return budgets, np.array([[mark["score"] for mark in each["marks"]] for each in row])


def _learnability(row: Sequence[Body]) -> dict[str, Any]:
    budgets, scores_RJ = _marks(row)
    points = {"budgets": budgets, "scores": scores_RJ.tolist()}
    try:
        found = learnability(budgets, scores_RJ)
    except UserInputError as error:
        return {**points, "fit": None, "refusal": error.message}
    return {**points, "fit": finite(asdict(found)), "refusal": ""}


def _saving(first: Sequence[Body], last: Sequence[Body]) -> dict[str, Any]:
    """How much less SFT data the last checkpoint needs for what the first one reached with all of it."""
    budgets, early_RJ = _marks(first)
    _, late_RJ = _marks(last)
    target = float(early_RJ[:, -1].mean())
    try:
        needed = [data_needed(budgets, scores, target) for scores in (early_RJ, late_RJ)]
    except UserInputError as error:
        return {"target": target, "ratio": None, "refusal": error.message}
    found = saving(*needed)
    return finite({"target": target, "needed": [asdict(each) for each in needed], **asdict(found)})


def _crossing(first: Sequence[Body], last: Sequence[Body]) -> dict[str, Any] | None:
    budgets, early_RJ = _marks(first)
    try:
        return finite(asdict(crossing(budgets, early_RJ, _marks(last)[1])))
    except UserInputError:
        return None


def _maximum(row: Sequence[Body]) -> dict[str, Any]:
    """Over the protocols that were asked of the same items, each seed a row."""
    sizes = {len(each["items"]) for each in row[0]["fan"].values()}
    largest = max(sizes)
    right = {
        name: np.stack([_bits(each["fan"][name]["items"]) for each in row])
        for name, fan in row[0]["fan"].items()
        if len(fan["items"]) == largest
    }
    best = asdict(corrected_maximum(right))
    best["unparsed"] = {name: float(np.mean([each["fan"][name]["unparsed"] for each in row])) for name in right}
    best["raw"] = {name: row[0]["fan"][name]["raw"] for name in right}
    return best


def _turned(first: Body, last: Body) -> list[list[str]]:
    means = [{name: each["score"] for name, each in body["fan"].items()} for body in (first, last)]
    count = max(len(each["items"]) for each in first["fan"].values())
    noise = 100.0 * float(np.sqrt(0.25 / count))  # one standard error of a share at most
    return [list(pair) for pair in rank_changes(means[0], means[1], noise)]


def _bits(digits: str) -> Floats:
    return np.array([float(each) for each in digits])


def finite(value: Mapping[str, Any]) -> dict[str, Any]:
    """Infinite ends as None, which JSON has."""
    return {key: _json(each) for key, each in value.items()}


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return finite(value)
    return [_json(each) for each in value] if isinstance(value, list | tuple) else value
