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
from agents.skills.library import skills_for
from agents.skills.skill import ConditionFailed, Facts, Level, Skill, Use
from agents.tools import Arguments, Tool, Toolbox
from agents.tools.memory import SKILLS
from context_store import Store
from context_store.records import Memory
from contracts.enums import MemoryKind
from contracts.errors import LatheError, UserInputError
from contracts.evidence import EvidenceRef

_KEY = SKILLS
_TIMES, _SHORTEST, _LONGEST = 3, 2, 5
_MAX_NAME = 60  # characters; providers refuse longer names of tools
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
    times = _pattern(actions)
    return _generalised(times, name)[0] if times else None


def learn_from(
    store: Store,
    toolbox: Toolbox,
    actions: Sequence[Action],
    *,
    evidence: Sequence[EvidenceRef],
    author: str,
    at: float,
) -> Memory | None:
    """Keep what was repeated as a skill that is called after its tools, tried with what was done last.

    None when nothing was repeated that only reads, when it is known, or when the trial does not hold.
    """
    reading = [(tool, arguments) for tool, arguments in actions if not toolbox.acts(tool)]
    times = _pattern(reading)
    if not times or not evidence:
        return None
    draft, trial = _generalised(times, "_then_".join(tool for tool, _ in times[0])[:_MAX_NAME])
    if store.memory.line(_KEY + draft.name):
        return None
    try:
        return learn(store, toolbox, draft, trial, evidence=evidence, author=author, at=at)
    except LatheError:  # not worth keeping: a step found nothing this time
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
    skills = (*skills_for(toolbox), *learned(store, toolbox))
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


def _pattern(actions: Sequence[Action]) -> list[Sequence[Action]]:
    """Every repetition of the longest pattern of tools that was repeated often enough."""
    tools = [tool for tool, _ in actions]
    for length in range(_LONGEST, _SHORTEST - 1, -1):
        for start in range(len(tools) - length + 1):
            places = _repeats(tools, tools[start : start + length])
            if len(places) >= _TIMES:
                return [actions[place : place + length] for place in places]
    return []


def _generalised(times: Sequence[Sequence[Action]], name: str) -> tuple[Draft, dict[str, Any]]:
    """The draft and the inputs of the last time.

    Arguments that were the same each time stay; one input stands for arguments that always went together.
    """
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
    draft = Draft(name=name, about=about, inputs=tuple(inputs.values()), steps=tuple(steps))
    return draft, {called: values[-1] for values, called in inputs.items()}


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
