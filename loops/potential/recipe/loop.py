"""The recipe loop: changed recipes as pilots, halved in rungs, and a decision that a person takes.

propose     the pilots of the present rung that are not trained yet
execute     each in a process of its own: train, tune by the same tiny SFT, score
measure     keep what it scored and the problems it showed
update      the decision record: continue, change or stop, always with both curves of the run; what did not help is
            remembered, so that no later pilot tries it again
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from context_store import Store
from context_store.records import (
    Effect,
    EffectRequest,
    EffectSize,
    Evidence,
    NegativeResult,
)
from contracts.enums import CauseKind, EffectKind, EffectState, Scope, SignalStrength
from contracts.evidence import EvidenceRef
from loops.core import Applied, Charter, Conclusion, Link, LoopClass, Planned, Question, Request, Update, Verified
from loops.potential.comparison import newest_reading
from loops.potential.recipe.decision import Choice, Decision, Finalist, decide, finalists
from loops.potential.recipe.effects import proposal_of
from loops.potential.recipe.plan import LOOP, Pilot, RecipePlan, pilots, price, survivors
from loops.potential.recipe.proposer import TRIED
from loops.potential.recipe.report import markdown

ACTOR = f"loop:{LOOP}"
AT_ONCE = 6
Pilots = dict[str, dict[int, dict[str, Any]]]


class RecipeLoop:
    """See the module and `loops.core.Loop`."""

    name = LOOP
    charter = Charter(
        loop_class=LoopClass.POTENTIAL,
        broken_links=(Link.EXECUTE, Link.MEASURE),
        why_broken="a full training of each recipe is out of reach, and what it would become is readable from no "
        "single score",
        closes_at="short pilots on the embedded trainer with paired seeds, judged after the same tiny SFT, and a "
        "person's decision",
        signal=SignalStrength.HELD_OUT_SCORE,
    )

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def recall(self, case_id: str) -> Question:
        plan, case = self._plan(case_id), self._store.knowledge.investigation(case_id)
        changes = "; ".join(each.name for each in plan.candidates)
        return Question(text=f"recipe change: {changes}", project_id=case.project_id)

    def propose(self, case_id: str) -> Planned | Conclusion:
        plan, done = self._plan(case_id), self._done(case_id)
        rung, names = self._rung(plan, self._measured(case_id), done)
        missing = [pilot for pilot in pilots(plan, rung, names) if pilot.key not in done]
        if not missing or len(names) < 2:
            return Conclusion(
                reason=f"the pilots of {rung + 1} rung(s) are trained; left: {', '.join(names) or 'none'}"
            )
        requests = tuple(_request(case_id, plan, pilot) for pilot in missing[:AT_ONCE])
        told = f"rung {rung + 1} of {plan.num_rungs}, {plan.steps(rung)} steps: {', '.join(names)}"
        return Planned(requests=requests, reason=f"{told}; {len(missing)} pilots are left")

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        sentences = []
        for effect in effects:
            pilot = Pilot(**effect.payload["arguments"])
            if effect.state is EffectState.DONE:
                body = dict(effect.result["answer"])
                self._store.casework.put(case_id, "pilot", pilot.key, body, self._clock())
                told = f", {', '.join(body['problems'])}" if body["problems"] else ""
                sentences.append(f"{pilot.candidate} seed {pilot.seed}: {body['tiny']:.1f} after SFT{told}")
            else:
                self._store.casework.put(case_id, "failed", pilot.key, {"message": effect.message}, self._clock())
                sentences.append(f"{pilot.candidate} seed {pilot.seed}: {effect.message}")
        return "; ".join(sentences)

    def update(self, case_id: str, stopped: str) -> Update:
        plan = self._plan(case_id)
        measured = self._measured(case_id)
        last = measured.get(plan.num_rungs - 1, {})
        reading = self._reading(plan)
        decision = decide(reading, finalists(last))
        evidence = self._evidence(plan)
        body = self._record(plan, measured, reading, decision)
        self._store.casework.put(case_id, "decision", "decision", body, self._clock())
        self._store.knowledge.put_report(case_id, markdown(body))
        self._remember(case_id, plan, decision, measured, evidence)
        self._store.knowledge.set_investigation(
            case_id,
            scope=Scope.EMBEDDED_PROXY,
            statement=decision.sentence,
            cause_kind=CauseKind.NONE,
        )
        told = f"{decision.sentence}; {stopped}" if stopped else decision.sentence
        if stopped:
            return Update(statement=told, evidence=evidence)
        proposal = self._store.proposals.put(proposal_of(self._store, case_id, plan, decision, evidence))
        return Update(statement=told, evidence=evidence, proposal_id=proposal.id)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """What the person decided; whether the run becomes better is the potential loop's to measure."""
        proposal = applied.proposal
        who = f"{proposal.decided_by or 'nobody'}: {proposal.comment}".rstrip(": ")
        if applied.effect is None or applied.effect.state is not EffectState.DONE:
            why = f"declined by {who}" if applied.effect is None else applied.effect.message
            self._decline(case_id, proposal.title, why, proposal.evidence)
            return Verified(sentence=f"'{proposal.title}' was not carried out: {why}")
        run, step = (applied.effect.result.get(name, "") for name in ("run_id", "last_step"))
        if proposal.kind is EffectKind.STOP_RUN:
            return Verified(sentence=f"decided by {who}; run {run} ends at step {step}")
        return Verified(sentence=f"decided by {who}; run {run} is at step {step}: lathe potential {run} measures it")

    def _plan(self, case_id: str) -> RecipePlan:
        return RecipePlan.from_json(self._store.casework.get(case_id, "plan", "plan").body)

    def _done(self, case_id: str) -> set[str]:
        return {each.key for kind in ("pilot", "failed") for each in self._store.casework.list(case_id, kind)}

    def _measured(self, case_id: str) -> dict[int, Pilots]:
        """Bodies by rung, candidate and seed."""
        found: dict[int, Pilots] = {}
        for each in self._store.casework.list(case_id, "pilot"):
            body = dict(each.body)
            found.setdefault(body["rung"], {}).setdefault(body["candidate"], {})[body["seed"]] = body
        return found

    def _rung(self, plan: RecipePlan, measured: Mapping[int, Pilots], done: set[str]) -> tuple[int, list[str]]:
        """The first rung with something left to train, or the last one, and who is in it."""
        names = [each.name for each in plan.candidates]
        for rung in range(plan.num_rungs):
            is_last = rung == plan.num_rungs - 1
            if is_last or any(pilot.key not in done for pilot in pilots(plan, rung, names)):
                return rung, names
            scores = {
                name: {seed: body["tiny"] for seed, body in by_seed.items()}
                for name, by_seed in measured.get(rung, {}).items()
            }
            names = survivors(plan, rung, scores)
        raise AssertionError("a plan has at least one rung")

    def _reading(self, plan: RecipePlan) -> Mapping[str, Any]:
        found = self._store.casework.list(plan.reading_case, "reading") if plan.reading_case else []
        return found[-1].body if found else newest_reading(self._store, plan.run_id)[1]

    def _evidence(self, plan: RecipePlan) -> Evidence:
        """The run, its reading, what was proven of it, and the negative results for which changes were left out."""
        own = [text for each in plan.candidates for text in each.evidence]
        texts = [f"run:{plan.run_id}", *own, *(f"negative:{each}" for each in plan.left_out_ids)]
        return tuple(EvidenceRef.parse(text) for text in dict.fromkeys(texts))

    def _record(
        self,
        plan: RecipePlan,
        measured: Mapping[int, Pilots],
        reading: Mapping[str, Any],
        decision: Decision,
    ) -> dict[str, Any]:
        """What whoever decides is shown: both curves, every pilot, and the problems found, removed and carried over."""
        return {
            "choice": decision.choice.value,
            "candidate": decision.candidate,
            "sentence": decision.sentence,
            "run_id": plan.run_id,
            "curves": {key: reading[key] for key in ("steps", "tokens", "base", "sft")},
            "reading_case": plan.reading_case,
            "verdict": dict(reading["verdict"]),
            "left_out": list(plan.left_out),
            "candidates": [asdict(each) for each in plan.candidates],
            "finalists": [asdict(each) for each in decision.finalists],
            "rungs": [[asdict(each) for each in finalists(measured[rung])] for rung in sorted(measured)],
            "pilots": [body for rung in measured.values() for seeds in rung.values() for body in seeds.values()],
            "scope": "pilots on the embedded trainer: they find problems, they do not predict the run's scores",
        }

    def _remember(
        self,
        case_id: str,
        plan: RecipePlan,
        decision: Decision,
        measured: Mapping[int, Pilots],
        evidence: Evidence,
    ) -> None:
        """Each change that was not chosen, with its paired difference where it came that far."""
        last = {each.name: each for each in decision.finalists}
        tried = {name for rung in measured.values() for name in rung}
        for candidate in plan.candidates[1:]:
            if candidate.name != decision.candidate and candidate.name in tried:
                self._store.negatives.add(
                    _not_chosen(case_id, plan, candidate.name, last.get(candidate.name), evidence)
                )
        if not tried or decision.choice is not Choice.CHANGE:
            failed = [str(each.body["message"]) for each in self._store.casework.list(case_id, "failed")]
            self._decline(case_id, "a change of the recipe", failed[0] if failed else decision.sentence, evidence)

    def _decline(self, case_id: str, what: str, why: str, evidence: Evidence) -> None:
        self._store.negatives.add(
            NegativeResult(
                claim=f"{what} is called for",
                intervention="pilots with paired seeds, and a person's decision",
                context={},
                expected="a better recipe",
                observed=why,
                reason_class="not_called_for",
                reason=why,
                evidence=evidence,
                reopen_if="other changes, longer pilots or more seeds",
                investigation_id=case_id,
                actor=ACTOR,
            )
        )


