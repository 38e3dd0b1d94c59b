"""The potential loop: what a run's checkpoints become after the same light SFT, beside what they score today.

propose     the checkpoints and seeds that are not measured yet, within the case's budget
execute     each in a process of its own: score the base, or tune and score
measure     keep every score with its raw outputs
update      verdict, learnability, best protocol and ranks; the reading that the measurements exclude is remembered
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from context_store import Store
from context_store.canonical import content_hash
from context_store.records import Effect, EffectRequest, EffectSize, NegativeResult
from contracts.enums import CauseKind, EffectKind, EffectState, Scope, SignalStrength
from contracts.enums import Verdict as StoredVerdict
from contracts.evidence import EvidenceRef
from loops.core import Applied, Charter, Conclusion, Link, LoopClass, Planned, Question, Request, Update, Verified
from loops.potential.plan import LOOP, PotentialPlan, Unit, price, units
from loops.potential.reading import reading
from loops.potential.report import markdown
from loops.potential.verdicts import Verdict

ACTOR = f"loop:{LOOP}"
AT_ONCE = 6
_REOPEN = "other tasks, more seeds, or checkpoints beyond these"

# What each verdict excludes: the claim that a reader of the base score alone would have made.
_EXCLUDED = {
    Verdict.FALSE_PLATEAU: ("the run no longer builds useful ability", "base_score_misleads"),
    Verdict.FALSE_DEGRADATION: ("the run is getting worse", "base_score_misleads"),
    Verdict.OVERTRAINING: ("the run still builds useful ability", "base_score_misleads"),
    Verdict.TRUE_PLATEAU: ("the run still gains as much as the margin", "not_seen"),
    Verdict.TRUE_DROP: ("the run's ability is unharmed", "not_seen"),
    Verdict.GROWTH: ("the run has reached a plateau", "not_seen"),
    Verdict.INCONCLUSIVE: ("these measurements can tell whether the run still gains", "no_power"),
}


class PotentialLoop:
    """See the module and `loops.core.Loop`."""

    name = LOOP
    charter = Charter(
        loop_class=LoopClass.POTENTIAL,
        broken_links=(Link.MEASURE, Link.EXECUTE),
        why_broken="what a checkpoint can become is readable from no single score, and a full post-training of each "
        "checkpoint is out of reach",
        closes_at="a light SFT that is the same for every checkpoint, repeated over seeds",
        signal=SignalStrength.HELD_OUT_SCORE,
    )

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def recall(self, case_id: str) -> Question:
        case = self._store.knowledge.investigation(case_id)
        return Question(text=f"potential of run {case.run_id}: plateau, degradation, SFT", project_id=case.project_id)

    def propose(self, case_id: str) -> Planned | Conclusion:
        plan = self._plan(case_id)
        known = self._known(case_id)
        missing = [unit for unit in units(plan) if unit.key not in known]
        if not missing:
            return Conclusion(reason=f"{len(plan.steps)} checkpoints are measured with {len(plan.seeds)} seeds each")
        cost = price(plan)
        chosen = missing[:AT_ONCE]
        requests = tuple(Request(effect=_effect(case_id, unit), cost=cost) for unit in chosen)
        return Planned(requests=requests, reason=f"measure {_told(chosen)}; {len(missing)} pieces are left")

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        sentences = []
        for effect in effects:
            unit = Unit(**effect.payload["arguments"])
            if effect.state is EffectState.DONE:
                answer = dict(effect.result["answer"])
                self._store.casework.put(case_id, unit.work, unit.key, answer, self._clock())
                sentences.append(f"step {unit.step}{_of(unit)}: {answer['score']:.1f}")
            else:
                self._store.casework.put(case_id, "failed", unit.key, {"message": effect.message}, self._clock())
                sentences.append(f"step {unit.step}{_of(unit)}: {effect.message}")
        return "; ".join(sentences)

    def update(self, case_id: str, stopped: str) -> Update:
        plan = self._plan(case_id)
        found = reading(self._bodies(case_id, "base"), self._bodies(case_id, "tune"))
        if found is None:
            return self._nothing(case_id, plan, stopped)
        key = content_hash(sorted(self._known(case_id)))[:16]
        self._store.casework.put(case_id, "reading", key, {**found, "run_id": plan.run_id}, self._clock())
        verdict = Verdict(found["verdict"]["verdict"])
        evidence = self._evidence(case_id, plan)
        self._remember(case_id, plan, found, evidence)
        self._store.knowledge.put_report(case_id, markdown(plan, found))
        self._close(case_id, verdict, found["verdict"]["sentence"])
        told = f"{verdict.value.replace('_', ' ')}: {found['verdict']['sentence']}"
        return Update(statement=f"{told}; {stopped}" if stopped else told, evidence=evidence)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """The loop proposes nothing: what follows from a reading is the recipe loop's or a person's to decide."""
        return Verified(sentence=f"'{applied.proposal.title}' was decided outside this loop")

    def _plan(self, case_id: str) -> PotentialPlan:
        return PotentialPlan.from_json(dict(self._store.casework.get(case_id, "plan", "plan").body))

    def _known(self, case_id: str) -> set[str]:
        kinds = ("base", "tune", "failed")
        return {each.key for kind in kinds for each in self._store.casework.list(case_id, kind)}

    def _bodies(self, case_id: str, kind: str) -> list[dict[str, Any]]:
        return [dict(each.body) for each in self._store.casework.list(case_id, kind)]

    def _evidence(self, case_id: str, plan: PotentialPlan) -> tuple[EvidenceRef, ...]:
        scores = [
            score
            for score in self._store.evals.list(run_id=plan.run_id, benchmark="potential_suite")
            if f"/{case_id}/" in score.raw
        ]
        return (EvidenceRef(kind="run", id=plan.run_id), *(EvidenceRef(kind="score", id=str(s.id)) for s in scores))

    def _close(self, case_id: str, verdict: Verdict, sentence: str) -> None:
        unclear = verdict is Verdict.INCONCLUSIVE
        self._store.knowledge.set_investigation(
            case_id,
            verdict=StoredVerdict.CANNOT_TELL if unclear else None,  # the words of verdicts on causes fit no other
            scope=Scope.OBSERVED,
            statement=f"{verdict.value.replace('_', ' ')}: {sentence}",
            cause_kind=CauseKind.NONE,
        )

    def _remember(
        self, case_id: str, plan: PotentialPlan, found: dict[str, Any], evidence: tuple[EvidenceRef, ...]
    ) -> None:
        """The claim that the measurements exclude, so that nobody makes it again from the base score alone."""
        verdict = Verdict(found["verdict"]["verdict"])
        claim, reason_class = _EXCLUDED[verdict]
        sft, base = found["verdict"]["sft"], found["verdict"]["base"]
        steps = f"steps {found['steps'][0]} to {found['steps'][-1]}"
        self._store.negatives.add(
            NegativeResult(
                claim=f"{claim} ({steps} of {plan.run_id})",
                intervention=f"tiny SFT {plan.sft.digest[:12]} of {len(found['steps'])} checkpoints, "
                f"{len(found['seeds'])} seeds each",
                context={
                    "verdict": verdict.value,
                    "sft": plan.sft.digest[:12],
                    "base_change": round(base["points"], 3),
                },
                expected=claim,
                observed=found["verdict"]["sentence"],
                reason_class=reason_class,
                reason=found["verdict"]["sentence"],
                evidence=evidence,
                reopen_if=_REOPEN,
                investigation_id=case_id,
                actor=ACTOR,
                observed_effect=EffectSize(
                    what="score after tiny SFT", value=sft["points"], lo=sft["low"], hi=sft["high"], unit="points"
                ),
            )
        )

    def _nothing(self, case_id: str, plan: PotentialPlan, stopped: str) -> Update:
        failed = self._bodies(case_id, "failed")
        why = failed[0]["message"] if failed else stopped or "too few checkpoints and seeds"
        statement = f"the potential of {plan.run_id} could not be measured: {why}"
        evidence = (EvidenceRef(kind="run", id=plan.run_id),)
        self._store.negatives.add(
            NegativeResult(
                claim=f"the potential of {plan.run_id} can be measured with this budget",
                intervention=f"tiny SFT of checkpoints at steps {', '.join(map(str, plan.steps))}",
                context={},
                expected="two checkpoints with all seeds",
                observed=statement,
                reason_class="not_measured",
                reason=why,
                evidence=evidence,
                reopen_if="the budget or what failed changes",
                investigation_id=case_id,
                actor=ACTOR,
            )
        )
        self._close(case_id, Verdict.INCONCLUSIVE, statement)
        return Update(statement=statement, evidence=evidence)


def _effect(case_id: str, unit: Unit) -> EffectRequest:
    arguments = {"step": unit.step} if unit.seed is None else {"step": unit.step, "seed": unit.seed}
    return EffectRequest(
        key=f"{case_id}:{unit.work}:{unit.key}",
        kind=EffectKind.CASE_WORK,
        payload={"work": unit.work, "arguments": arguments},
        investigation_id=case_id,
        actor=ACTOR,
    )


def _of(unit: Unit) -> str:
    return " base" if unit.seed is None else f" after SFT with seed {unit.seed}"


def _told(chosen: Sequence[Unit]) -> str:
    return ", ".join(f"step {unit.step}{_of(unit)}" for unit in chosen)
