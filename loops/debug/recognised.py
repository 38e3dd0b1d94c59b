"""A run that begins to show what an earlier case has proven: said before the detectors would (R801-2.11).

Detectors ask for a clear departure, since they do not know what to look for. A stored diagnosis does: the series, the
direction, and how large it was. When its proven cause is in force here too, a part of that anomaly in that very
direction is enough. Where the cause is not in force, a look-alike stays with the detectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from context_store import Store
from context_store.records import Anomaly, Investigation
from contracts.enums import Verdict
from contracts.errors import RepositoryError
from contracts.evidence import EvidenceRef
from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import Floats, RunView, SegmentView

_PART = 0.35  # of the earlier anomaly
_SIGMAS = 4.0  # in sd of the mean over the steps seen, as they scatter before the resume
_MIN_BEFORE, _MIN_AFTER = 12, 6
_HISTORY = 40
_MOST_CASES = 50  # the newest proven ones
_READINGS = frozenset({Reading.LEVEL, Reading.LOG_LEVEL, Reading.LOG_EXCESS})


@dataclass(frozen=True, kw_only=True)
class Known:
    """A proven case of this project and its leading anomaly. `commits`: those that caused it, `cause` in words."""

    case: Investigation
    anomaly: Anomaly
    probe: Probe
    commits: tuple[str, ...]
    cause: str


def recognise(store: Store, view: RunView) -> list[Finding]:
    """At most one finding for each resume: the earlier case that this stretch comes closest to."""
    found = []
    for segment in view.boundaries:
        known = _in_force(store, view, segment)
        seen = [(share, each) for each in known if (share := _share(view, segment, each.probe)) is not None]
        if seen:
            share, best = max(seen, key=lambda pair: pair[0])
            found.append(_finding(view, segment, best, share, _times(known, best)))
    return found


def _in_force(store: Store, view: RunView, segment: SegmentView) -> list[Known]:
    """Proven cases of other runs whose causing commits came into force with this segment, newest first."""
    before = view.before(segment)
    if before is None or before.code_version == segment.code_version:
        return []
    project = store.runs.get(view.run_id).project_id
    try:
        new = {c.hash for c in store.code.commits(project, before.code_version, segment.code_version)}
    except RepositoryError:
        return []
    closed = store.knowledge.investigations()
    cases = [c for c in closed if c.verdict is Verdict.PROVEN and c.run_id != view.run_id][:_MOST_CASES]
    known = [each for case in cases if (each := _known(store, case)) is not None]
    return [each for each in known if each.commits and set(each.commits) <= new]


def _known(store: Store, case: Investigation) -> Known | None:
    """None when the case's anomaly cannot be read in a few steps, or no commit caused it."""
    anomalies = sorted(store.knowledge.anomalies(investigation_id=case.id), key=lambda a: a.probe.get("order", 0))
    if not anomalies:
        return None
    probe = Probe.from_json(anomalies[0].probe)
    proven = [s for s in store.knowledge.suspects(case.id) if s.status is Verdict.PROVEN]
    commits = tuple(commit for suspect in proven for commit in suspect.commits)
    if probe.reading not in _READINGS or not probe.series or len(commits) < len(proven):
        return None
    cause = " and ".join(suspect.title for suspect in proven)
    return Known(case=case, anomaly=anomalies[0], probe=probe, commits=commits, cause=cause)


def _share(view: RunView, segment: SegmentView, probe: Probe) -> float | None:
    """How much of the earlier anomaly the steps since the resume show, against those before it; None when not clear.

    The projection of `measure.magnitude`, with the run's own level before the resume in place of a control.
    """
    rows = [view.values.get(name) for name in probe.series]
    if any(row is None for row in rows):
        return None
    scaled = np.stack([transform(row, probe.reading) for row in rows if row is not None])
    complete = np.all(np.isfinite(scaled), axis=0)
    steps, scaled = view.steps[complete], scaled[:, complete]
    before = scaled[:, steps <= segment.start_step][:, -_HISTORY:]
    after = scaled[:, (steps > segment.start_step) & (steps <= view.end_of(segment))]
    if before.shape[1] < _MIN_BEFORE or after.shape[1] < _MIN_AFTER:
        return None
    weights = (np.array(probe.anomalous) - np.array(probe.normal)) / np.array(probe.noise) ** 2
    size = float(weights @ (np.array(probe.anomalous) - np.array(probe.normal)))
    if not size > 0.0:
        return None
    level, recent = weights @ before / size, weights @ after / size
    return _clear_share(level, recent)


def _clear_share(level: Floats, recent: Floats) -> float | None:
    """Mean of the later half of `recent` over the mean of `level`, when it is large and outside the scatter."""
    late = recent[recent.size // 2 :]
    share = float(late.mean() - level.mean())
    drift = abs(float(level[-level.size // 3 :].mean() - level.mean()))  # how far it goes by itself
    error = float(level.std(ddof=1)) / np.sqrt(late.size)
    return share if share >= max(_PART, _SIGMAS * error, 3.0 * drift) else None


def _times(known: Sequence[Known], best: Known) -> int:
    """How often it has been seen with this time."""
    return 1 + sum(set(each.commits) == set(best.commits) for each in known)


def _finding(view: RunView, segment: SegmentView, known: Known, share: float, times: int) -> Finding:
    onset = (segment.start_step + 1, segment.start_step + _MIN_AFTER)
    last = view.end_of(segment)
    case = known.case
    return Finding(
        kind=known.anomaly.kind,
        series=known.anomaly.series,
        layers=(),
        onset=onset,
        severity=min(1.0, known.anomaly.severity),
        statement=(
            f"seen for time {times}, see case {case.id}: {share:.2f} of the anomaly that it has proven shows "
            f"{steps_phrase(onset)}, and what caused it there is in force here ({known.cause})"
        ),
        evidence=(
            EvidenceRef(kind="investigation", id=case.id),
            *(series_ref(view.run_id, name, onset[0], last) for name in known.probe.series[:6]),
        ),
        probe=_probe_here(view, segment, known.probe),
        specificity=97,
    )


def _probe_here(view: RunView, segment: SegmentView, probe: Probe) -> Probe:
    """The earlier probe with this run's own level as normal, and its steps so far."""
    normal = []
    for name in probe.series:
        steps, values = view.series(name)
        normal.append(float(np.mean(transform(values[steps <= segment.start_step][-_HISTORY:], probe.reading))))
    shift = np.array(probe.anomalous) - np.array(probe.normal)
    anomalous = tuple(float(level + by) for level, by in zip(normal, shift, strict=True))
    last = view.end_of(segment)
    return replace(
        probe, normal=tuple(normal), anomalous=anomalous, since=min(segment.start_step + _MIN_AFTER, last), until=last
    )
