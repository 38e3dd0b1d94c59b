"""Findings become anomalies, anomalies become a case, and a case is read back from the store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from context_store import Store
from context_store.records import Anomaly, Investigation
from contracts.enums import InvestigationState, RunState
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from loops.debug.detectors import DETECTORS
from loops.debug.facts import Seat
from loops.debug.finding import Finding
from loops.debug.measure import Probe, Reading, Window, magnitude, readings
from loops.debug.places import place_factor, seat_of
from loops.debug.ranking import Ranked, rank
from loops.debug.reading import link_scene
from loops.debug.recognised import recognise
from loops.debug.recomputed import Recomputed, recomputed
from loops.debug.silence import NO_DATA, SPECIFICITY, Pause, silence
from loops.debug.suspects import Scene, find_scene
from loops.debug.view import RunView, view_run

GUARDS = ("lm_loss", "loss", "grad_norm", "step_time_s")
_NEAR = 20  # steps between onsets that still belong to one case
_RERUN_STEPS = 40  # length of a re-run when the anomaly shows that soon
_AFTER_ONSET = 20
_DEVELOPED = 0.75  # share of the recorded anomaly that must show inside the window of a re-run
_MIN_WINDOW = 10
_FAINT = 0.6  # share of the severity of the clearest finding below which another one does not lead


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything the loop decides on. `anomalies`: the leading one first. `scene` None: nothing can be re-run."""

    investigation: Investigation
    project_id: str
    entry: str
    anomalies: tuple[Anomaly, ...]
    probe: Probe
    view: RunView  # the probe's series and the guards of the run under suspicion
    scene: Scene | None
    ranked: tuple[Ranked, ...]
    window: Window
    seat: Seat | None = None
    recomputed: tuple[Recomputed, ...] = ()  # from what was logged, without a re-run

    @property
    def run_id(self) -> str:
        return self.investigation.run_id

    @property
    def leading(self) -> Anomaly:
        return self.anomalies[0]


def detect(store: Store, run_id: str) -> list[Finding]:
    """Findings of a run, the leading one first; they are stored as anomalies. Empty: nothing wrong found.

    Facts that no standalone finding accompanies are dropped: a healthy run stays silent.
    """
    view = view_run(store, run_id)
    groups = group_findings(view, look(store, view))
    for group in groups:
        for order, finding in enumerate(group):
            _store_anomaly(store, view, finding, order)
    return [finding for group in groups for finding in group]


def look(store: Store, view: RunView) -> list[Finding]:
    """What the detectors say, and what memory recognises where they are still silent."""
    found = [finding for detector in DETECTORS for finding in detector(view)]
    heard = {segment.number for f in found if f.standalone and (segment := view.segment_at(f.onset[1])) is not None}
    recognised = [f for f in recognise(store, view) if (s := view.segment_at(f.onset[1])) and s.number not in heard]
    return [*found, *recognised, *silent(store, view.run_id)]


def note_silence(store: Store, run_id: str, pause: Pause) -> Finding | None:
    """The finding that a running run says nothing any more, stored as an anomaly; None while that is not so."""
    view = view_run(store, run_id)
    finding = silence(view, pause)
    if finding is not None:
        _store_anomaly(store, view, finding, 0)
    return finding


def silent(store: Store, run_id: str) -> list[Finding]:
    """The noted silence of a run that has said nothing since and has not come to an orderly end; none or one."""
    run = store.runs.get(run_id)
    if run.state in (RunState.COMPLETED, RunState.STOPPED):
        return []
    noted = [a for a in store.knowledge.anomalies(run_id=run_id) if a.kind == NO_DATA and a.onset[0] > run.last_step]
    return [
        Finding(
            kind=anomaly.kind,
            series=(),
            layers=(),
            onset=anomaly.onset,
            severity=anomaly.severity,
            statement=anomaly.statement,
            evidence=anomaly.evidence,
            probe=Probe.from_json(anomaly.probe),
            specificity=SPECIFICITY,
        )
        for anomaly in noted[-1:]
    ]


