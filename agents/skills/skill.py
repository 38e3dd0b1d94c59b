"""What a skill is. Adding one: typed inputs and outputs, a function, its conditions, and a line in `library.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from agents.tools import Arguments, Row
from context_store import Store
from contracts.errors import LatheError
from contracts.evidence import EvidenceRef


class Level(StrEnum):
    ATOMIC = "atomic"  # calls one tool
    COMPOSITE = "composite"  # chains atomic skills
    WORKFLOW = "workflow"  # chains composite and atomic skills, and may hand in a request


class Fact(BaseModel):
    """One thing found, and what it rests on (text form of evidence references, at least one)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str
    evidence: tuple[str, ...] = Field(min_length=1)

    @classmethod
    def of(cls, row: Row) -> Fact:
        return cls(text=row.text, evidence=tuple(str(ref) for ref in row.evidence))

    @property
    def row(self) -> Row:
        return Row(text=self.text, evidence=tuple(map(EvidenceRef.parse, self.evidence)))


class Facts(BaseModel):
    """Base of all outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    facts: tuple[Fact, ...]


class Use(Protocol):
    """What a running skill may do: use the skills it names, or, when it is atomic, one tool."""

    def skill(self, name: str, **inputs: Any) -> Any:
        """Outputs of a skill that is named in `parts`."""
        ...

    def tool(self, name: str, **arguments: Any) -> tuple[Fact, ...]:
        """Rows of the tool that is named in `tools`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Condition:
    """`text`: what has to hold, for people. `holds(store, inputs, outputs)`; outputs are None before the run."""

    text: str
    holds: Callable[[Store, Any, Any], bool]


class ConditionFailed(LatheError):
    """A condition of a skill does not hold; nothing was done, or what was found is not given on."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    """`parts`: names of the skills it uses, all of lower levels; `tools`: of the tools it calls."""

    name: str
    version: int
    level: Level
    about: str
    inputs: type[Arguments]
    outputs: type[Facts]
    run: Callable[[Use, Any], Facts]
    parts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    before: tuple[Condition, ...] = ()
    after: tuple[Condition, ...] = ()
