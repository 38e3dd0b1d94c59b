"""Contrast across the history of runs: did another training of the project that had a change in force show it too?

Read from what those runs have logged, at the same steps. Other runs differ in more than one change, so this only
orders the suspects; it excludes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from context_store import Store
from context_store.records import Run, Segment
from contracts.enums import RunRole
from contracts.errors import RepositoryError
from contracts.evidence import EvidenceRef
from loops.debug.measure import Probe, Window, magnitude, readings
from loops.debug.suspects import Factor, Scene
from loops.debug.view import RunView, view_series

_MAX_RUNS = 10  # the newest others
_MIN_STEPS = 10
_FREE_BELOW, _SHOWN_FROM = 0.25, 0.75  # of the anomaly, as in re-runs


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A segment of another run that can be compared. `shows`: whether it has the anomaly."""

    segment: Segment
    shows: bool
    commits: frozenset[str]  # in force


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Runs that had a change in force, by whether they show the anomaly."""

    free: tuple[str, ...] = ()
    showing: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """In words; "" where no other run had it."""
        parts = [f"in force in {', '.join(self.free)} too, without this"] if self.free else []
        parts += [f"in force in {', '.join(self.showing)} too, which shows it as well"] if self.showing else []
        return "; ".join(parts)

    @property
    def evidence(self) -> tuple[EvidenceRef, ...]:
        return tuple(EvidenceRef(kind="run", id=run_id) for run_id in (*self.free, *self.showing))


def stretches(store: Store, scene: Scene, probe: Probe) -> list[Stretch]:
    """Of the newest other trainings of the project, those that logged the probe's series at its steps."""
    if not probe.series:
        return []
    others = store.runs.list(project_id=scene.project_id, role=RunRole.TRAINING, limit=_MAX_RUNS + 1)
    found = (_of_run(store, scene, probe, run) for run in others if run.id != scene.run_id)
    return [stretch for run in found for stretch in run]


def contrast_of(store: Store, factor: Factor, others: list[Stretch]) -> Contrast:
    """What the stretches say of one factor."""
    had = [each for each in others if _is_in_force(store, factor, each)]
    showing = {each.segment.run_id: None for each in had if each.shows}
    free = {each.segment.run_id: None for each in had if not each.shows and each.segment.run_id not in showing}
    return Contrast(free=tuple(free), showing=tuple(showing))


def _of_run(store: Store, scene: Scene, probe: Probe, run: Run) -> Iterator[Stretch]:
    view = view_series(store, run.id, probe.names)
    for segment in store.runs.segments(run.id):
        shown = _shown(view, probe, segment)
        if shown is None or _FREE_BELOW <= shown < _SHOWN_FROM:
            continue
        try:
            commits = store.code.commits(scene.project_id, scene.root or None, segment.code_version)
        except RepositoryError:  # its code is not known here
            continue
        hashes = frozenset(commit.hash for commit in commits)
        yield Stretch(segment=segment, shows=shown >= _SHOWN_FROM, commits=hashes)


def _shown(view: RunView, probe: Probe, segment: Segment) -> float | None:
    """How much of the anomaly a segment shows at the steps at which it was found; None where they are too few."""
    window = Window(lo=max(probe.since, segment.start_step + 1), hi=min(probe.until, segment.last_step))
    if window.hi - window.lo + 1 < _MIN_STEPS or (found := readings(view, probe, window)) is None:
        return None
    anomalous, normal = np.array(probe.anomalous)[:, None], np.array(probe.normal)[:, None]
    shown = float(np.mean(magnitude(found.mean(axis=1, keepdims=True), anomalous, normal, np.array(probe.noise))))
    return shown if np.isfinite(shown) else None


def _is_in_force(store: Store, factor: Factor, stretch: Stretch) -> bool:
    if factor.commit is not None:
        return factor.commit.hash in stretch.commits
    if not factor.fields or not factor.testable:
        return False
    declared = store.runs.declared(stretch.segment.run_id, stretch.segment.number)
    return all(change.key in declared and declared[change.key] == change.after for change in factor.fields)
