"""What re-runs showed: the probe's measure on each, whether the replay was bitwise equal, and which lines ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from context_store import Store
from context_store.records import Diagnostic, Effect, SeriesMatrix
from contracts.enums import DiagnosticKind, EffectState
from loops.debug.case import Case, references
from loops.debug.experiments import FRESH_STEPS, payload_of
from loops.debug.facts import Identity, Seat, Seen
from loops.debug.measure import Reading, Window, magnitude, readings
from loops.debug.places import on_rank
from loops.debug.view import read_matrix, view_series

Floats = NDArray[np.float64]

ABSENT_BELOW, PRESENT_FROM = 0.25, 0.75  # 0 is the control, 1 the anomalous run; what lies between decides nothing
_HALF = 0.5
WALL_CLOCK = ("tokens_per_second", "step_time_s")  # the only series that may differ in an exact replay
_LEARNED = ("grad_norm", "weight_norm", "update_norm")
_FRESH = Window(lo=FRESH_STEPS // 2, hi=FRESH_STEPS)  # steps over which a run from random weights is read


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measure of one re-run: its mean, and its value per step (one value for slopes)."""

    mean: float
    per_step: Floats


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """How a replay compares with the recorded run over the steps both have."""

    num_series: int
    num_steps: int
    differing: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return self.num_steps > 0 and not self.differing


def lookup(case: Case, diagnostics: Sequence[Diagnostic]) -> Callable[[Identity], Seen | None]:
    """What the planner asks: what a set showed. Re-runs that were read without a measure were impossible."""
    by_run = {diagnostic.run_id: diagnostic for diagnostic in diagnostics}

    def seen(identity: Identity) -> Seen | None:
        diagnostic = by_run.get(str(payload_of(case, identity)["run_id"]))
        if diagnostic is None or not diagnostic.reading:
            return None
        if diagnostic.measure is None:
            return Seen.IMPOSSIBLE
        return seen_of(diagnostic.measure)

    return seen


def seen_of(measure: float) -> Seen:
    """What a measure says, with a dead zone in which it says nothing."""
    if measure >= PRESENT_FROM:
        return Seen.PRESENT
    return Seen.ABSENT if measure < ABSENT_BELOW else Seen.PARTIAL


def is_cured(diagnostic: Diagnostic) -> bool:
    """True when the re-run was measured and is free of the anomaly."""
    return diagnostic.measure is not None and seen_of(diagnostic.measure) is Seen.ABSENT


def read_rerun(store: Store, case: Case, diagnostic: Diagnostic, control: Diagnostic | None) -> Measured | None:
    """The measure of one re-run against the recorded run and, once there is one, the control.

    None when the run ended before the window, or lacks a series.
    """
    anomalous = readings(case.view, case.probe, case.window)
    run = _readings(store, case, diagnostic.run_id, case.window)
    if anomalous is None or run is None:
        return None
    _, normal, noise = references(case.probe)
    reference = normal if control is None else _readings(store, case, control.run_id, case.window)
    if reference is None:
        return None
    per_step = _shown(magnitude(run, anomalous, reference, noise), case.probe.reading)
    return None if np.isnan(per_step).any() else Measured(mean=float(per_step.mean()), per_step=per_step)


def read_swap(store: Store, case: Case, run_id: str, seat: Seat) -> Measured | None:
    """How much of the anomaly stayed with the rank, where it changed places with its partner.

    The mean of what the rank still shows and of what the partner does not show: 1 when all of it stayed, 0 when all of
    it went with the place, one half when it is gone or is seen on both.
    """
    anomalous = readings(case.view, case.probe, case.window)
    _, normal, noise = references(case.probe)
    sides = []
    for probe in (case.probe, on_rank(case.probe, seat.partner)):
        found = readings(view_series(store, run_id, probe.names), probe, case.window)
        if found is None or anomalous is None:
            return None
        sides.append(_shown(magnitude(found, anomalous, normal, noise), probe.reading))
    length = min(side.size for side in sides)
    per_step = 0.5 * (sides[0][:length] + 1.0 - sides[1][:length])
    return None if np.isnan(per_step).any() else Measured(mean=float(per_step.mean()), per_step=per_step)


def read_small(store: Store, case: Case, run_id: str, control_id: str) -> Measured | None:
    """How far a smaller training lies from the smaller control, in units of this run's anomaly; the control is 0."""
    sides = [_readings(store, case, each, _FRESH) for each in (run_id, control_id)]
    if sides[0] is None or sides[1] is None:
        return None
    anomalous, normal, noise = references(case.probe)
    per_step = magnitude(normal + sides[0] - sides[1].mean(axis=1, keepdims=True), anomalous, normal, noise)
    mean = 0.0 if run_id == control_id else float(per_step.mean())
    return None if np.isnan(per_step).any() else Measured(mean=mean, per_step=per_step)


