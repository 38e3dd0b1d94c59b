"""A language model proposes: whole new texts of files, through the door, with a critique that must cite traces.

What cites no trace that exists is dropped. What it writes is checked like any other draft, against the surface and
earlier failures; where it fails, or the budget is spent, the deterministic operators propose instead and that is said.
Every answer is kept as it came: a run that was killed, or is replayed, reads it and asks nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.llm import Conversation, Door, system, user
from agents.llm.errors import ContextTooLong, ModelConfused, ModelRefused, ModelUnavailable
from contracts.errors import BudgetExceeded
from loops.evolve.declared import surface_of
from loops.evolve.failures import Finding
from loops.evolve.journal import Journal
from loops.evolve.proposer import Draft, Operators, Situation
from loops.evolve.surface import Files

_ORDER = (
    "You improve the scaffold of an agent. Read its files, why its episodes failed, and the lessons of earlier rounds. "
    "Propose one small change that should let it solve more tasks of any kind; never name a task. Answer with one JSON "
    'object: {"hypothesis": "...", "critique": [{"sentence": "...", "traces": ["id", ...]}], "files": {"path": '
    '"whole new text"}}. Cite only trace ids you were shown. Files you may write: '
)
_TRIES = 2


class Said(BaseModel):
    """A sentence of the critique with the traces it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sentence: str = Field(max_length=600)
    traces: tuple[str, ...] = Field(max_length=20)


class ModelDraft(BaseModel):
    """What the model answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hypothesis: str = Field(max_length=600)
    critique: tuple[Said, ...] = Field(default=(), max_length=10)
    files: dict[str, str] = Field(min_length=1, max_length=8)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`failed`: why there is no text."""

    model: str
    text: str = ""
    failed: str = ""


class Answers:
    """What a model said in each round. `door` None: only what it said before is known."""

    def __init__(self, journal: Journal, door: Door | None) -> None:
        self._journal, self._door = journal, door

    def of(self, number: int, attempt: int, conversation: Conversation) -> Answer | None:
        """None where it was not asked then and cannot be asked now."""
        key = f"{number}/{attempt}"
        if self._journal.get("said", key) is None and self._door is not None:
            self._journal.put("said", key, vars(self._asked(self._door, conversation)))
        known = self._journal.get("said", key)
        return None if known is None else Answer(**known)

    def _asked(self, door: Door, conversation: Conversation) -> Answer:
        try:
            return Answer(model=door.model_name, text=door.ask(conversation).messages[-1].text)
        except (ModelUnavailable, ModelRefused, ModelConfused, ContextTooLong, BudgetExceeded) as error:
            return Answer(model=door.model_name, failed=error.message)


class ModelProposer:
    """`barred` is what people found to fail: the model is told, and the operators are held to it."""

    name = "model"

    def __init__(self, answers: Answers, barred: Collection[str] = ()) -> None:
        self._answers = answers
        self._operators = Operators(barred)
        self._failed = "".join(f"\nTried in vain by people: {each}" for each in barred)

    def propose(self, situation: Situation, fresh: Callable[[Files], bool]) -> Draft | None:
        prompt, why = shown(situation) + self._failed, "nothing new was said"
        order = f"{_ORDER}{', '.join(surface_of(situation.files).editable)}."
        answer: Answer | None = None
        asked = ""
        for attempt in range(_TRIES):
            asked = f"{order}\n\n{prompt}"
            conversation = Conversation(messages=(system(order), user(prompt)))
            answer = self._answers.of(situation.number, attempt, conversation)
            if answer is None or answer.failed:
                why = answer.failed if answer else why
                break
            try:
                wish = read(answer.text)
            except ValidationError as error:
                why = "no answer fitted"
                prompt += f"\n\nYour answer did not fit: {error.errors()[0]['msg']}"
                continue
            files = {**situation.files, **wish.files}
            if fresh(files):
                return Draft(
                    files=files,
                    moves=tuple(f"write {name}" for name in sorted(wish.files)),
                    hypothesis=wish.hypothesis,
                    critique=cited(wish.critique, situation),
                    prompt=asked,
                    proposer=f"model {answer.model}",
                )
            prompt += "\n\nThat was tried before and failed, or touches what is not yours. Propose something else."
        draft = self._operators.propose(situation, fresh)
        if draft is None or answer is None:
            return draft
        said = f"{draft.hypothesis} (model {answer.model} did not propose: {why})"
        return replace(draft, hypothesis=said, prompt=asked)


def read(text: str) -> ModelDraft:
    """The object in an answer, whatever stands around it. Raises pydantic's ValidationError when there is none."""
    return ModelDraft.model_validate_json(text[text.find("{") : text.rfind("}") + 1])


def shown(situation: Situation) -> str:
    """Findings with trace ids, lessons, and all files."""
    findings = [f"- {each.sentence}: {', '.join(each.traces[:6])}" for each in situation.findings]
    files = [f"=== {name}\n{text}" for name, text in sorted(situation.files.items())]
    lessons = [f"- {each}" for each in situation.lessons]
    return "\n".join(["Failures:", *findings, "", "Lessons:", *lessons, "", "Files:", *files])


def cited(critique: tuple[Said, ...], situation: Situation) -> tuple[Finding, ...]:
    """The sentences that name at least one trace of the findings; other traces are left out."""
    known = {trace for finding in situation.findings for trace in finding.traces}
    kept = []
    for said in critique:
        traces = tuple(trace for trace in said.traces if trace in known)
        if traces:
            kept.append(Finding(cause="said by the model", sentence=said.sentence, traces=traces))
    return tuple(kept)
