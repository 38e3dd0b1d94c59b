"""Cards beside an answer, made from what it cites, whoever wrote it: plots with change markers, cases, proposals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agents import evidence
from agents.chat.answer import Answer, Card, CardKind
from context_store import Store
from context_store.records import Anomaly, Investigation, Proposal
from contracts.enums import ProposalState, TimelineKind
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef

_MAX_PLOTS, _MAX_CASES, _MAX_PROPOSALS = 2, 3, 3
_MARGIN = 3  # a plot shows so many times the onset's distance around it
_MIN_WINDOW = 30
_STEPS = re.compile(r"^(\d+)\.\.(\d+)$")


def cards_of(store: Store, answer: Answer) -> tuple[Card, ...]:
    """Cases first, then plots, then proposals: those cited, and those of the first case that wait for a decision.

    A statement that begins with the points of a series shows them; other points it rests on are not drawn.
    """
    cases = list({case.id: case for ref in answer.citations for case in _cases(store, ref)}.values())[:_MAX_CASES]
    shown = [plot for each in answer.statements for plot in _plots(store, each.evidence)]
    if not shown and cases:
        shown = plots(store, store.knowledge.anomalies(investigation_id=cases[0].id))
    elif not shown:
        shown = [plot for ref in answer.citations[:1] for plot in _plots_of_run(store, ref)]
    waiting = store.proposals.list(ProposalState.OPEN, cases[0].id) if cases else []
    cited = [each for ref in answer.citations if ref.kind == "proposal" for each in _proposals(store, ref.id)]
    by_series = {(card.detail["run_id"], card.detail["name"]): card for card in reversed(shown)}
    plotted = list(reversed(by_series.values()))[:_MAX_PLOTS]
    proposals = list({each.id: each for each in (*cited, *waiting)}.values())[:_MAX_PROPOSALS]
    return (*map(_case_card, cases), *plotted, *map(_proposal_card, proposals))


def plots(store: Store, anomalies: Sequence[Anomaly]) -> list[Card]:
    """A plot of each anomaly's first series around its onset."""
    return [
        _plot(store, each.run_id, each.series[0], each.onset, onset=each.onset)
        for each in [each for each in anomalies if each.series][:_MAX_PLOTS]
    ]


def _cases(store: Store, ref: EvidenceRef) -> Iterator[Investigation]:
    """The case that is cited, or a part of it."""
    with suppress(NotFound):
        if ref.kind == "investigation":
            yield store.knowledge.investigation(ref.id)
        elif ref.kind in ("suspect", "diagnostic"):
            yield store.knowledge.investigation(ref.id.partition("/")[0])
        elif ref.kind == "verdict":
            yield store.knowledge.investigation(store.knowledge.verdict(int(ref.id)).investigation_id)
        elif ref.kind == "negative" and (case_id := store.negatives.get(int(ref.id)).investigation_id):
            yield store.knowledge.investigation(case_id)


def _plots(store: Store, refs: Sequence[EvidenceRef]) -> Iterator[Card]:
    with suppress(NotFound):
        for ref in refs:
            if ref.kind == "anomaly":
                yield from plots(store, [store.knowledge.anomaly(int(ref.id))])
        if refs[0].kind == "series" and (steps := _STEPS.match(refs[0].slice)):
            run_id, name = evidence.series_of(refs[0])
            if name in store.series.names(run_id):
                yield _plot(store, run_id, name, (int(steps[1]), int(steps[2])))


def _plots_of_run(store: Store, ref: EvidenceRef) -> list[Card]:
    """What was found in the run that is cited itself, or by its configuration."""
    run_id = ref.id.partition("/")[0] if ref.kind in ("run", "config") else ""
    return plots(store, store.knowledge.anomalies(run_id)) if run_id else []


def _proposals(store: Store, proposal_id: str) -> Iterator[Proposal]:
    with suppress(NotFound):
        yield store.proposals.get(proposal_id)


def _plot(store: Store, run_id: str, name: str, steps: tuple[int, int], onset: tuple[int, int] | None = None) -> Card:
    """One series around `steps`, with what changed as markers."""
    width = max(_MIN_WINDOW, _MARGIN * (steps[1] - steps[0]))
    lo, hi = max(0, steps[0] - width), min(steps[1] + width, max(steps[1], store.runs.get(run_id).last_step))
    kinds = [kind for kind in TimelineKind if kind not in (TimelineKind.CHECKPOINT, TimelineKind.EVAL)]
    events = store.timeline.list(run_id, lo, hi, kinds)
    return Card(
        kind=CardKind.SERIES,
        title=f"{name} of {run_id}",
        evidence=evidence.series(run_id, name, lo, hi),
        detail={
            "run_id": run_id,
            "name": name,
            "lo": lo,
            "hi": hi,
            "onset": list(onset or ()),
            "markers": [{"step": each.step, "title": each.title} for each in events],
        },
    )


def _case_card(case: Investigation) -> Card:
    return Card(kind=CardKind.CASE, title=case.title, evidence=evidence.case(case.id), detail={"id": case.id})


def _proposal_card(each: Proposal) -> Card:
    shown = {"id": each.id, "state": each.state}
    return Card(kind=CardKind.PROPOSAL, title=each.title, evidence=evidence.proposal(each.id), detail=shown)
