"""The classifier loop: from a stated need to a classifier that a person deploys (R801-5.3).

Its cycle: choose the texts that judge, have them labelled, make a version, analyse its mistakes, let the analysis
propose the next one, and take it only where it is better and nowhere worse. All of it runs as pieces of work in child
processes; what the loop itself knows is what is written down in its case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from context_store import Store
from context_store.records import Amount, Effect, EffectRequest, EffectSize, NegativeResult, Proposal
from contracts.enums import EffectKind, EffectState, SignalStrength
from contracts.evidence import EvidenceRef
from loops.core import (
    Applied,
    AwaitsPerson,
    Charter,
    Conclusion,
    Link,
    LoopClass,
    Planned,
    Question,
    Request,
    Update,
    Verified,
)
from loops.pipelines.component import digest_of
from loops.quantify import plan
from loops.quantify.casebook import EVALUATION, LOOP, TUNING, CaseBook
from loops.quantify.measured import METRIC
from loops.quantify.need import Labeller, Need
from loops.quantify.optimiser import MAX_PROMPTS
from loops.quantify.plan import Facts, Step, next_step
from loops.quantify.proposing import propose_deployment

_CPU_S, _CPU_S_A_TEXT = 60.0, 0.05  # reserved for one piece of work; what is not used goes back
_CPU_S_A_LABEL = 0.3  # of a model; ten times as many seconds may pass
Json = Mapping[str, Any]


class ClassifierLoop:
    name = LOOP
    charter = Charter(
        loop_class=LoopClass.QUANTIFICATION,
        broken_links=(Link.MEASURE,),
        why_broken="whether a text is of the wanted kind is an expert's judgement, which no training measures",
        closes_at="a fixed labelled set of texts on which every version of the classifier is held against the last",
        signal=SignalStrength.HELD_OUT_SCORE,
    )

    def __init__(self, store: Store, stands: Callable[[str], str], clock: Callable[[], float] = time.time) -> None:
        """`stands`: hash of what is deployed under a name now, "" for nothing."""
        self._store = store
        self._stands = stands
        self._clock = clock

    def recall(self, case_id: str) -> Question:
        need = self._book(case_id).need()
        case = self._store.knowledge.investigation(case_id)
        return Question(text=f"classifier {need.name} {need.need}", project_id=case.project_id)

    def propose(self, case_id: str) -> Planned | Conclusion:
        book = self._book(case_id)
        step = next_step(self._facts(book))
        if isinstance(step, str):
            return Conclusion(reason=step)
        return Planned(requests=(self._request(book, step),), reason=step.reason)

    def _facts(self, book: CaseBook) -> Facts:
        need = book.need()
        return Facts(
            need=need, has_sample=book.sample() is not None, has_prompt=book.tuned() is not None,
            batches=book.batches(), labelled=tuple(book.labelled()), versions=book.versions(),
            deployed=self._deployed(need, book.case_id), has_final=book.final() is not None,
            failed=bool(book.failures()),
        )  # fmt: skip

    def _deployed(self, need: Need, case_id: str) -> bool:
        """By another case, before this one was opened: what happens elsewhere meanwhile changes no plan."""
        opened_at = self._store.knowledge.investigation(case_id).opened_at
        return any(
            each.body["name"] == need.name and each.body["option"] == "model" and each.at < opened_at
            for each in self._store.casework.of_loop(LOOP, "deployed")
            if each.case_id != case_id
        )

    def _request(self, book: CaseBook, step: Step) -> Request:
        payload = {"work": step.work, "arguments": dict(step.arguments)}
        effect = EffectRequest(
            key=f"{book.case_id}:{step.work}:{digest_of([payload])[:16]}", kind=EffectKind.CASE_WORK, payload=payload,
            investigation_id=book.case_id, actor=f"loop:{self.name}",
        )  # fmt: skip
        cpu_s = _CPU_S + _CPU_S_A_TEXT * book.need_body()["num_texts"]
        if step.work in (plan.TUNE, plan.LABEL):
            cpu_s += _CPU_S_A_LABEL * _num_asked(book, step)
        return Request(effect=effect, cost=Amount(cpu_s=cpu_s))

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        """Raises AwaitsPerson while persons have not labelled what only they can label."""
        book = self._book(case_id)
        said = [self._measured(book, effect) for effect in effects]
        if missing := book.missing():
            num = sum(map(len, missing.values()))
            raise AwaitsPerson(
                f"{num} texts of {book.need().name} wait for labels of a person",
                remedy=f"label them on the page Classifiers, or: lathe classifier label {case_id} FILE",
            )
        return "; ".join(said)

    def _measured(self, book: CaseBook, effect: Effect) -> str:
        work, arguments = str(effect.payload["work"]), effect.payload["arguments"]
        if effect.state is not EffectState.DONE:
            return self._failed(book, work, arguments, effect.message)
        answer = dict(effect.result["answer"])
        self._tell_persons(book, answer.pop("batches", {}))
        match work:
            case plan.SAMPLE:
                book.put_sample(answer)
                return f"{len(answer['evaluation'])} texts judge, {len(answer['held_out'])} are held out"
            case plan.TUNE:
                book.put_tuned(answer)
                return f"{answer['num_tried']} prompts were tried, {str(answer['stands'])[:12]} stands"
            case plan.LABEL:
                book.put_labelled(str(answer["batch"]), answer)
                return f"{answer['model']} labelled {answer['batch']} {answer['stopped']}".strip()
            case plan.DEVELOP:
                return self._new_version(book, answer)
            case plan.FINAL:
                book.put_final(answer)
                return f"version {answer['version']} was held against the texts that no version was tuned to"
        return f"{work} is done"

    def _tell_persons(self, book: CaseBook, batches: Mapping[str, Json]) -> None:
        """Write down what is asked; what waits for persons is told once."""
        asked = [batches[name] for name in book.put_batches(batches)]
        num = sum(len(each["items"]) for each in asked if Labeller.PERSON.value in each["labellers"])
        if num:
            text = f"{num} texts of the classifier {book.need().name} wait for a person's label"
            self._store.activity.publish("approval", text, investigation_id=book.case_id)

    def _failed(self, book: CaseBook, work: str, arguments: Json, message: str) -> str:
        """A version that cannot be made is an answer; any other work that fails ends the case."""
        if work != plan.DEVELOP:
            book.put_failure(work, message)
            return f"{work} failed: {message}"
        revision, number = arguments["revision"], arguments["version"]
        decision = {"is_taken": False, "reason": message, "change": None, "worse": [], "blind": [], "tests": []}
        book.put_version({"number": number, "revision": revision, "error": message, "decision": decision})
        self._note(book, f"version {number}", revision["why"], message, "failed", None)
        return f"version {number} could not be made: {message}"

    def _new_version(self, book: CaseBook, answer: Json) -> str:
        book.put_version(answer)
        decision, number = answer["decision"], answer["number"]
        if decision["is_taken"]:
            return f"version {number} stands: {decision['reason']}"
        reason = "regression" if decision["worse"] else "no_gain"
        change = decision["change"]
        size = None if change is None else EffectSize(
            what=METRIC, value=change["value"], lo=change["low"], hi=change["high"], unit="higher is better"
        )  # fmt: skip
        self._note(book, f"version {number}", answer["revision"]["why"], decision["reason"], reason, size)
        return f"version {number} is not taken: {decision['reason']}"

    def _note(
        self, book: CaseBook, what: str, tried: str, observed: str, reason_class: str, size: EffectSize | None
    ) -> None:
        """What did not help is a negative result."""
        need, body = book.need(), book.need_body()
        self._store.negatives.add(
            NegativeResult(
                claim=f"classifier {need.name}: {tried} does not help",
                intervention=f"{what}: {tried}",
                context={"classifier": need.name, "documents_sha256": str(body["documents_sha256"])},
                expected="a higher score and no slice worse", observed=observed, reason_class=reason_class,
                reason=observed, evidence=(_case(book.case_id),), reopen_if="other documents, or many more labels",
                investigation_id=book.case_id, actor=f"loop:{self.name}", scale=f"{body['num_texts']} texts",
                data=str(body["documents_sha256"]), observed_effect=size,
            )
        )  # fmt: skip

    def update(self, case_id: str, stopped: str) -> Update:
        book = self._book(case_id)
        standing = book.standing()
        if standing is None or (standing["number"] == 0 and not stopped):
            reason = stopped or _why_nothing(book)
            self._note(book, "the whole case", "a classifier for this need", reason, "not_reached", None)
            return Update(statement=f"nothing is proposed: {reason}", evidence=(_case(case_id),))
        if stopped or book.final() is None:
            reason = stopped or "it was not held against new texts"
            self._note(book, "the whole case", "a deployment", reason, "stopped", None)
            return Update(statement=f"nothing is proposed: {reason}", evidence=(_case(case_id),))
        proposal = propose_deployment(self._store, book, self._stands(book.need().name))
        return Update(statement=f"proposes: {proposal.title}", evidence=(_case(case_id),), proposal_id=proposal.id)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """What is deployed was read back and scored by the effect itself; here it is written down for later cases."""
        book, effect, proposal = self._book(case_id), applied.effect, applied.proposal
        if effect is None or effect.state is not EffectState.DONE:
            why = self._why_declined(proposal) if effect is None else effect.message
            self._note(book, "the whole case", proposal.title, why, "declined", None)
            return Verified(sentence=f"not deployed: {why}")
        self._store.casework.put(case_id, "deployed", "deployed", dict(proposal.payload), self._clock())
        return Verified(sentence=f"deployed: {proposal.title}")

    def _why_declined(self, proposal: Proposal) -> str:
        return (
            f"{proposal.state.value} by {proposal.decided_by}: {proposal.comment}" if proposal.decided_by else "expired"
        )

    def _book(self, case_id: str) -> CaseBook:
        return CaseBook(self._store, case_id, self._clock())


def _num_asked(book: CaseBook, step: Step) -> int:
    """Upper estimate of the texts that a model labels in a step."""
    batches = book.batches()
    if step.work == plan.LABEL:
        return len(batches[step.arguments["batch"]]["items"])
    return MAX_PROMPTS * sum(len(batches[name]["items"]) for name in (EVALUATION, TUNING) if name in batches)


def _why_nothing(book: CaseBook) -> str:
    if failures := book.failures():
        return str(failures[0]["message"])
    versions = book.versions()
    return str(versions[-1]["decision"]["reason"]) if versions else "nothing was measured"


def _case(case_id: str) -> EvidenceRef:
    return EvidenceRef(kind="investigation", id=case_id)
