"""The classifier loop: from a stated need to a classifier that a person deploys (R801-5.3).

Its cycle: choose the texts that judge, have them labelled, make a version, analyse its mistakes, let the analysis
propose the next one, and take it only where it is better and nowhere worse. All of it runs as pieces of work in child
processes; what the loop itself knows is what is written down in its case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from context_store import Store
from context_store.records import Effect, EffectRequest, EffectSize, NegativeResult, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, SignalStrength
from contracts.errors import LatheError
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
    Workplace,
)
from loops.pipelines.component import digest_of
from loops.quantify import plan
from loops.quantify.casebook import LOOP, CaseBook
from loops.quantify.final import look_at_held_out
from loops.quantify.limits import price
from loops.quantify.measured import METRIC
from loops.quantify.need import Labeller
from loops.quantify.plan import Facts, Step, next_step
from loops.quantify.proposing import choose, propose_deployment, why_not

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

    def __init__(
        self, store: Store, cases: Path, stands: Callable[[str], str], clock: Callable[[], float] = time.time
    ) -> None:
        """`cases` holds a folder for each case. `stands`: hash of what is deployed under a name now, "" for nothing."""
        self._store = store
        self._cases = cases
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
            deployed=bool(book.base()), has_final=book.final() is not None,
            failed=bool(book.failures()),
        )  # fmt: skip

    def _request(self, book: CaseBook, step: Step) -> Request:
        payload = {"work": step.work, "arguments": dict(step.arguments)}
        effect = EffectRequest(
            key=f"{book.case_id}:{step.work}:{digest_of([payload])[:16]}", kind=EffectKind.CASE_WORK, payload=payload,
            investigation_id=book.case_id, actor=f"loop:{self.name}",
        )  # fmt: skip
        return Request(effect=effect, cost=price(book, step))

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
            return self._failed(book, work, arguments, effect.message or "the time was up before it was done")
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
        change = decision["change"]
        size = None if change is None else EffectSize(
            what=METRIC, value=change["value"], lo=change["low"], hi=change["high"], unit="higher is better"
        )  # fmt: skip
        self._note(book, f"version {number}", answer["revision"]["why"], decision["reason"], _class_of(decision), size)
        return f"version {number} is not taken: {decision['reason']}"

    def _note(
        self, book: CaseBook, what: str, tried: str, observed: str, reason_class: str, size: EffectSize | None
    ) -> None:
        """What did not help is a negative result."""
        need, body = book.need(), book.need_body()
        helps = "is not shown to help" if reason_class == "inconclusive" else "does not help"
        self._store.negatives.add(
            NegativeResult(
                claim=f"classifier {need.name}: {tried} {helps}",
                intervention=f"{what}: {tried}",
                context={"classifier": need.name, "documents_sha256": str(body["documents_sha256"])},
                expected="a higher score and no slice worse", observed=observed, reason_class=reason_class,
                reason=observed, evidence=(_case(book.case_id),), reopen_if="other documents, or many more labels",
                investigation_id=book.case_id, actor=f"loop:{self.name}", scale=f"{body['num_texts']} texts",
                data=str(body["documents_sha256"]), observed_effect=size,
            )
        )  # fmt: skip

    def update(self, case_id: str, stopped: str) -> Update:
        """Proposes what stands, also where a cap ended the search: then it is held against new texts here."""
        book = self._book(case_id)
        final = book.final() or self._look_at_last(book)
        option = None if final is None else choose(book.need(), final)
        if final is None or option is None:
            return self._nothing(book, stopped or _why_nothing(book) or why_not(book.need(), final))
        if self._stands(book.need().name) != book.base_sha256():
            return self._nothing(book, "another version was deployed meanwhile, which this one was not held against")
        if stopped:
            self._note(book, "the whole case", "further versions", stopped, "stopped", None)
        proposal = propose_deployment(self._store, book, option)
        statement = f"proposes: {proposal.title}" + (f"; {stopped}" if stopped else "")
        return Update(statement=statement, evidence=(_case(case_id),), proposal_id=proposal.id)

    def _look_at_last(self, book: CaseBook) -> Json | None:
        """As the work `final`, for a case that was ended before: it scores few texts. None where there is nothing to be
        proposed, or it may not be."""
        may = self._store.policies.level(self.name).includes(AutonomyLevel.PROPOSE)
        standing = book.standing()
        if not may or standing is None or (standing["number"] == 0 and not book.standing_prompt_sha256()):
            return None
        place = Workplace(
            store=self._store, case_id=book.case_id, folder=self._cases / book.case_id, tell=lambda text: None,
            door=lambda: None,
        )  # fmt: skip
        try:
            book.put_final(look_at_held_out(place, {}))
        except LatheError as error:
            book.put_failure(plan.FINAL, error.message)
        return book.final()

    def _nothing(self, book: CaseBook, reason: str) -> Update:
        self._note(book, "the whole case", "a deployment", reason, "not_reached", None)
        return Update(statement=f"nothing is proposed: {reason}", evidence=(_case(book.case_id),))

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


def _class_of(decision: Json) -> str:
    """Of a version that was not taken: worse somewhere, no better at all, or not told apart."""
    if decision["worse"]:
        return "regression"
    change = decision["change"]
    return "no_gain" if change is None or change["high"] <= 0.0 else "inconclusive"


def _why_nothing(book: CaseBook) -> str:
    """ "" where versions stand."""
    if failures := book.failures():
        return str(failures[0]["message"])
    if (standing := book.standing()) is not None and standing["number"]:
        return ""
    versions = book.versions()
    return str(versions[-1]["decision"]["reason"]) if versions else "nothing was measured"


def _case(case_id: str) -> EvidenceRef:
    return EvidenceRef(kind="investigation", id=case_id)
