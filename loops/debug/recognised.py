"""A run that begins to show what an earlier case has proven: said before the detectors would (R801-2.11).

Detectors ask for a clear departure, since they do not know what to look for. A stored diagnosis does: the series, the
direction, and how large it was. When its proven cause is in force here too, a part of that anomaly in that very
direction is enough. Where the cause is not in force, a look-alike stays with the detectors. A commit's change counts
under whatever name it came again, and a field when it was given anew with the value of then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from context_store import Store
from context_store.code import diff_of
from context_store.negatives import hash_of_diff
from context_store.reapplied import standing
from context_store.records import Anomaly, Investigation, Suspect
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
_MOST_NAMED = 3
_MOST_CASES = 50  # the newest proven ones
_READINGS = frozenset({Reading.LEVEL, Reading.LOG_LEVEL, Reading.LOG_EXCESS})


@dataclass(frozen=True, kw_only=True)
class Known:
    """A proven case of this project and its leading anomaly. `changes`: what caused it, alike however it is named.

    `took`: steps from the resume to those that were known when it was found.
    """

    case: Investigation
    anomaly: Anomaly
    probe: Probe
    causes: tuple[Suspect, ...]
    changes: frozenset[str]
    took: int

    @property
    def cause(self) -> str:
        """In words."""
        return " and ".join(suspect.title for suspect in self.causes)


def recognise(store: Store, view: RunView) -> list[Finding]:
    """At most one finding for each resume: the earlier case that this stretch comes closest to."""
    found = []
    for segment in view.boundaries:
        known = _in_force(store, view, segment)
        seen = [(share, each) for each in known if (share := _share(view, segment, each.probe)) is not None]
        if seen:
            share, best = max(seen, key=lambda pair: pair[0])
            same = [each for each in known if each.changes == best.changes and each is not best]
            found.append(_finding(view, segment, [best, *same], share))
    return found


def _in_force(store: Store, view: RunView, segment: SegmentView) -> list[Known]:
    """Proven cases of other runs whose causes all came into force with this segment, newest first."""
    before = view.before(segment)
    if before is None:
        return []
    project = store.runs.get(view.run_id).project_id
    new = _new_commits(store, project, before, segment)
    closed = store.knowledge.investigations()
    cases = [c for c in closed if c.verdict is Verdict.PROVEN and c.run_id != view.run_id and c.project_id == project]
    known = [each for case in cases[:_MOST_CASES] if (each := _known(store, case)) is not None]
    return [k for k in known if k.causes and all(_acts(store, k, cause, new, before, segment) for cause in k.causes)]


def _new_commits(store: Store, project: str, before: SegmentView, segment: SegmentView) -> list[str]:
    """Those that came with the segment, parents first; none where its code is not known."""
    if not before.code_version or before.code_version == segment.code_version:
        return []
    try:
        return [c.hash for c in store.code.commits(project, before.code_version, segment.code_version)]
    except RepositoryError:
        return []


def _acts(
    store: Store, known: Known, cause: Suspect, new: Sequence[str], before: SegmentView, segment: SegmentView
) -> bool:
    """Whether a cause of then came into force with the segment: the same change of code, or the same value given."""
    kind, _, what = cause.key.partition(":")
    if kind == "launch":
        there = store.runs.declared(known.case.run_id, int(cause.evidence[0].slice)).get(what)
        return segment.declared.get(what) == there != before.declared.get(what)
    if kind != "commit" or not new:
        return False
    change = store.code.hunks(known.case.project_id, what)
    history = store.code.hunks_of_files(known.case.project_id, {hunk.path for hunk in change})
    return standing(change, history, new).in_force


def _known(store: Store, case: Investigation) -> Known | None:
    """None when the case's anomaly cannot be read in a few steps."""
    anomalies = sorted(store.knowledge.anomalies(investigation_id=case.id), key=lambda a: a.probe.get("order", 0))
    if not anomalies:
        return None
    probe = Probe.from_json(anomalies[0].probe)
    if probe.reading not in _READINGS or not probe.series:
        return None
    causes = tuple(s for s in store.knowledge.suspects(case.id) if s.status is Verdict.PROVEN)
    place = anomalies[0].probe.get("segment")
    began = next((s.start_step for s in store.runs.segments(case.run_id) if s.number == place), 0)
    return Known(
        case=case,
        anomaly=anomalies[0],
        probe=probe,
        causes=causes,
        changes=frozenset(_change(store, case.project_id, cause) for cause in causes),
        took=probe.until - began,
    )


def _change(store: Store, project: str, cause: Suspect) -> str:
    hunks = store.code.hunks(project, cause.commits[0]) if cause.commits else []
    return hash_of_diff(diff_of(hunks)) if hunks else cause.key


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


def _finding(view: RunView, segment: SegmentView, same: Sequence[Known], share: float) -> Finding:
    """`same`: the cases with this cause, the one to compare with first."""
    onset = (segment.start_step + 1, segment.start_step + _MIN_AFTER)
    last, known = view.end_of(segment), same[0]
    cases = [each.case.id for each in same[:_MOST_NAMED]]
    return Finding(
        kind=known.anomaly.kind,
        series=known.anomaly.series,
        layers=(),
        onset=onset,
        severity=min(1.0, known.anomaly.severity),
        statement=(
            f"{ordinal(1 + len(same))} time, see case {' and case '.join(cases)}: {share:.2f} of the anomaly that was "
            f"proven there shows {steps_phrase(onset)}, and what caused it is in force here "
            f"({known.cause}){_lead(known, last - segment.start_step)}"
        ),
        evidence=(
            *(EvidenceRef(kind="investigation", id=case_id) for case_id in cases),
            *(series_ref(view.run_id, name, onset[0], last) for name in known.probe.series[:6]),
        ),
        probe=_probe_here(view, segment, known.probe),
        specificity=97,
    )


def ordinal(number: int) -> str:
    """In words, as far as words are usual."""
    return {2: "second", 3: "third", 4: "fourth", 5: "fifth"}.get(number, f"{number}.")


def _lead(known: Known, steps: int) -> str:
    """How much sooner after the resume it is said than in that case; "" when it is no sooner."""
    lead = known.took - steps
    return f"; said {steps} steps after the resume, {lead} steps sooner than then" if lead > 0 else ""


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