def _shown(per_step: Floats, reading: Reading) -> Floats:
    """Against peers a step counts whole or not at all: 1 where more than half of the anomaly shows.

    How many times slower a rank is depends on what else its machine does; whether it is slower does not.
    """
    return np.asarray(per_step > _HALF, dtype=np.float64) if reading is Reading.LOG_OVER_PEERS else per_step


def read_pairs(store: Store, case: Case, pairs: Sequence[tuple[Diagnostic, Diagnostic]]) -> Floats:
    """Measure of (faulty - good) of each seed pair that can be read, in units of this run's anomaly."""
    found = []
    for faulty, good in pairs:
        sides = [_readings(store, case, d.run_id, _FRESH) for d in (faulty, good)]
        anomalous, normal, noise = references(case.probe)
        if sides[0] is None or sides[1] is None:
            continue
        shifted = normal + sides[0].mean(axis=1, keepdims=True) - sides[1].mean(axis=1, keepdims=True)
        found.append(float(magnitude(shifted, anomalous, normal, noise).mean()))
    return np.array(found)


def control_of(diagnostics: Sequence[Diagnostic]) -> Diagnostic | None:
    """The control that was free of the anomaly, None before there is one."""
    return next((d for d in diagnostics if d.kind is DiagnosticKind.CONTROL and is_cured(d)), None)


def exactness(store: Store, case: Case, run_id: str) -> Exactness:
    """Compare every deterministic series and the data order of a replay with the recorded run, bit by bit."""
    assert case.scene is not None
    lo, hi = case.scene.segment.start_step + 1, case.window.hi
    names = [n for n in store.series.names(run_id) if not n.startswith(WALL_CLOCK)]
    theirs = read_matrix(store, case.run_id, names, lo=lo, hi=hi, upto_segment=case.scene.segment.number)
    return _compared(store, names, (run_id, store.series.matrix(run_id, names, lo=lo, hi=hi)), (case.run_id, theirs))


def learned_alike(store: Store, case: Case, run_id: str, other_id: str) -> Exactness:
    """Compare gradients, weights and the data order of two re-runs, bit by bit: what says that they learned the same,
    whatever else they write."""
    assert case.scene is not None
    lo, hi = case.scene.segment.start_step + 1, case.window.hi
    every = {name for each in (run_id, other_id) for name in store.series.names(each)}
    names = sorted(name for name in every if name.startswith(_LEARNED))
    sides = [(each, store.series.matrix(each, names, lo=lo, hi=hi)) for each in (run_id, other_id)]
    return _compared(store, names, sides[0], sides[1])


def _compared(
    store: Store, names: Sequence[str], one: tuple[str, SeriesMatrix], other: tuple[str, SeriesMatrix]
) -> Exactness:
    (run_id, mine), (other_id, theirs) = one, other
    shared, i, j = np.intersect1d(mine.steps, theirs.steps, return_indices=True)
    equal = (mine.present[:, i] == theirs.present[:, j]) & (
        (mine.values[:, i] == theirs.values[:, j]) | (np.isnan(mine.values[:, i]) & np.isnan(theirs.values[:, j]))
    )
    differing = [name for name, row in zip(names, equal, strict=True) if not row.all()]
    orders = [_order(store, each, shared) for each in (run_id, other_id)]
    if orders[0] != orders[1]:
        differing.append("the order of the samples")
    return Exactness(num_series=len(names), num_steps=int(shared.size), differing=tuple(differing))


def why_impossible(effect: Effect, case: Case) -> str:
    """One sentence on a re-run that gave no measure."""
    if effect.state is not EffectState.DONE:
        return f"impossible: {effect.message or effect.state}"
    last = effect.result.get("last_step", 0)
    return f"impossible: it ended at step {last}, before it could be measured ({effect.result.get('message', '')})"


def _readings(store: Store, case: Case, run_id: str, window: Window) -> Floats | None:
    found = readings(view_series(store, run_id, case.probe.names), case.probe, window)
    expected = window.hi - window.lo + 1
    enough = 1 if case.probe.reading in (Reading.SLOPE, Reading.NONFINITE) else expected // 2
    return None if found is None or found.shape[1] < enough else found


def _order(store: Store, run_id: str, steps: NDArray[np.int64]) -> Mapping[int, str]:
    reads = store.runs.data_reads(run_id)
    wanted = set(steps.tolist())
    return {int(s): h for s, h in zip(reads.steps, reads.hashes, strict=True) if int(s) in wanted}