def group_findings(view: RunView, findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that began together, one group for each cause to be looked for; the worst group and finding first."""
    groups: list[list[Finding]] = []
    for finding in sorted(findings, key=lambda f: f.onset):
        home = next((group for group in groups if _belongs(view, finding, group[0])), None)
        groups.append([finding]) if home is None else home.append(finding)
    alive = [group for group in groups if any(f.standalone for f in group)]
    ordered = [_leading_first(group) for group in alive]
    return sorted(ordered, key=lambda g: (-g[0].specificity * g[0].severity, g[0].onset))


def _leading_first(group: Sequence[Finding]) -> list[Finding]:
    """The most specific finding leads, unless it is faint beside another: then it follows from that one."""
    clear = _FAINT * max(finding.severity for finding in group if finding.standalone)
    return sorted(group, key=lambda f: (not f.standalone, f.severity < clear, -f.specificity, f.onset))


def open_case(store: Store, run_id: str, findings: Sequence[Finding], at: float) -> str | None:
    """Open the case of the first group of findings whose case is not closed yet; its id, or None without findings.

    When all are closed, the id of the first: a case is never opened twice.
    """
    view = view_run(store, run_id, names=())
    groups = [
        [_store_anomaly(store, view, finding, order) for order, finding in enumerate(group)]
        for group in group_findings(view, findings)
    ]
    if not groups:
        return None
    closed = {i.id for i in store.knowledge.investigations(state=InvestigationState.CLOSED, run_id=run_id)}
    alive = [group for group in groups if _case_id(group[0]) not in closed]
    group = (alive or groups)[0]
    ids = [anomaly.id for anomaly in group]
    if scene := find_scene(store, view, group[0].onset):
        link_scene(store, scene)
    store.knowledge.open_investigation(_case_id(group[0]), run_id, ids, title=group[0].statement, at=at)
    return _case_id(group[0])


def _case_id(leading: Anomaly) -> str:
    """One case for each resumed segment; in the first segment, which may hold several causes, one for each onset."""
    segment = leading.probe.get("segment")
    place = segment if segment else f"0:{leading.onset[0]}"
    return f"case-{hashlib.sha256(f'{leading.run_id}:{place}'.encode()).hexdigest()[:10]}"


def load_case(store: Store, case_id: str) -> Case:
    """Read a case with its scene and ranking. Deterministic in what the store held when the case was opened."""
    investigation = store.knowledge.investigation(case_id)
    run = store.runs.get(investigation.run_id)
    found = store.knowledge.anomalies(investigation_id=case_id)
    anomalies = tuple(sorted(found, key=lambda a: (a.probe.get("order", 0), a.id)))
    probe = Probe.from_json(anomalies[0].probe)
    names = tuple(dict.fromkeys((*probe.names, *GUARDS)))
    upto = anomalies[0].probe.get("segment")
    view = view_run(store, run.id, names=names, upto_segment=upto)
    found_in_log = recomputed(store, run.id, anomalies, upto)
    scene = find_scene(store, view, anomalies[0].onset)
    seat = seat_of(scene, probe, anomalies[0].series) if scene else None
    if scene and seat:
        scene = replace(scene, factors=(*scene.factors, place_factor(scene, seat)))
    return Case(
        investigation=investigation,
        project_id=run.project_id,
        entry=store.projects.get(run.project_id).entry,
        anomalies=anomalies,
        probe=probe,
        view=view,
        scene=scene,
        ranked=_in_stored_order(store, case_id, rank(store, scene, anomalies, found_in_log)) if scene else (),
        window=rerun_window(view, probe, scene.segment.start_step if scene else 0),
        seat=seat,
        recomputed=found_in_log,
    )


def _in_stored_order(store: Store, case_id: str, ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """The order in which the suspects were first stored: what other cases learn meanwhile must not change a plan."""
    stored = {suspect.key: suspect.rank for suspect in store.knowledge.suspects(case_id)}
    return tuple(sorted(ranked, key=lambda r: stored.get(r.factor.key, len(ranked))))


def rerun_window(view: RunView, probe: Probe, start: int) -> Window:
    """Steps in which re-runs from `start` are compared: the shortest in which the recorded anomaly has developed."""
    end = min(probe.until, max(start + _RERUN_STEPS, probe.since + _AFTER_ONSET))
    while end < probe.until and _developed(view, probe, _window(probe, start, end)) < _DEVELOPED:
        end = min(probe.until, end + _MIN_WINDOW)
    return _window(probe, start, end)


def _window(probe: Probe, start: int, end: int) -> Window:
    if probe.reading in (Reading.NONFINITE, Reading.SLOPE):
        return Window(lo=min(probe.since, max(start + 1, end - _MIN_WINDOW)), hi=end)
    lo = max(probe.since, start + (end - start) // 2)
    return Window(lo=max(start + 1, min(lo, end - _MIN_WINDOW)), hi=end)


def _developed(view: RunView, probe: Probe, window: Window) -> float:
    """How much of the anomaly, as found, the recorded run shows in a window."""
    found = readings(view, probe, window)
    return 0.0 if found is None else float(np.mean(magnitude(found, *references(probe))))


def references(probe: Probe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(anomalous [N, 1], normal [N, 1], noise [N]) as the detector saw them."""
    anomalous, normal = np.array(probe.anomalous)[:, None], np.array(probe.normal)[:, None]
    return anomalous, normal, np.array(probe.noise)


def declared(case: Case, key: str) -> Scalar:
    """A declared field of the onset segment, None when unknown."""
    return case.scene.segment.declared.get(key) if case.scene else None


def _belongs(view: RunView, finding: Finding, other: Finding) -> bool:
    here, there = view.segment_at(finding.onset[1]), view.segment_at(other.onset[1])
    same_segment = here is not None and there is not None and here.number == there.number > 0
    return same_segment or finding.onset[0] - other.onset[1] <= _NEAR


def _store_anomaly(store: Store, view: RunView, finding: Finding, order: int) -> Anomaly:
    """`probe` also keeps the order inside its case, the segment in which it began, and which role supplied it.

    An anomaly that was stored when the run was shorter stays as it was, though its onset now looks a little different.
    """
    segment = view.segment_at(finding.onset[1])
    place = {"order": order, "segment": segment.number if segment else None}
    if (known := _stored(store, view.run_id, finding, place["segment"])) is not None:
        return known
    return store.knowledge.put_anomaly(
        Anomaly(
            run_id=view.run_id,
            kind=finding.kind,
            series=finding.series,
            onset=finding.onset,
            severity=finding.severity,
            statement=finding.statement,
            evidence=finding.evidence or (EvidenceRef(kind="run", id=view.run_id),),
            probe={**finding.probe.to_json(), **place, "supplied_by": finding.supplied_by.value},
        )
    )


def _stored(store: Store, run_id: str, finding: Finding, segment: int | None) -> Anomaly | None:
    """The stored anomaly of the same kind, series and segment with an onset near that of the finding."""
    for anomaly in store.knowledge.anomalies(run_id=run_id):
        is_same = anomaly.kind == finding.kind and anomaly.probe.get("segment") == segment
        shares = bool(set(anomaly.series) & set(finding.series)) or not (anomaly.series or finding.series)
        if is_same and shares and abs(anomaly.onset[0] - finding.onset[0]) <= _NEAR:
            return anomaly
    return None
