"""The text a model sees: solved examples, then the question, by the templates of a protocol."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.errors import UserInputError
from loops.evals.extraction import EXTRACTORS, is_right
from loops.evals.protocol import Examples, Mode, Protocol
from loops.evals.task import Item, Task


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """`prefill` belongs to the answer, though the model does not write it; `options` are what likelihoods compare."""

    item: Item
    text: str
    prefill: str = ""
    options: tuple[str, ...] = ()


def prompts(task: Task, protocol: Protocol) -> list[Prompt]:
    """One a task's item. Raises UserInputError where the task has too few examples, or lacks what is asked for."""
    _check(task, protocol)
    shown = "".join(_solved(example, protocol) for example in task.examples[: protocol.shots])
    head = _filled(protocol.instruction, {}) + shown
    return [_prompt(item, head, protocol) for item in task.items]


def can_ask(task: Task, protocol: Protocol) -> bool:
    """Whether the task has what the protocol needs."""
    try:
        _check(task, protocol)
    except UserInputError:
        return False
    return True


def written(item: Item, protocol: Protocol) -> str:
    """What a model writes that answers rightly and in exactly the protocol's form."""
    return _filled(protocol.answer, _fields(item, protocol))


def _prompt(item: Item, head: str, protocol: Protocol) -> Prompt:
    fields = _fields(item, protocol)
    asked = _filled(protocol.question, fields) + protocol.cue
    options: tuple[str, ...] = ()
    if protocol.mode is Mode.LIKELIHOOD:
        options = tuple(_filled(protocol.answer, fields | {"answer": choice}) for choice in item.choices)
    return Prompt(item=item, text=head + asked, prefill=_filled(protocol.prefill, fields), options=options)


def _solved(item: Item, protocol: Protocol) -> str:
    fields = _fields(item, protocol)
    return _filled(protocol.question, fields) + protocol.cue + written(item, protocol)


def _fields(item: Item, protocol: Protocol) -> dict[str, str]:
    shows_working = protocol.examples is Examples.WORKING and item.working
    return {
        "question": item.question,
        "choices": "".join(f"({chr(ord('A') + n)}) {choice}\n" for n, choice in enumerate(item.choices)),
        "working": item.working.rstrip() + " " if shows_working else "",
        "answer": item.answer,
        "letter": item.letter,
        "signature": item.code.signature if item.code else "",
    }


def _filled(template: str, fields: dict[str, str]) -> str:
    return template.format(**fields)


def _check(task: Task, protocol: Protocol) -> None:
    items = (*task.items, *task.examples[: protocol.shots])
    missing = ""
    if len(task.examples) < protocol.shots:
        missing = f"{protocol.shots} solved examples"
    elif (protocol.mode is Mode.CODE) != (task.items[0].code is not None):
        missing = "tests to run" if protocol.mode is Mode.CODE else "questions in words: its items are code"
    elif (protocol.mode is Mode.LIKELIHOOD or "{letter}" in protocol.answer) and not all(i.choices for i in items):
        missing = "options to choose from"
    elif protocol.mode is Mode.GENERATION and not all(_is_readable(item, protocol) for item in task.items):
        missing = f"answers that the extractor {protocol.extractor} reads"
    if missing:
        raise UserInputError(
            f"task {task.name} cannot be asked by protocol {protocol.name}: it has no {missing}",
            remedy="take another protocol; `prompts.can_ask` says which ones fit",
        )


def _is_readable(item: Item, protocol: Protocol) -> bool:
    found = EXTRACTORS[protocol.extractor](written(item, protocol))
    return found is not None and is_right(found, item, protocol.matching)
