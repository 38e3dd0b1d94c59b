"""GET /runs and what belongs to a run: series, points, timeline."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from context_store.records import Checkpoint, Run, Segment, TimelineEvent
from contracts.enums import CauseKind, RunRole, TimelineKind, Verdict
from contracts.evidence import EvidenceRef
from contracts.team import TeamRole
from control_plane.api.access import ResearcherDep, StoreDep
from control_plane.api.answer import Answer, Arrays
from control_plane.api.bodies import Body, Page, Paging, PagingDep, first, page
from control_plane.findings import findings, nothing_found

router = APIRouter(prefix="/runs", tags=["runs"])
_MAX_NAMES = 200
_MAX_SERIES = 100_000
_MAX_EVENTS = 10_000
Step = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]

Tokens = Annotated[float | None, Query(ge=0)]


class RunPage(Page):
    runs: list[Run]


class OneRun(Body):
    """`latest`: last value of each whole-model statistic."""

    run: Run
    segments: list[Segment]
    checkpoints: list[Checkpoint]
    latest: dict[str, float]


class NamePage(Page):
    names: list[str]


class Points(Body):
    """Parallel lists by (step, segment)."""

    name: str
    steps: list[int]
    values: list[float]
    segments: list[int]


class AllPoints(Body):
    series: list[Points]


class EventPage(Page):
    """`tokens_seen`: of each event; empty unless asked for, null where it is not recorded."""

    events: list[TimelineEvent]
    tokens_seen: list[float | None]


class FindingOut(Body):
    """An anomaly; cause and verdict are those of its case, null while that is open or there is none."""

    id: int
    run: str
    investigation_id: str | None
    kind: str
    series: list[str]
    onset: tuple[int, int]
    severity: float
    cause_kind: CauseKind | None
    verdict: Verdict | None
    statement: str
    seen_before: list[str]
    evidence: list[EvidenceRef]
    supplied_by: TeamRole


class Findings(Body):
    """`sentence`: what silence means, where nothing was found."""

    findings: list[FindingOut]
    sentence: str


@router.get("", response_model=RunPage)
def runs(store: StoreDep, wish: PagingDep, role: RunRole | None = None, project: str | None = None) -> Answer:
    """Newest first."""
    before = store.runs.get(wish.after).id if wish.after is not None else None
    found = store.runs.list(project_id=project, role=role, limit=wish.limit + 1, before=before)
    kept, following = first(found, wish, lambda each: each.id)
    return Answer({"runs": kept, "next": following})


@router.get("/{run_id}", response_model=OneRun)
def run(store: StoreDep, run_id: str) -> Answer:
    """`latest`: last value of each whole-model statistic."""
    found = store.runs.get(run_id)
    names = [name for name in store.series.names(run_id) if "/" not in name]
    return Answer(
        {
            "run": found,
            "segments": store.runs.segments(run_id),
            "checkpoints": store.runs.checkpoints(run_id),
            "latest": store.series.latest([run_id], names).get(run_id, {}),
        }
    )


@router.get("/{run_id}/series", response_model=NamePage)
def series(
    store: StoreDep,
    run_id: str,
    limit: Annotated[int, Query(ge=1, le=_MAX_SERIES)] = _MAX_SERIES,
    after: str | None = None,
    statistic: str | None = None,
) -> Answer:
    """Names of the run's series."""
    store.runs.get(run_id)
    names = store.series.names(run_id, statistic=statistic)
    found, following = page(names, Paging(limit=limit, after=after), str)
    return Answer({"names": found, "next": following})


@router.get("/{run_id}/points", response_model=AllPoints)
def points(
    store: StoreDep,
    run_id: str,
    name: Annotated[list[str], Query(min_length=1, max_length=_MAX_NAMES)],
    buckets: Annotated[int, Query(ge=1, le=5000)] = 600,
    lo: Step = None,
    hi: Step = None,
    view: Literal["canonical", "full"] = "canonical",
) -> Answer:
    """Downsampled; extremes, first, last and every non-finite point are kept. `full`: superseded points too."""
    store.runs.get(run_id)
    return Arrays({"series": store.series.downsample_each(run_id, name, buckets, lo, hi, view)})


@router.get("/{run_id}/timeline", response_model=EventPage)
def timeline(
    store: StoreDep,
    run_id: str,
    limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS)] = _MAX_EVENTS,
    after: str | None = None,
    kind: Annotated[list[TimelineKind] | None, Query()] = None,
    lo: Step = None,
    hi: Step = None,
    lo_tokens: Tokens = None,
    hi_tokens: Tokens = None,
    tokens: bool = False,
) -> Answer:
    """What changed or happened, by step; only of some kinds, or between two steps or counts of tokens seen."""
    store.runs.get(run_id)
    events, seen = store.timeline.list(run_id, lo, hi, kind), None
    if tokens or lo_tokens is not None or hi_tokens is not None:
        seen = store.timeline.tokens_seen(run_id)
        events = seen.between(events, lo_tokens, hi_tokens)
    found, following = page(events, Paging(limit=limit, after=after), lambda each: each.id)
    counts = [seen.at(each.step) for each in found] if seen else []
    return Answer({"events": found, "tokens_seen": counts, "next": following})


@router.get("/{run_id}/findings", response_model=Findings)
def found_so_far(store: StoreDep, run_id: str, role: TeamRole | None = None) -> Answer:
    """What was found in the run so far, without looking again; all of it, or what one role of the team supplied."""
    store.runs.get(run_id)
    found = findings(store, run_id, role)
    return Answer({"findings": found, "sentence": "" if found else nothing_found(store, run_id, role)})


@router.post("/{run_id}/detect", response_model=Findings)
def detect(store: StoreDep, _: ResearcherDep, run_id: str) -> Answer:
    """Look for anomalies now, as `lathe detect` does; no case is opened."""
    from loops.debug import detect as look

    store.runs.get(run_id)
    look(store, run_id)
    return found_so_far(store, run_id)
