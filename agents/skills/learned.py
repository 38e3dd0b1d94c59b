"""Skills that agents put together themselves (RM2-7.13): from a repeated pattern of actions to a tried skill.

A learned skill is data: reading tools in a fixed order, with inputs in place of what differed. It is kept in memory
under `skill/NAME`, so each version names its source and supersedes the one before, and a retired one stays readable.
It counts only after a trial in which every step found something.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import create_model

from agents.skills.book import SkillBook
from agents.skills.library import LIBRARY
from agents.skills.skill import ConditionFailed, Facts, Level, Skill, Use
from agents.tools import Arguments, Tool, Toolbox
from context_store import Store
from context_store.records import Memory
from contracts.enums import MemoryKind
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

_KEY = "skill/"
_TIMES, _SHORTEST, _LONGEST = 3, 2, 5
Action = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A tool with its arguments; `{NAME}` stands for the input of that name."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """`inputs`: names that differed between the repetitions, all of them texts or numbers."""

    name: str
    about: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]


def draft_of(actions: Sequence[Action], name: str) -> Draft | None:
    """The longest pattern of tools that was repeated three times, generalised; None when there is none."""
    tools = [tool for tool, _ in actions]
    for length in range(_LONGEST, _SHORTEST - 1, -1):
        for start in range(len(tools) - length + 1):
            places = _repeats(tools, tools[start : start + length])
            if len(places) >= _TIMES:
                return _generalised([actions[place : place + length] for place in places], name)
    return None


def learn(
    store: Store,
    toolbox: Toolbox,
    draft: Draft,
    trial: Mapping[str, Any],
    *,
    evidence: Sequence[EvidenceRef],
    author: str,
    at: float,
) -> Memory:
    """Try it, and keep it when the trial holds. Raises ConditionFailed, and UserInputError for a tool that acts."""
    acting = [each.tool for each in draft.steps if toolbox.acts(each.tool)]
    if acting:
        raise UserInputError(f"a learned skill only reads; {acting[0]} acts", remedy="leave that step to a person")
    SkillBook(store, toolbox, _skills(draft, 0), actor=author, clock=lambda: at).run(draft.name, trial)
    text = json.dumps(asdict(draft), sort_keys=True)
    return store.memory.remember(
        _KEY + draft.name, text, kind=MemoryKind.CONVENTION, evidence=evidence, author=author, at=at
    )


def learned(store: Store, toolbox: Toolbox) -> tuple[Skill, ...]:
    """Skills that hold now, with the atomic ones they are made of; the version is the memory entry's number.

    One whose tools the toolbox lacks, or whose tools act by now, is left out.
    """
    reading = {spec.name for spec in toolbox.specs if not toolbox.acts(spec.name)}
    kept = [(_draft(each.text), each.id) for each in store.memory.list("") if each.key.startswith(_KEY)]
    usable = [(draft, number) for draft, number in kept if {step.tool for step in draft.steps} <= reading]
    return tuple(skill for draft, number in usable for skill in _skills(draft, number))


def with_skills(store: Store, tools: Sequence[Tool], *, actor: str, clock: Callable[[], float]) -> tuple[Tool, ...]:
    """The tools, and composite skills and workflows beside them, as far as the tools allow."""
    toolbox = Toolbox(store, tools)
    names = {each.name for each in tools}
    possible = [each for each in LIBRARY if set(each.tools) <= names]
    skills = (*possible, *learned(store, toolbox))
    return (*tools, *SkillBook(store, toolbox, skills, actor=actor, clock=clock).tools())


def _draft(text: str) -> Draft:
    fields = json.loads(text)
    steps = tuple(Step(**each) for each in fields["steps"])
    return Draft(**{**fields, "inputs": tuple(fields["inputs"]), "steps": steps})


def _repeats(tools: Sequence[str], pattern: Sequence[str]) -> list[int]:
    """Where the pattern begins, without overlaps."""
    found: list[int] = []
    for place in range(len(tools) - len(pattern) + 1):
        free = not found or place >= found[-1] + len(pattern)
        if free and tools[place : place + len(pattern)] == pattern:
            found.append(place)
    return found


def _generalised(times: Sequence[Sequence[Action]], name: str) -> Draft:
    """Arguments that were the same each time stay; one input stands for arguments that always went together."""
    inputs: dict[tuple[Any, ...], str] = {}
    steps = []
    for number, (tool, first) in enumerate(times[0]):
        arguments: dict[str, Any] = {}
        for key in first:
            values = tuple(time[number][1].get(key) for time in times)
            if len(set(map(str, values))) == 1:
                arguments[key] = first[key]
                continue
            taken = set(inputs.values())
            arguments[key] = f"{{{inputs.setdefault(values, key if key not in taken else f'{key}_{number}')}}}"
        steps.append(Step(tool=tool, arguments=arguments))
    about = "Learned: " + ", then ".join(step.tool for step in steps) + "."
    return Draft(name=name, about=about, inputs=tuple(inputs.values()), steps=tuple(steps))


def _skills(draft: Draft, version: int) -> tuple[Skill, ...]:
    """An atomic skill a step, and the composite one that chains them."""
    fields: Any = dict.fromkeys(draft.inputs, (str | int, ...))
    inputs = create_model(f"Inputs_{draft.name}", __base__=Arguments, **fields)
    names = tuple(f"{draft.name}.{number}" for number in range(len(draft.steps)))
    atoms = [
        Skill(
            name=name, version=version, level=Level.ATOMIC, about=step.tool, inputs=inputs, outputs=Facts,
            run=_atom(step), tools=(step.tool,),
        )
        for name, step in zip(names, draft.steps, strict=True)
    ]  # fmt: skip
    whole = Skill(
        name=draft.name, version=version, level=Level.COMPOSITE, about=draft.about, inputs=inputs, outputs=Facts,
        run=_chain(names), parts=names,
    )  # fmt: skip
    return (*atoms, whole)


def _atom(step: Step) -> Callable[[Use, Any], Facts]:
    def run(use: Use, inputs: Any) -> Facts:
        given = inputs.model_dump()
        filled = {
            key: given[value[1:-1]] if isinstance(value, str) and value[1:-1] in given and value[0] == "{" else value
            for key, value in step.arguments.items()
        }
        found = use.tool(step.tool, **filled)
        if not found:
            raise ConditionFailed(f"{step.tool} found nothing", remedy="give other inputs, or retire the skill")
        return Facts(facts=found)

    return run


def _chain(names: Sequence[str]) -> Callable[[Use, Any], Facts]:
    def run(use: Use, inputs: Any) -> Facts:
        found = [use.skill(name, **inputs.model_dump()) for name in names]
        return Facts(facts=tuple(fact for each in found for fact in each.facts))

    return run
