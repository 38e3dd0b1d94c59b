"""The debug loop: from the findings to the proven cause, the approved fix, and whether it held."""

from __future__ import annotations

import time

from benchmarks.trainrca.answers import Answer, Facts
from benchmarks.trainrca.form import Case
from benchmarks.trainrca.placing import Bench
from contracts.enums import InvestigationState, ProposalState, Role, Verdict
from control_plane.cli.investigate import work_on
from control_plane.demo.outcome import is_verified
from loops.debug import detect, open_case


def answer(lathe: Bench, case: Case, facts: Facts) -> Answer:
    """Work through the case as `lathe diagnose` does, approve what is proposed, and go on until it is closed."""
    began, spent = time.monotonic(), lathe.recording.spent_s
    cases = _work_through(lathe, case.id)
    if not cases:
        return Answer(verdict=str(Verdict.NOTHING_FOUND), seconds=facts.seconds)
    seconds = time.monotonic() - began + (lathe.recording.spent_s - spent) / lathe.settings.num_cpus
    knowledge = lathe.store.knowledge
    verdicts = [knowledge.verdicts(each)[0] for each in cases]
    proven = [each for each in verdicts if each.verdict is Verdict.PROVEN]
    named = tuple(dict.fromkeys(key for each in proven for key in each.suspect_keys))
    ranked = [suspect.key for each in cases for suspect in sorted(knowledge.suspects(each), key=lambda s: s.rank)]
    fixed = _approve(lathe, cases)
    return Answer(
        verdict=str(proven[0].verdict if proven else verdicts[0].verdict),
        named=named,
        ranking=tuple(dict.fromkeys([*named, *ranked])),
        found_at=facts.found_at,
        reruns=sum(each.num_reruns for each in verdicts),
        seconds=facts.seconds + seconds,
        fix_held=is_verified(lathe.store, fixed) if fixed else None,
        statement=knowledge.investigation(cases[0]).statement,
    )


def _work_through(lathe: Bench, run_id: str) -> list[str]:
    """The cases of a run: the first, and while one ends without a proven cause, the next finding's."""
    done: list[str] = []
    following = open_case(lathe.store, run_id, detect(lathe.store, run_id), time.time())
    while following is not None and following not in done:
        done.append(following)
        case = work_on(lathe, following)
        unclear = case.state is InvestigationState.CLOSED and case.verdict is Verdict.CANNOT_TELL
        following = open_case(lathe.store, run_id, detect(lathe.store, run_id), time.time()) if unclear else None
    return done


def _approve(lathe: Bench, cases: list[str]) -> str:
    """Approve the proposed fix and let it go into the run; the case that it belongs to, "" without one."""
    fixed = ""
    for case_id in cases:
        for proposal in lathe.store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id):
            lathe.store.proposals.approve(proposal.id, "benchmark", Role.REVIEWER, "", time.time(), proposal.bound_hash)
            fixed = case_id
    if fixed and lathe.store.knowledge.investigation(fixed).state is not InvestigationState.CLOSED:
        work_on(lathe, fixed)
    return fixed
