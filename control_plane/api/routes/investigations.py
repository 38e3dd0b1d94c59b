"""Cases: list, read whole, open one for a run."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter

from context_store.records import (
    Activity,
    Anomaly,
    BudgetState,
    Diagnostic,
    Effect,
    Investigation,
    Json,
    NegativeResult,
    Proposal,
    Run,
    Suspect,
    VerdictRecord,
)
from contracts.enums import InvestigationState
from contracts.team import TeamRole
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page
from control_plane.case_file import case_file
from control_plane.given_up import ask_again

router = APIRouter(prefix="/investigations", tags=["investigations"])


class NewInvestigation(Body):
    run_id: str


class InvestigationPage(Page):
    investigations: list[Investigation]


class OpenedCase(Body):
    """`investigation` is null when nothing is wrong; `sentence` says what was found."""

    investigation: Investigation | None
    sentence: str


class OneInvestigation(Body):
    investigation: Investigation


class SuppliedBy(Body):
    """Which role of the team supplied each anomaly (by id) and each suspect (by key)."""

    anomalies: dict[int, TeamRole]
    suspects: dict[str, TeamRole]


class CaseFile(OneInvestigation):
    """`run`: null for a case about none. `verification_run`: result of the effect that carried the fix, or null.
    `budget`: null until it was opened. `nature`: what the findings look like where no cause was proven, else null.
    """

    run: Run | None
    anomalies: list[Anomaly]
    suspects: list[Suspect]
    supplied_by: SuppliedBy
    diagnostics: list[Diagnostic]
    nature: str | None
    verdicts: list[VerdictRecord]
    proposals: list[Proposal]
    negatives: list[NegativeResult]
    effects: list[Effect]
    activity: list[Activity]
    report_markdown: str
    budget: BudgetState | None
    verification_run: Json | None


class WrittenReport(Body):
    """`html`: one page that holds its plots. `removed` of `claimed` claims rest on nothing that is stored."""

    markdown: str
    html: str
    brain: str
    removed: int
    claimed: int
    removed_share: float


@router.get("", response_model=InvestigationPage)
def investigations(
    store: StoreDep, wish: PagingDep, state: InvestigationState | None = None, run_id: str | None = None
) -> Answer:
    """Newest first."""
    found, following = page(store.knowledge.investigations(state=state, run_id=run_id), wish, lambda each: each.id)
    return Answer({"investigations": found, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=OpenedCase, responses={200: {"model": OpenedCase}})
def open_investigation(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewInvestigation) -> Answer:
    """Look at a run and open a case for what is found; `investigation` is null when nothing is wrong."""
    from loops.debug import detect, open_case

    store.runs.get(wish.run_id)
    findings = detect(store, wish.run_id)
    case_id = open_case(store, wish.run_id, findings, clock())
    if case_id is None:
        return Answer({"investigation": None, "sentence": f"nothing wrong found in run {wish.run_id}"})
    subject = f"investigation:{case_id}"
    store.ledger.append(principal.name, "open_investigation", subject, {"run_id": wish.run_id}, (), clock())
    opened = {"investigation": store.knowledge.investigation(case_id), "sentence": findings[0].statement}
    return Answer(opened, status_code=HTTPStatus.CREATED)


@router.get("/{case_id}", response_model=CaseFile)
def investigation(store: StoreDep, case_id: str, role: TeamRole | None = None) -> Answer:
    """One case with everything that belongs to it; of a role of the team only what that one supplied."""
    return Answer(case_file(store, case_id, role))


@router.get("/{case_id}/report", response_model=WrittenReport)
def report(store: StoreDep, case_id: str) -> Answer:
    """The case for a reader who was not there, written by rules: no model is asked, so reading costs nothing."""
    from agents.roles import Reporter

    found = Reporter(store).report(case_id)
    return Answer({
        "markdown": found.markdown, "html": found.html, "brain": found.brain, "removed": found.removed,
        "claimed": found.claimed, "removed_share": found.removed_share,
    })  # fmt: skip


@router.post("/{case_id}/ask-again", response_model=OneInvestigation)
def ask_for_it_again(store: StoreDep, clock: ClockDep, principal: ResearcherDep, case_id: str) -> Answer:
    """Let a case that was given up be driven again; any other one goes on as it is."""
    store.knowledge.investigation(case_id)
    ask_again(store, case_id, principal.name, clock())
    return Answer({"investigation": store.knowledge.investigation(case_id)})
