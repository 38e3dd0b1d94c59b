"""Did the fix hold in the continuing run? The anomaly must recede there, and the guard metrics must stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from context_store import Store
from context_store.records import Effect
from contracts.enums import EffectState
from loops.core import WATCH_UNTIL
from loops.debug.case import Case, references
from loops.debug.measure import Probe, Window, magnitude, readings
from loops.debug.readout import control_of
from loops.debug.view import RunView, view_run, view_series

_RECEDED = 0.5  # at most this much of the anomaly may be left
# What must not get worse meanwhile -> how many times what it was before the fix it may be. What the anomaly itself is
# measured on is no guard: a loss that was too good has to rise.
_GUARDS = {"lm_loss": 1.05, "loss": 1.05, "grad_norm": 3.0}
_MIN_STEPS = 8
_GUARD_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Verification:
    """`held`: None when there are too few steps to say. `measure`: what is left of the anomaly, 0 is nothing."""

    held: bool | None
    measure: float | None
    sentence: str


def judge_fix(store: Store, case: Case, effect: Effect) -> Verification:
    """By the steps for which the approval says it is watched; once the training has ended, by all of them as well."""
    is_running = effect.state is EffectState.RUNNING
    segment = store.runs.segments(case.run_id)[-1].number if is_running else int(effect.result["segment"])
    watched = verify_fix(store, case, segment, effect.payload.get(WATCH_UNTIL))
    return watched if is_running or watched.held is False else verify_fix(store, case, segment)


def verify_fix(store: Store, case: Case, segment: int, until: int | None = None) -> Verification:
    """Read the probe over the second half of the fixed segment, or of its steps up to `until`."""
    names = tuple(dict.fromkeys((*case.probe.names, *_GUARDS)))
    view = view_run(store, case.run_id, names=names)
    fixed = next((s for s in view.segments if s.number == segment), None)
    if fixed is None or fixed.last_step - fixed.start_step < _MIN_STEPS:
        return Verification(held=None, measure=None, sentence="the fixed segment is too short to say whether it holds")
    last = fixed.last_step if until is None else min(until, fixed.last_step)
    window = Window(lo=fixed.start_step + 1 + (last - fixed.start_step) // 2, hi=last)
    measure = _measure(store, case, view, window)
    if measure is None:
        return Verification(held=None, measure=None, sentence="the fixed segment lacks the series of the anomaly")
    guards = _guards(case, view, fixed.start_step, window)
    moved = [name for name, ratio in guards.items() if not ratio <= _GUARDS[name]]
    held = measure < _RECEDED and not moved
    levels = ", ".join(f"{name} is at {100 * ratio:.0f} % of before" for name, ratio in guards.items()) or "no guard"
    text = "the fix holds" if held else "the fix does not hold"
    sentence = f"{text}: {measure:.2f} of the anomaly is left over steps {window.lo}-{window.hi}, {levels}"
    if moved:
        sentence += f"; {' and '.join(moved)} got worse than allowed"
    return Verification(held=held, measure=measure, sentence=sentence)


def guards_of(probe: Probe) -> dict[str, float]:
    """The guard metrics of an anomaly, and how many times its level before the fix each may come to.

    Losses on other data cannot be compared, so they guard no fix of the data.
    """
    losses = {"lm_loss", "loss"}
    is_about_data = any(name.startswith("mixture/") for name in probe.series)
    own = losses if is_about_data or losses & set(probe.series) else set(probe.series)
    return {name: limit for name, limit in _GUARDS.items() if name not in own}


def _measure(store: Store, case: Case, view: RunView, window: Window) -> float | None:
    """What is left, between the control's level and that of the faulty steps."""
    found = readings(view, case.probe, window)
    if found is None:
        return None
    anomalous, normal, noise = references(case.probe)
    control = control_of(store.knowledge.diagnostics(case.investigation.id))
    if control is not None:
        level = readings(view_series(store, control.run_id, case.probe.names), case.probe, case.window)
        normal = level.mean(axis=1, keepdims=True) if level is not None else normal
    mean = found.mean(axis=1, keepdims=True)
    return float(np.mean(magnitude(mean, anomalous, normal, noise)))


def _guards(case: Case, view: RunView, start: int, window: Window) -> dict[str, float]:
    """Mean of the window over that of the steps before the fix, for each guard that the run logs; one loss is enough.

    A value that is not finite makes its ratio NaN, which no limit allows.
    """
    found = {}
    for name in guards_of(case.probe):
        if name not in view.values or (name == "loss" and "lm_loss" in found):
            continue
        values, logged = view.values[name], view.present[name]
        before = values[logged & np.isfinite(values) & (view.steps <= start) & (view.steps > start - _GUARD_STEPS)]
        after = values[logged & (view.steps >= window.lo) & (view.steps <= window.hi)]
        if before.size and after.size:
            found[name] = float(np.mean(after) / np.mean(before))
    return found
