"""From what was measured of a run to what may be said about it. A function of the stored measurements only.

Shape letters: C checkpoints, R seeds, J marks of the SFT, I items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
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
    """All views of a run, as JSON; None while too little is measured for a verdict.

    `bases`: one body a checkpoint; `tuned`: one a checkpoint and seed. What was paid for and completes no seed of two
    checkpoints is left out.
    """
    by_step = {int(each["step"]): each for each in bases}
    tuned_by = {(int(each["step"]), int(each["seed"])): each for each in tuned if int(each["step"]) in by_step}
    steps, seeds = _covered(set(tuned_by))
    ladder = {step: [tuned_by[step, seed] for seed in seeds] for step in steps}
    try:
        found = _verdict([by_step[step] for step in steps], [ladder[step] for step in steps])
    except UserInputError:
        return None
    marks = {step: _learnability(ladder[step]) for step in steps}
    return {
        "steps": steps,
        "seeds": seeds,
        "tokens": [by_step[step]["tokens"] for step in steps],
        "base": [by_step[step]["score"] for step in steps],
        "sft": [[each["score"] for each in ladder[step]] for step in steps],
        "chance": by_step[steps[0]]["chance"],
        "bits_per_byte": [by_step[step]["bits_per_byte"] for step in steps],
        **_raw(steps, by_step, ladder),
        "data": _data(ladder[steps[0]][0]),
        "verdict": {**asdict(found), "detectable": found.sft.detectable},
        "ranks": _ranks(steps, by_step, ladder),
        "learnability": marks,
        "learnability_is": "experimental within one run: validated for comparing different models only",
        "crossing": _crossing(ladder[steps[0]], ladder[steps[-1]]),
        "saving": _saving(ladder[steps[0]], ladder[steps[-1]]),
        "maximum": {step: _maximum([by_step[step]]) for step in steps},
        "maximum_sft": {step: _maximum(ladder[step]) for step in steps},
        "maximum_by_task": {step: _by_task([by_step[step]]) for step in steps},
        "maximum_by_task_sft": {step: _by_task(ladder[step]) for step in steps},
        "protocol_rank_changes": _turned([by_step[steps[0]]], [by_step[steps[-1]]]),
        "protocol_rank_changes_sft": _turned(ladder[steps[0]], ladder[steps[-1]]),
        "findings": {step: by_step[step]["findings"] for step in steps},
    }


def _covered(done: Set[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """(steps, seeds), all of which are done: two seeds before one, then as many checkpoints, then seeds as there are.

    `done`: (step, seed). Both empty without two checkpoints of one seed.
    """
    seeds = sorted({seed for _, seed in done}, key=lambda seed: (-sum(own == seed for _, own in done), seed))
    best: tuple[list[int], list[int]] = ([], [])
    for count in range(1, len(seeds) + 1):
        chosen = sorted(seeds[:count])
        steps = sorted({step for step, _ in done if all((step, seed) in done for seed in chosen)})
        if len(steps) >= 2 and (len(best[1]) < 2 or len(steps) >= len(best[0])):
            best = (steps, chosen)
    return best


def _raw(steps: Sequence[int], by_step: Mapping[int, Body], ladder: Mapping[int, Sequence[Body]]) -> dict[str, Any]:
    """The file of raw outputs behind every number."""
    return {
        "base_raw": [by_step[step]["raw"] for step in steps],
        "sft_raw": [[each["raw"] for each in ladder[step]] for step in steps],
        "marks_raw": {step: [[mark["raw"] for mark in each["marks"]] for each in ladder[step]] for step in steps},
        "bits_raw": [by_step[step].get("bits_raw", {}) for step in steps],
    }


def _data(tuned: Body) -> dict[str, Any]:
    """What two readings must have in common to be compared; None for what older measurements do not say."""
    return {name: tuned.get(name) for name in ("sft", "sft_data", "exam")}


def _verdict(bases: Sequence[Body], ladder: Sequence[Sequence[Body]]) -> Reading:
    tokens = [float(each["tokens"]) for each in bases]
    sft_CR = np.array([[each["score"] for each in row] for row in ladder])
    base_C1 = np.array([[each["score"]] for each in bases])
    base = Trends.of(tokens, base_C1[None]) if len(tokens) >= 5 else _base_change(bases)
    return judged(base, Trends.of(tokens, sft_CR[None]), num_checkpoints=len(tokens), num_seeds=sft_CR.shape[1])


def _base_change(bases: Sequence[Body]) -> Trends:
    """Last minus first over the same items; the tasks count alike, as in the score. Raises as `Trends.of`."""
    if len(bases) < 2:
        raise UserInputError("fewer than two checkpoints are measured", remedy="raise the budget of the case")
    first, last = bases[0]["items"], bases[-1]["items"]
    differences = [_bits(last[name]) - _bits(first[name]) for name in first]
    variance = sum(each.var(ddof=1) / each.size for each in differences) / len(differences) ** 2
    points = 100.0 * float(np.mean([each.mean() for each in differences]))
    df = float(sum(each.size for each in differences) - len(differences))
    return Trends(points_L=np.array([points]), stderr_L=np.array([100.0 * np.sqrt(variance)]), df=df)


def _ranks(steps: Sequence[int], by_step: Mapping[int, Body], ladder: Mapping[int, Sequence[Body]]) -> dict[str, Any]:
    base = np.array([by_step[step]["score"] for step in steps])
    sft = np.array([np.mean([each["score"] for each in ladder[step]]) for step in steps])
    stages = np.array([by_step[step].get("stage", "") for step in steps])
    names = list(dict.fromkeys(stages.tolist()))
    return {
        "rows": [asdict(row) for row in rank_table([str(step) for step in steps], base, sft)],
        **_agreement(base, sft),
        "by_stage": {name: _agreement(base[stages == name], sft[stages == name]) for name in names if len(names) > 1},
    }


def _agreement(base: Floats, sft: Floats) -> dict[str, Any]:
    try:
        return {"spearman": asdict(spearman(base, sft)), "refusal": ""}
    except UserInputError as error:
        return {"spearman": None, "refusal": error.message}


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
    both = (_marks(first), _marks(last))
    target = float(both[0][1][:, -1].mean())
    try:
        needed = [data_needed(budgets, scores, target) for budgets, scores in both]
    except UserInputError as error:
        return {"target": target, "ratio": None, "refusal": error.message}
    found = saving(*needed)
    return finite({"target": target, "needed": [asdict(each) for each in needed], **asdict(found)})


def _crossing(first: Sequence[Body], last: Sequence[Body]) -> dict[str, Any] | None:
    (budgets, early_RJ), (late_budgets, late_RJ) = _marks(first), _marks(last)
    if late_budgets != budgets:  # stages with other epochs
        return None
    try:
        return finite(asdict(crossing(budgets, early_RJ, late_RJ)))
    except UserInputError:
        return None


def _maximum(row: Sequence[Body]) -> dict[str, Any]:
    """Over the protocols that were asked of the same items, each seed a row."""
    right = _pooled(row)
    best = asdict(corrected_maximum(right))
    best["unparsed"] = {name: float(np.mean([each["fan"][name]["unparsed"] for each in row])) for name in right}
    best["raw"] = {name: fan["raw"] for name, fan in row[0]["fan"].items()}
    return best


def _pooled(row: Sequence[Body]) -> dict[str, Floats]:
    """[R, I] right answers over all tasks, of the protocols that all of them were asked by."""
    largest = max(len(fan["items"]) for fan in row[0]["fan"].values())
    return {
        name: np.stack([_bits(each["fan"][name]["items"]) for each in row])
        for name, fan in row[0]["fan"].items()
        if len(fan["items"]) == largest
    }


def _by_task(row: Sequence[Body]) -> dict[str, Any]:
    """As `_maximum`, of each task; nothing from measurements that do not keep them apart."""
    fans = {name: fan.get("by_task", {}) for name, fan in row[0]["fan"].items()}
    found = {}
    for task in dict.fromkeys(task for own in fans.values() for task in own):
        asked = [name for name, own in fans.items() if task in own]
        right = {name: np.stack([_bits(each["fan"][name]["by_task"][task]) for each in row]) for name in asked}
        found[task] = asdict(corrected_maximum(right))
    return found


def _turned(first: Sequence[Body], last: Sequence[Body]) -> list[list[str]]:
    """Of protocols, between two checkpoints; of each item the mean over seeds."""
    sides = [{name: right.mean(axis=0) for name, right in _pooled(row).items()} for row in (first, last)]
    return [list(pair) for pair in rank_changes(sides[0], sides[1])]


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