def _not_chosen(case_id: str, plan: RecipePlan, name: str, last: Finalist | None, evidence: Evidence) -> NegativeResult:
    effect, told = None, "dropped in an earlier rung: others were better after tiny SFT"
    if last is not None:
        difference = last.difference
        told = f"{difference.mean:+.1f} points after tiny SFT ({difference.low:+.1f} to {difference.high:+.1f})"
        effect = EffectSize(
            what="score after tiny SFT", value=difference.mean, lo=difference.low, hi=difference.high, unit="points"
        )
    return NegativeResult(
        claim=f"the recipe of {plan.run_id} becomes better by {name}",
        intervention=f"pilots of up to {plan.steps(plan.num_rungs - 1)} steps, {len(plan.seeds)} paired seeds a rung",
        context={TRIED: name, **plan.candidate(name).overrides},
        expected="more points after tiny SFT than the unchanged recipe",
        observed=told,
        reason_class="did_not_help",
        reason=told,
        evidence=evidence,
        reopen_if="longer pilots, more seeds, or another model size",
        investigation_id=case_id,
        actor=ACTOR,
        observed_effect=effect,
    )


def _request(case_id: str, plan: RecipePlan, pilot: Pilot) -> Request:
    effect = EffectRequest(
        key=f"{case_id}:pilot:{pilot.key}",
        kind=EffectKind.CASE_WORK,
        payload={"work": "pilot", "arguments": asdict(pilot)},
        investigation_id=case_id,
        actor=ACTOR,
    )
    return Request(effect=effect, cost=price(plan, pilot.rung))
