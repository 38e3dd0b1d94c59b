"""The steps of the debug loop as skills: where it went wrong, who is suspected, what re-runs said, what is proven and
proposed. The workflow `debug_run` opens the case and walks them as far as the case has come; the loop itself goes on.

Each step holds what the loop promises of it: no two suspects share a rank, a re-run is read or says that it is not,
a proof rests on re-runs and names suspects of the case, and no fix is proposed without a proof.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from agents.skills.conditions import CASE_OF_RUN, CASE_STORED, FOUND, RUN_STORED, OfRun, OneCase
from agents.skills.skill import Condition, ConditionFailed, Facts, Level, Skill, Use
from context_store import Store
from contracts.enums import EffectKind, Scope, Verdict


class Stage(StrEnum):
    """How far a case has come."""

    OPENED = "opened"
    SUSPECTED = "suspected"
    TESTED = "tested"
    DECIDED = "decided"
    PROPOSED = "proposed"


class Suspects(Facts):
    """`num_open`: not yet decided."""

    num_open: int


class Tests(Facts):
    """`num_unread`: asked for or run, and not read yet."""

    num_unread: int


class Decision(Facts):
    """`proven`: at least one verdict is."""

    proven: bool


class Debugged(Facts):
    """`onset`: first step of the first anomaly, None where the case is about none."""

    investigation_id: str
    stage: Stage
    onset: int | None


def _ranked(store: Store, inputs: Any, _: Any) -> bool:
    ranks = [each.rank for each in store.knowledge.suspects(inputs.investigation_id)]
    return ranks == sorted(set(ranks))


def _rests_on_reruns(store: Store, inputs: Any, _: Any) -> bool:
    case_id = inputs.investigation_id
    known = {each.key for each in store.knowledge.suspects(case_id)}
    proven = [each for each in store.knowledge.verdicts(case_id) if each.verdict is Verdict.PROVEN]
    return all(
        each.num_reruns > 0 and each.scope is not Scope.OBSERVED and set(each.suspect_keys) <= known for each in proven
    )


def _follows_a_proof(store: Store, inputs: Any, _: Any) -> bool:
    known = store.proposals.list(investigation_id=inputs.investigation_id)
    verdicts = store.knowledge.verdicts(inputs.investigation_id)
    mends = any(each.kind is EffectKind.RESUME_WITH_PATCH for each in known)
    return not mends or any(each.verdict is Verdict.PROVEN for each in verdicts)


_RANKED = Condition(text="no two suspects share a rank", holds=_ranked)
_PROOF = Condition(text="a proof rests on re-runs and names suspects of the case", holds=_rests_on_reruns)
_FOLLOWS = Condition(text="no fix is proposed without a proof", holds=_follows_a_proof)


def _of(facts: Facts, *kinds: str) -> Facts:
    return Facts(facts=tuple(each for each in facts.facts if each.evidence[0].partition(":")[0] in kinds))


def _suspects(use: Use, inputs: OneCase) -> Suspects:
    found = _of(use.skill("case_facts", investigation_id=inputs.investigation_id), "suspect")
    return Suspects(facts=found.facts, num_open=sum(": not decided." in each.text for each in found.facts))


def _tests(use: Use, inputs: OneCase) -> Tests:
    found = use.skill("reruns", investigation_id=inputs.investigation_id).facts
    waiting = [each for each in found if "not read yet" in each.text or each.evidence[0].startswith("investigation:")]
    return Tests(facts=found, num_unread=len(waiting))


def _decision(use: Use, inputs: OneCase) -> Decision:
    found = _of(use.skill("case_facts", investigation_id=inputs.investigation_id), "verdict")
    return Decision(facts=found.facts, proven=any(each.text.startswith("verdict proven") for each in found.facts))


def _proposed(use: Use, inputs: OneCase) -> Facts:
    return Facts(facts=use.tool("proposals", investigation_id=inputs.investigation_id))


def _debug(use: Use, inputs: OfRun) -> Debugged:
    opened = use.tool("start_investigation", run_id=inputs.run_id)
    if not opened:
        raise ConditionFailed(f"run {inputs.run_id} shows nothing wrong, so no case was opened", remedy="name another")
    case_id = opened[0].evidence[0].partition(":")[2]
    onset = use.skill("find_onset", run_id=inputs.run_id)
    steps = {
        Stage.SUSPECTED: use.skill("rank_suspects", investigation_id=case_id),
        Stage.TESTED: use.skill("read_tests", investigation_id=case_id),
        Stage.DECIDED: use.skill("weigh_proof", investigation_id=case_id),
        Stage.PROPOSED: use.skill("proposed_fixes", investigation_id=case_id),
    }
    reached = [stage for stage, found in steps.items() if found.facts]
    facts = (*opened, onset.facts[0], *(fact for found in steps.values() for fact in found.facts))
    stage = reached[-1] if reached else Stage.OPENED
    return Debugged(facts=facts, investigation_id=case_id, stage=stage, onset=onset.step)


DEBUGGING = (
    Skill(
        name="rank_suspects", version=1, level=Level.COMPOSITE, about="What may have broken a run, by rank.",
        inputs=OneCase, outputs=Suspects, run=_suspects, parts=("case_facts",), before=(CASE_STORED,),
        after=(_RANKED,),
    ),
    Skill(
        name="read_tests", version=1, level=Level.COMPOSITE, about="Re-runs of a case, and which are still to be read.",
        inputs=OneCase, outputs=Tests, run=_tests, parts=("reruns",), before=(CASE_STORED,),
    ),
    Skill(
        name="weigh_proof", version=1, level=Level.COMPOSITE, about="What a case has proven, with its scope.",
        inputs=OneCase, outputs=Decision, run=_decision, parts=("case_facts",), before=(CASE_STORED,),
        after=(_PROOF,),
    ),
    Skill(
        name="proposed_fixes", version=1, level=Level.ATOMIC, about="What was proposed for a case, and who decided.",
        inputs=OneCase, outputs=Facts, run=_proposed, tools=("proposals",), before=(CASE_STORED,),
        after=(_FOLLOWS,),
    ),
    Skill(
        name="debug_run", version=1, level=Level.WORKFLOW,
        about="Have the debug loop look into a run, and say how far it has come: suspects, tests, verdict, proposal.",
        inputs=OfRun, outputs=Debugged, run=_debug, tools=("start_investigation",),
        parts=("find_onset", "rank_suspects", "read_tests", "weigh_proof", "proposed_fixes"),
        before=(RUN_STORED,), after=(FOUND, CASE_OF_RUN),
    ),
)  # fmt: skip
