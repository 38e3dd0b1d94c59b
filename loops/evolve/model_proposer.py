"""A language model proposes: whole new texts of files, through the door, with a critique that must cite traces.

What cites no trace that exists is dropped. What it writes is checked like any other draft, against the surface and
earlier failures; where it fails, or the budget is spent, the deterministic operators propose instead and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.llm import Conversation, Door, system, user
from agents.llm.errors import ContextTooLong, ModelConfused, ModelRefused, ModelUnavailable
from contracts.errors import BudgetExceeded
from loops.evolve.declared import surface_of
from loops.evolve.failures import Finding
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


class ModelProposer:
    """`name` is that of the model; `barred` is what people found to fail: it is told, and held to by the operators."""

    def __init__(self, door: Door, barred: Collection[str] = ()) -> None:
        self._door = door
        self._operators = Operators(barred)
        self._failed = "".join(f"\nTried in vain by people: {each}" for each in barred)
        self.name = f"model {door.model_name}"

    def propose(self, situation: Situation, fresh: Callable[[Files], bool]) -> Draft | None:
        prompt, why = shown(situation) + self._failed, "nothing new was said"
        order = f"{_ORDER}{', '.join(surface_of(situation.files).editable)}."
        for _ in range(_TRIES):
            try:
                said = self._door.ask(Conversation(messages=(system(order), user(prompt)))).messages[-1].text
                answer = ModelDraft.model_validate_json(said[said.find("{") : said.rfind("}") + 1])
            except (ModelUnavailable, ModelRefused, ModelConfused, ContextTooLong, BudgetExceeded) as error:
                why = error.message
                break
            except ValidationError as error:
                why = "no answer fitted"
                prompt += f"\n\nYour answer did not fit: {error.errors()[0]['msg']}"
                continue
            files = {**situation.files, **answer.files}
            if fresh(files):
                return Draft(
                    files=files,
                    moves=tuple(f"write {name}" for name in sorted(answer.files)),
                    hypothesis=answer.hypothesis,
                    critique=cited(answer.critique, situation),
                    prompt=f"{order}\n\n{prompt}",
                    proposer=self.name,
                )
            prompt += "\n\nThat was tried before and failed, or touches what is not yours. Propose something else."
        draft = self._operators.propose(situation, fresh)
        return draft and replace(draft, hypothesis=f"{draft.hypothesis} ({self.name} did not propose: {why})")


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
