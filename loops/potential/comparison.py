"""Two models by how they learn from the same data: what equation (1) is for (R801-4.9, R801-4.13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from context_store import Store
from contracts.errors import NotFound, UserInputError
from loops.potential.crossing import crossing
from loops.potential.learnability import data_needed, saving
from loops.potential.plan import LOOP, by_step
from loops.potential.reading import finite


def newest_reading(store: Store, run_id: str) -> tuple[str, Mapping[str, Any]]:
    """(case, reading) of a run. Raises NotFound when it was not measured."""
    store.runs.get(run_id)
    cases = [case.id for case in store.knowledge.investigations(run_id=run_id) if case.loop == LOOP]
    for case_id in cases:
        if readings := store.casework.list(case_id, "reading"):
            return case_id, readings[-1].body
    raise NotFound(f"the potential of run '{run_id}' was not measured", remedy=f"lathe potential {run_id}")


def compared(store: Store, run_id: str, other_id: str, target: float | None = None) -> dict[str, Any]:
    """The last measured checkpoints of two runs: slopes, data saved by `run_id`, and where the curves cross.

    `target` in points; without it what both reach with all of their SFT data. Raises UserInputError when the two were
    not tuned and asked alike.
    """
    (case, own), (other_case, theirs) = newest_reading(store, run_id), newest_reading(store, other_id)
    plans = [store.casework.get(each, "plan", "plan").body for each in (case, other_case)]
    last, other_last = (_last(each) for each in (own, theirs))
    alike = own.get("data") == theirs.get("data") and last["budgets"] == other_last["budgets"]
    if not alike or any(plans[0][name] != plans[1][name] for name in ("sft", "num_items")):
        raise UserInputError(
            f"runs {run_id} and {other_id} were tuned or asked differently",
            remedy="measure both with the same options of lathe potential",
        )
    budgets = [float(each) for each in last["budgets"]]
    scores, other_scores = (np.array(each["scores"]) for each in (last, other_last))
    if target is None:
        target = float(min(scores[:, -1].mean(), other_scores[:, -1].mean()))
    needed = [data_needed(budgets, each, target) for each in (other_scores, scores)]
    found = {
        "run": run_id,
        "other": other_id,
        "target": target,
        "slopes": {
            name: each["fit"]["slope"] for name, each in ((run_id, last), (other_id, other_last)) if each["fit"]
        },
        "needed": {other_id: asdict(needed[0]), run_id: asdict(needed[1])},
        "saving": asdict(saving(*needed)),
        "crossing": asdict(crossing(budgets, other_scores, scores)),
    }
    return finite(found)


def sentences(found: Mapping[str, Any]) -> list[str]:
    """For a person."""
    told = [
        f"{name}: k {slope['value']:.1f} ({slope['low']:.1f} to {slope['high']:.1f}) points per tenfold data"
        for name, slope in found["slopes"].items()
    ]
    told += [_needed(name, needed) for name, needed in found["needed"].items()]
    ratio = found["saving"]["ratio"]
    if ratio is None:
        told.append(f"no data-saving ratio for {found['target']:.1f} points: {found['saving']['refusal']}")
    else:
        ends = _ends(ratio)
        told.append(
            f"{found['run']} needs {ratio['value']:.2g} times less SFT data than {found['other']} for "
            f"{found['target']:.1f} points ({ends[0]} to {ends[1]})"
        )
    return [*told, found["crossing"]["sentence"]]


def needed_by(reading: Mapping[str, Any], target: float) -> list[str]:
    """A sentence for each checkpoint of a reading: N* for `target` points with its interval, or why there is none."""
    told = []
    for step, each in by_step(reading["learnability"]).items():
        try:
            found = data_needed([float(budget) for budget in each["budgets"]], np.array(each["scores"]), target)
        except UserInputError as error:
            told.append(f"step {step}: no N*: {error.message}")
            continue
        told.append(_needed(f"step {step}", finite(asdict(found))))
    return told


def _needed(name: str, needed: Mapping[str, Any]) -> str:
    if needed["amount"] is None:
        return f"{name}: no N* for {needed['target']:.1f} points: {needed['refusal']}"
    low, high = _ends(needed["amount"])
    beyond = ", beyond the tested steps" if needed["is_extrapolated"] else ""
    amount = f"N* {needed['amount']['value']:.3g} SFT steps ({low} to {high})"
    return f"{name}: {amount} for {needed['target']:.1f} points{beyond}"


def _ends(interval: Mapping[str, Any]) -> tuple[str, str]:
    low, high = ("unbounded" if interval[end] is None else f"{interval[end]:.2g}" for end in ("low", "high"))
    return low, high


def _last(reading: Mapping[str, Any]) -> Mapping[str, Any]:
    last: Mapping[str, Any] = reading["learnability"][str(reading["steps"][-1])]
    return last
