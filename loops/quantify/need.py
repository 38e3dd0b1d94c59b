"""What a person wants told apart, on which texts, and at what price: the first of the six steps (R801-5.3)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from context_store.records import Level
from contracts.errors import UserInputError

Word = TypeVar("Word", bound=StrEnum)
_NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,63}$")


class Labeller(StrEnum):
    """Where labels come from. The first one of a need is the reference; the others are compared with it."""

    GIVEN = "given"  # they came with the texts
    PERSON = "person"
    MODEL = "model"  # a language model with the labelling prompt


class Option(StrEnum):
    """What is deployed."""

    PROMPT = "prompt"  # option A: the labelling prompt and its language model
    MODEL = "model"  # option B: the compact classifier
    BEST = "best"  # A only where it is better beyond chance and nowhere worse


class Optimiser(StrEnum):
    """What proposes labelling prompts."""

    MISTAKES = "mistakes"  # notes on clusters of mistakes, without any model
    GEPA = "gepa"  # needs the extra `gepa`


@dataclass(frozen=True, kw_only=True)
class Need:
    """`positive` is what is looked for, `negative` everything else. Sizes count texts. `label_budget`: labels for
    training in all; those of the evaluation set come on top. `per_round`: how many are asked for at once.

    Raises UserInputError that names the field.
    """

    name: str
    need: str
    positive: str
    negative: str
    labellers: tuple[Labeller, ...]
    level: Level = Level.L3
    cost_false_positive: float = 1.0
    cost_false_negative: float = 1.0
    evaluation_size: int = 300
    first_labels: int = 200
    per_round: int = 100
    label_budget: int = 1000
    max_versions: int = 10
    option: Option = Option.MODEL
    optimiser: Optimiser = Optimiser.MISTAKES
    seed: int = 0

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise UserInputError(
                f"'{self.name}' cannot be the name of a classifier", remedy="use a-z, 0-9, - and _, at most 64"
            )
        if not self.need.strip():
            raise UserInputError("the need is empty", remedy="say in a sentence what is to be told apart, and what for")
        if self.positive == self.negative or not (self.positive.strip() and self.negative.strip()):
            raise UserInputError("two different classes are needed", remedy="name them: --classes WANTED,OTHER")
        if not self.labellers or len(set(self.labellers)) != len(self.labellers):
            raise UserInputError(
                "nobody labels", remedy="name each of given, person, model at most once, the reference first"
            )
        if min(self.cost_false_positive, self.cost_false_negative) <= 0.0:
            raise UserInputError("a mistake costs more than nothing", remedy="give two costs above 0")
        if min(self.evaluation_size, self.first_labels, self.per_round) < 10 or self.max_versions < 1:
            raise UserInputError("a set of fewer than 10 texts says nothing", remedy="give at least 10")

    @property
    def classes(self) -> tuple[str, str]:
        return (self.positive, self.negative)

    def dump(self) -> dict[str, Any]:
        """JSON values, from which `load` makes the same need."""
        return {**dataclasses.asdict(self), "labellers": [each.value for each in self.labellers]}

    @classmethod
    def load(cls, fields: Mapping[str, Any]) -> Need:
        words = {"level": Level(fields["level"]), "option": Option(fields["option"])}
        words["optimiser"] = Optimiser(fields["optimiser"])
        return cls(**{**fields, **words, "labellers": tuple(Labeller(each) for each in fields["labellers"])})

    def is_positive(self, label: str) -> bool:
        """Raises UserInputError for a word that is none of the two classes."""
        if label not in self.classes:
            raise UserInputError(f"'{label}' is no class of {self.name}", remedy="one of: " + ", ".join(self.classes))
        return label == self.positive


def labellers_of(words: Sequence[str]) -> tuple[Labeller, ...]:
    """Raises UserInputError for an unknown one."""
    return tuple(word_of(Labeller, word.strip()) for word in words)


def word_of(words: type[Word], word: str) -> Word:
    """Raises UserInputError for one that is not among them."""
    try:
        return words(word)
    except ValueError as error:
        raise UserInputError(str(error), remedy="one of: " + ", ".join(each.value for each in words)) from None


def pair_of(field: str, words: str) -> tuple[float, float]:
    """Two numbers with a comma between. Raises UserInputError that names the field."""
    first, _, second = words.partition(",")
    try:
        return float(first), float(second)
    except ValueError:
        raise UserInputError(f"--{field} {words} are not two numbers", remedy=f"write --{field} 1,5") from None
