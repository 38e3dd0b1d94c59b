"""What was found out: runs, anomalies, cases with their suspects and verdicts, what did not hold, what waits."""

from __future__ import annotations

from pydantic import Field

from agents import evidence
from agents.tools.matching import best, names
from agents.tools.protocol import MAX_ROWS, Arguments, Row, ToolResult, result, row
from context_store import Store
from context_store.records import (
    Anomaly,
    Diagnostic,
    Investigation,
    NegativeResult,
    Proposal,
    Run,
    Suspect,
    VerdictRecord,
)
from contracts.enums import EffectState, InvestigationState, ProposalState, RunRole


class Runs(Arguments):
    project_id: str | None = None
    limit: int = Field(default=10, ge=1, le=30)


class Anomalies(Arguments):
    run_id: str


class Investigations(Arguments):
    run_id: str | None = None
    state: InvestigationState | None = None


class CaseFile(Arguments):
    investigation_id: str


class NegativeResults(Arguments):
    text: str = Field(min_length=1, description="what you want to try or suspect, in words")
    project_id: str | None = None


class SimilarIncidents(Arguments):
    text: str = Field(min_length=1, description="the symptom, in words")


class Proposals(Arguments):
    state: ProposalState | None = None
    investigation_id: str | None = None


class Diagnostics(Arguments):
    investigation_id: str


def runs(store: Store, arguments: Runs) -> ToolResult:
    """Trainings, newest first."""
    found = store.runs.list(arguments.project_id, RunRole.TRAINING, limit=arguments.limit)
    return result([run_row(each) for each in found], "no run is stored")


def anomalies(store: Store, arguments: Anomalies) -> ToolResult:
    """Earliest onset first."""
    store.runs.get(arguments.run_id)
    found = store.knowledge.anomalies(arguments.run_id)
    return result([anomaly_row(each) for each in found], f"no anomaly is stored for run {arguments.run_id}")


def investigations(store: Store, arguments: Investigations) -> ToolResult:
    """Newest first."""
    found = store.knowledge.investigations(arguments.state, arguments.run_id)
    return result([case_row(each) for each in found], "no such investigation is stored")


def case_file(store: Store, arguments: CaseFile) -> ToolResult:
    """The case, its verdicts, anomalies and suspects by rank."""
    case_id = arguments.investigation_id
    case = store.knowledge.investigation(case_id)
    rows = [case_row(case), *(verdict_row(each) for each in store.knowledge.verdicts(case_id))]
    rows += [anomaly_row(each) for each in store.knowledge.anomalies(investigation_id=case_id)]
    rows += [suspect_row(each) for each in store.knowledge.suspects(case_id)]
    return result(rows, "the case is empty")


def diagnostics(store: Store, arguments: Diagnostics) -> ToolResult:
    """Re-runs of a case with what they measured, and what is still under way."""
    case_id = arguments.investigation_id
    store.knowledge.investigation(case_id)
    rows = [diagnostic_row(each) for each in store.knowledge.diagnostics(case_id)]
    for effect in store.effects.list(case_id):
        if effect.state in (EffectState.REQUESTED, EffectState.RUNNING):
            rows.append(row(f"{effect.kind} is {effect.state} ({effect.key})", evidence.case(case_id)))
    return result(rows, f"nothing was re-run in case {case_id}")


def negative_results(store: Store, arguments: NegativeResults) -> ToolResult:
    """What was tried and did not hold: what the text names first, then what shares enough words with it."""
    found = like_negatives(store, arguments.text, arguments.project_id)
    return result([negative_row(each) for each in found], f"nothing like '{arguments.text}' was stored before", 10)


def like_negatives(store: Store, text: str, project_id: str | None = None) -> list[NegativeResult]:
    """Negative results that a text is about, best match first."""
    found = [each for each, _ in store.negatives.search(text, project_id, limit=MAX_ROWS)]
    named = [each for each in found if names(text, each.intervention)]
    like = best(text, found, lambda each: f"{each.claim} {each.intervention}", limit=10)
    return list({each.id: each for each in (*(n for n in like if n in named), *named, *like)}.values())


def similar_incidents(store: Store, arguments: SimilarIncidents) -> ToolResult:
    """Cases whose title or finding shares words with the text, best match first."""
    cases = store.knowledge.investigations()
    found = best(arguments.text, cases, lambda case: f"{case.title} {case.statement}", limit=10)
    return result([case_row(each) for each in found], "no similar incident is stored")


def proposals(store: Store, arguments: Proposals) -> ToolResult:
    found = store.proposals.list(arguments.state, arguments.investigation_id)
    return result([proposal_row(each) for each in found], "no such proposal is stored")


def run_row(each: Run) -> Row:
    name = f" '{each.name}'" if each.name not in ("", each.id) else ""
    why = f": {each.message}" if each.message else ""
    return row(f"run {each.id}{name} is {each.state} at step {each.last_step}{why}", evidence.run(each.id))


def anomaly_row(each: Anomaly) -> Row:
    lo, hi = each.onset
    when = f"step {lo}" if lo == hi else f"steps {lo}-{hi}"
    text = f"anomaly of run {each.run_id}, {when}: {each.statement}"
    return row(text, evidence.numbered("anomaly", each.id), *each.evidence)


def case_row(each: Investigation) -> Row:
    verdict = f"{each.verdict} (scope {each.scope})" if each.verdict else "no verdict yet"
    of = f"of run {each.run_id}" if each.run_id else f"of the {each.loop} loop"
    text = f"case {each.id} {of}: {each.title}. {verdict}, {each.state}. {each.statement}"
    return row(text, evidence.case(each.id))


def verdict_row(each: VerdictRecord) -> Row:
    """Never without its scope."""
    text = f"verdict {each.verdict} (scope {each.scope}, {each.num_reruns} re-runs): {each.statement}"
    return row(text, evidence.numbered("verdict", each.id), *each.evidence)


def overturn_row(each: VerdictRecord) -> Row:
    text = f"what would overturn the verdict {each.verdict} (scope {each.scope}): {each.would_overturn}"
    return row(text, evidence.numbered("verdict", each.id))


def suspect_row(each: Suspect) -> Row:
    own = evidence.part_of_case("suspect", each.investigation_id, each.key)
    return row(f"suspect {each.rank}: {each.title}: {each.status or 'not decided'}. {each.reason}", own, *each.evidence)


def diagnostic_row(each: Diagnostic) -> Row:
    own = evidence.part_of_case("diagnostic", each.investigation_id, each.key)
    refs = (own, evidence.run(each.run_id)) if each.run_id else (own,)
    return row(f"re-run, {each.kind} '{each.label}': {each.reading or 'not read yet'}", *refs)


def negative_row(each: NegativeResult) -> Row:
    """What was tried, what happened, why it does not hold, what would reopen it."""
    again = f" Again if {each.reopen_if}" if each.reopen_if else ""
    text = f"tried: {each.intervention} (claim: {each.claim}). Seen: {each.observed}. Why not: {each.reason}.{again}"
    return row(text, evidence.numbered("negative", each.id), *each.evidence)


def proposal_row(each: Proposal) -> Row:
    by = f" by {each.decided_by}" if each.decided_by else ""
    text = f"proposal {each.id} is {each.state}{by}: {each.title}. Risk: {each.risk}"
    return row(text, evidence.proposal(each.id), *each.evidence)
