"""What is asked: items with right answers, versioned and hashed, apart from how they are asked (protocol.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

from context_store.canonical import content_hash


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question. `choices` hold the right answer too; empty where nothing is to choose from.

    `working`: a written solution that ends before the answer. `code`: what a code item needs instead.
    """

    id: str
    question: str
    answer: str
    choices: tuple[str, ...] = ()
    working: str = ""
    code: Code | None = None

    @property
    def letter(self) -> str:
        return chr(ord("A") + self.choices.index(self.answer)) if self.choices else ""


@dataclass(frozen=True, kw_only=True)
class Code:
    """`signature` with its docstring is what is continued; `tests` is a program that fails when `entry` is wrong."""

    signature: str
    entry: str
    tests: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """A benchmark. `examples` are solved items for few-shot prompts, none of which is asked.

    `group`: which mean it belongs to; `source`: where the items come from, with version; `licence` of the items.
    """

    name: str
    version: int
    group: str
    items: tuple[Item, ...]
    examples: tuple[Item, ...] = ()
    source: str = ""
    licence: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Of everything that is asked; equal digests, equal benchmark."""
        return content_hash(asdict(self))

    def first(self, count: int) -> Task:
        """The same task cut to its first items, under a name that says so."""
        if count >= len(self.items):
            return self
        settings = {**self.settings, "limit": count}
        return Task(
            name=self.name,
            version=self.version,
            group=self.group,
            items=self.items[:count],
            examples=self.examples,
            source=self.source,
            licence=self.licence,
            settings=settings,
        )


@dataclass(frozen=True, kw_only=True)
class Text:
    """Held-out text of one domain for bits per byte."""

    name: str
    version: int
    documents: tuple[str, ...]
    source: str = ""

    @cached_property
    def digest(self) -> str:
        return content_hash(asdict(self))
