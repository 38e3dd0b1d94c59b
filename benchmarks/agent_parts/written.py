"""Written questions, and how an answer to one is graded: by what it cites. The form: `agent_questions/README.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agents.chat import Answers, ChatContext
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef


class Over(StrEnum):
    """The store that is asked."""

    INCIDENTS = "incidents"
    DEMO = "demo"


class Written(BaseModel):
    """`evidence`: names, of which a right answer cites at least one. `unknown`: the store cannot answer it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    over: Over
    question: str = Field(min_length=1)
    evidence: tuple[str, ...] = ()
    unknown: bool = False

    @model_validator(mode="after")
    def _graded_one_way(self) -> Self:
        if self.unknown == bool(self.evidence):
            raise ValueError("give `evidence`, or `unknown`: true")
        return self


@dataclass(frozen=True, kw_only=True)
class Graded:
    """`first`: the first statement alone was right already."""

    question: str
    unknown: bool
    right: bool
    first: bool
    answer: str


class World(Protocol):
    """A store and the names of its evidence. `first_only`: later statements of an answer do not count."""

    first_only: bool

    def filled(self, text: str) -> str:
        """With the names of what this store holds in the place of `{name}`."""
        ...

    def is_named(self, ref: EvidenceRef, name: str) -> bool:
        """Whether `name` means what `ref` points to. Raises UserInputError for what is no name."""
        ...


def read_questions(path: Path) -> tuple[Written, ...]:
    """Raises UserInputError for a file that is none of questions."""
    try:
        return tuple(_FILE.validate_json(path.read_text()))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        remedy = "write it as benchmarks/agent_questions/README.md says"
        raise UserInputError(f"{path}: {where}: {first['msg']}", remedy=remedy) from error


_FILE = TypeAdapter(list[Written])


def grade(world: World, brain: Answers, questions: Sequence[Written]) -> Iterator[Graded]:
    """Every question in a thread of its own."""
    for number, each in enumerate(questions):
        question = world.filled(each.question)
        names = [world.filled(name) for name in each.evidence]
        answer = brain.answer(question, ChatContext(thread_id=f"question-{number}"))
        hits = [any(world.is_named(ref, name) for ref in s.evidence for name in names) for s in answer.statements]
        right = not answer.known if each.unknown else any(hits[:1] if world.first_only else hits)
        first = not answer.known if each.unknown else any(hits[:1])
        yield Graded(question=question, unknown=each.unknown, right=right, first=first, answer=answer.text[:400])


def summary(rows: Sequence[Graded]) -> dict[str, Any]:
    """Both shares, with their counts and the questions answered wrongly."""
    known, unknown = [r for r in rows if not r.unknown], [r for r in rows if r.unknown]
    return {
        "questions": len(rows),
        "answered_with_right_evidence": sum(r.right for r in known) / max(1, len(known)),
        "answered": f"{sum(r.right for r in known)}/{len(known)}",
        "by_the_first_statement": f"{sum(r.first for r in known)}/{len(known)}",
        "unknown_said_unknown": sum(r.right for r in unknown) / max(1, len(unknown)),
        "unknown": f"{sum(r.right for r in unknown)}/{len(unknown)}",
        "wrong": [{"question": r.question, "answer": r.answer} for r in rows if not r.right],
    }
