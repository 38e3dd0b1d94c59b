"""`SkillBook`: the skills that may be used, checked when the book is made and around every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agents.skills.skill import Condition, ConditionFailed, Fact, Facts, Level, Skill
from agents.tools import Tool, Toolbox, ToolResult
from agents.tools.protocol import result
from context_store import Store
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

_ORDER = tuple(Level)
_MAX_COUNTED = 100_000


class SkillBook:
    """Runs of skills go to the ledger in the name `skill:NAME@VERSION`; that is how use is counted."""

    def __init__(
        self, store: Store, toolbox: Toolbox, skills: Iterable[Skill], *, actor: str, clock: Callable[[], float]
    ) -> None:
        """Raises UserInputError for a skill that uses what is not there, or what is not below its own level."""
        self._store = store
        self._toolbox = toolbox
        self._skills = {each.name: each for each in skills}
        self._actor = actor
        self._clock = clock
        for each in self._skills.values():
            self._check(each)

    @property
    def skills(self) -> tuple[Skill, ...]:
        return tuple(self._skills.values())

    def run(self, name: str, inputs: Mapping[str, Any]) -> Facts:
        """Raises UserInputError for an unknown skill or wrong inputs, ConditionFailed, and what its tools raise."""
        skill = self._find(name)
        try:
            given = skill.inputs.model_validate(dict(inputs))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "inputs"
            raise UserInputError(f"{name}: {where}: {first['msg']}", remedy="correct the input") from error
        self._hold(skill, skill.before, given, None)
        outputs = skill.run(_Use(self, skill), given)
        if not isinstance(outputs, skill.outputs):
            raise ConditionFailed(f"{name} gave {type(outputs).__name__}", remedy="this is a defect of the skill")
        self._hold(skill, skill.after, given, outputs)
        self._count(skill, outputs)
        return outputs

    def uses(self, name: str) -> int:
        """How often it ran to its end, in this version."""
        return len(self._store.ledger.list(actor=_signature(self._find(name)), limit=_MAX_COUNTED))

    def tools(self) -> tuple[Tool, ...]:
        """Composite skills and workflows as tools for a chat or an MCP client."""
        return tuple(self._as_tool(each) for each in self.skills if each.level is not Level.ATOMIC)

    def _as_tool(self, skill: Skill) -> Tool:
        def run(_: Store, inputs: Any) -> ToolResult:
            found = self.run(skill.name, inputs.model_dump()).facts
            return result([each.row for each in found], f"{skill.name} found nothing")

        acts = any(self._toolbox.acts(tool) for tool in self._all_tools(skill))
        return Tool(name=skill.name, description=skill.about, arguments=skill.inputs, run=run, acts=acts)

    def _all_tools(self, skill: Skill) -> set[str]:
        return set(skill.tools).union(*(self._all_tools(self._find(part)) for part in skill.parts))

    def _find(self, name: str) -> Skill:
        if name not in self._skills:
            raise UserInputError(f"there is no skill '{name}'", remedy=f"use one of: {', '.join(self._skills)}")
        return self._skills[name]

    def _hold(self, skill: Skill, conditions: Iterable[Condition], inputs: Any, outputs: Any) -> None:
        for each in conditions:
            if not each.holds(self._store, inputs, outputs):
                raise ConditionFailed(f"{skill.name}: {each.text} does not hold", remedy="see what it needs and gives")

    def _check(self, skill: Skill) -> None:
        unknown = [each for each in skill.tools if each not in {spec.name for spec in self._toolbox.specs}]
        if unknown:
            raise UserInputError(f"{skill.name} calls {unknown[0]}, which is no tool", remedy="name a tool there is")
        if skill.level is not Level.WORKFLOW and any(map(self._toolbox.acts, skill.tools)):
            raise UserInputError(f"{skill.name} acts, which only workflows may", remedy="make it a workflow")
        if skill.level is Level.ATOMIC and (skill.parts or len(skill.tools) != 1):
            raise UserInputError(f"{skill.name} is atomic: it calls one tool", remedy="make it composite")
        if skill.level is Level.COMPOSITE and skill.tools:
            raise UserInputError(f"{skill.name} is composite: it uses skills", remedy="wrap the tool in a skill")
        for part in map(self._find, skill.parts):
            if _ORDER.index(part.level) >= _ORDER.index(skill.level):
                raise UserInputError(f"{skill.name} uses {part.name} of no lower level", remedy="raise its level")

    def _count(self, skill: Skill, outputs: Facts) -> None:
        if outputs.facts:
            refs = tuple(EvidenceRef.parse(ref) for ref in outputs.facts[0].evidence)
            detail = {"for": self._actor, "facts": len(outputs.facts)}
            self._store.ledger.append(_signature(skill), "skill_used", str(refs[0]), detail, refs, self._clock())


class _Use:
    """The hand of one skill: what it did not declare it cannot use."""

    def __init__(self, book: SkillBook, skill: Skill) -> None:
        self._book = book
        self._skill = skill

    def skill(self, name: str, **inputs: Any) -> Any:
        if name not in self._skill.parts:
            raise UserInputError(f"{self._skill.name} does not declare the part '{name}'", remedy="name it in parts")
        return self._book.run(name, inputs)

    def tool(self, name: str, **arguments: Any) -> tuple[Fact, ...]:
        if name not in self._skill.tools:
            raise UserInputError(f"{self._skill.name} does not declare the tool '{name}'", remedy="name it in tools")
        return tuple(Fact.of(each) for each in self._book._toolbox.call(name, arguments).rows)


def _signature(skill: Skill) -> str:
    return f"skill:{skill.name}@{skill.version}"
