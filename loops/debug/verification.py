"""Did the fix hold in the continuing run? The anomaly must recede there, and the guard metrics must stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from context_store import Store
from loops.debug.case import Case, references
from loops.debug.measure import Window, magnitude, readings
from loops.debug.readout import control_of
from loops.debug.view import RunView, view_run, view_series

_RECEDED = 0.5  # at most this much of the anomaly may be left
_GUARD_RISE = 1.05
_MIN_STEPS = 8
_GUARD_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Verification:
    """`held`: None when there are too few steps to say. `measure`: what is left of the anomaly, 0 is nothing."""

    held: bool | None
    measure: float | None
    sentence: str


def verify_fix(store: Store, case: Case, segment: int) -> Verification:
    """Read the probe over the second half of the fixed segment."""
    names = tuple(dict.fromkeys((*case.probe.series, "lm_loss", "loss")))
    view = view_run(store, case.run_id, names=names)
    fixed = next((s for s in view.segments if s.number == segment), None)
    if fixed is None or fixed.last_step - fixed.start_step < _MIN_STEPS:
        return Verification(held=None, measure=None, sentence="the fixed segment is too short to say whether it holds")
    window = Window(lo=fixed.start_step + 1 + (fixed.last_step - fixed.start_step) // 2, hi=fixed.last_step)
    measure = _measure(store, case, view, window)
    if measure is None:
        return Verification(held=None, measure=None, sentence="the fixed segment lacks the series of the anomaly")
    guard = _guard(view, fixed.start_step, window)
    held = measure < _RECEDED and guard <= _GUARD_RISE
    loss = f"lm_loss is at {100 * guard:.0f} % of before"
    if held:
        text = f"the fix holds: {measure:.2f} of the anomaly is left over steps {window.lo}-{window.hi}, {loss}"
    else:
        text = f"the fix does not hold: {measure:.2f} of the anomaly is left over steps {window.lo}-{window.hi}, {loss}"
    return Verification(held=held, measure=measure, sentence=text)


def _measure(store: Store, case: Case, view: RunView, window: Window) -> float | None:
    """What is left, between the control's level and that of the faulty steps."""
    found = readings(view, case.probe, window)
    if found is None:
        return None
    anomalous, normal, noise = references(case.probe)
    control = control_of(store.knowledge.diagnostics(case.investigation.id))
    if control is not None:
        level = readings(view_series(store, control.run_id, case.probe.series), case.probe, case.window)
        normal = level.mean(axis=1, keepdims=True) if level is not None else normal
    mean = found.mean(axis=1, keepdims=True)
    return float(np.mean(magnitude(mean, anomalous, normal, noise)))


def _guard(view: RunView, start: int, window: Window) -> float:
    """Mean loss of the window over that of the steps before the fix; 1.0 when the run has no loss."""
    name = "lm_loss" if "lm_loss" in view.values else "loss"
    steps, values = view.series(name)
    before = values[(steps <= start) & (steps > start - _GUARD_STEPS)]
    after = values[(steps >= window.lo) & (steps <= window.hi)]
    return float(after.mean() / before.mean()) if before.size and after.size else 1.0
