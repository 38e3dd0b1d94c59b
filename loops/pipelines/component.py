"""One skeleton for classifiers, filters and rewriters: declare, evaluate on a fixed set, decide between two versions.

R801-5.2: what operation and role a component has is decided before its implementation, and one evaluation process says
whether an implementation is good enough. A component without both cannot enter a pipeline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from context_store.records import Level
from contracts.errors import UserInputError
from loops.classifiers.gate import ERROR_RATE, GateResult, compare
from loops.classifiers.groups import Ints
from loops.classifiers.measures import Score
from loops.classifiers.model import Bools, Floats

_ROUNDS = 2000


class ComponentKind(StrEnum):
    CLASSIFIER = "classifier"  # says yes or no of a text
    FILTER = "filter"  # lets a text pass or takes it out
    REWRITER = "rewriter"  # gives another text


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a component is, before it is written. `evaluation_sha256`: of the set that every version is held against.

    Raises UserInputError without a purpose or an evaluation set.
    """

    name: str
    kind: ComponentKind
    level: Level
    purpose: str
    evaluation_sha256: str

    def __post_init__(self) -> None:
        if not (self.name.strip() and self.purpose.strip() and self.evaluation_sha256):
            raise UserInputError(
                f"the component '{self.name}' is not declared: it lacks a purpose or an evaluation set",
                remedy="say what it is for and on which texts every version of it is judged",
            )


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """Fixed over all versions: the group of near-duplicates of each text and the slices it belongs to, (num_texts,)."""

    sha256: str
    groups: Ints
    slices: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One version on the set. `values` (num_texts,): what the score is the mean of, higher is better; `right`: which
    texts it has right, for the gate. `refused`: why it may not be used whatever its score, "" when it may.
    """

    version: str
    evaluation_sha256: str
    metric: str
    values: Floats
    right: Bools
    refused: str = ""

    @property
    def score(self) -> float:
        return float(self.values.mean())


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`is_taken`: the new version stands now. `change` of the score, over groups; None without an older version."""

    version: str
    against: str
    is_taken: bool
    reason: str
    change: Score | None
    gate: GateResult | None


def decide(standing: Evaluation | None, new: Evaluation, on: EvaluationSet, *, rate: float = ERROR_RATE) -> Decision:
    """The new version is taken when its score is higher, no slice of it is worse beyond chance, and it is not refused.

    A version whose score is not higher is not taken even where the loss may be chance: the earlier one is kept
    (R801-5.6). Raises UserInputError when the two were not measured on this set.
    """
    if any(each is not None and each.evaluation_sha256 != on.sha256 for each in (standing, new)):
        raise UserInputError(
            f"{new.version} was measured on another set", remedy="evaluate both versions on the same set"
        )
    against = "" if standing is None else standing.version
    if new.refused or standing is None:
        reason = new.refused or "the first version"
        return Decision(
            version=new.version, against=against, is_taken=not new.refused, reason=reason, change=None, gate=None
        )
    gate = compare(standing.right, new.right, on.groups, on.slices, rate=rate)
    change = change_of(standing.values, new.values, on.groups)
    reason = _reason(gate, change, new.metric)
    return Decision(
        version=new.version, against=against, is_taken=gate.passed and change.value > 0.0, reason=reason,
        change=change, gate=gate,
    )  # fmt: skip


def _reason(gate: GateResult, change: Score, metric: str) -> str:
    moved = f"{metric} {change.value:+.4f} ({change.low:+.4f} to {change.high:+.4f})"
    if not gate.passed:
        return f"worse in {', '.join(gate.worse)}; {moved}"
    return f"better: {moved}" if change.value > 0.0 else f"not better: {moved}"


def change_of(old: Floats, new: Floats, groups: Ints, *, seed: int = 0) -> Score:
    """Mean of new - old with its 95 % interval by the bootstrap over groups (Davison and Hinkley 1997, 3.8)."""
    _, number = np.unique(groups, return_inverse=True)
    sums = np.bincount(number, weights=new - old)
    sizes = np.bincount(number).astype(np.float64)
    draws = np.random.default_rng(seed).multinomial(sums.size, np.full(sums.size, 1.0 / sums.size), size=_ROUNDS)
    means = (draws @ sums) / (draws @ sizes)
    low, high = np.quantile(means, [0.025, 0.975])
    return Score(value=float(sums.sum() / sizes.sum()), low=float(low), high=float(high))


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A version of a component in a pipeline."""

    declared: Declared
    version: str


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Components in the order in which texts pass them: their levels never fall. Raises UserInputError otherwise, or
    for a version that was not taken."""

    name: str
    placed: tuple[Placed, ...] = field(default_factory=tuple)

    def plus(self, declared: Declared, decision: Decision) -> Pipeline:
        """With one more component at the end."""
        if not decision.is_taken:
            raise UserInputError(
                f"{declared.name} {decision.version} may not enter {self.name}: {decision.reason}",
                remedy=f"take {decision.against or 'a version that was taken'}",
            )
        if self.placed and self.placed[-1].declared.level.value > declared.level.value:
            raise UserInputError(
                f"{declared.name} is of level {declared.level} and would come after {self.placed[-1].declared.level}",
                remedy="place it among the components of its level",
            )
        return Pipeline(name=self.name, placed=(*self.placed, Placed(declared=declared, version=decision.version)))


def digest_of(parts: Iterable[Any]) -> str:
    """SHA-256 over JSON values, in order."""
    return hashlib.sha256(json.dumps(list(parts), sort_keys=True, ensure_ascii=True).encode()).hexdigest()
