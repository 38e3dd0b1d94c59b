"""Evaluate, improve, decide: the inner cycle of every component's development."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from loops.pipelines.component import Decision, Evaluation, EvaluationSet, decide

C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Revision(Generic[C]):
    """A change that a finding suggests: `make` gives the new version from the one that stands."""

    name: str
    why: str
    make: Callable[[C], C]


@dataclass(frozen=True, kw_only=True)
class Improved(Generic[C]):
    """`standing`: the best version that was taken. `decisions`: one a version, in order; those not taken are negative
    results, with the change of the score and its interval."""

    standing: C
    evaluation: Evaluation
    decisions: tuple[Decision, ...]


def improve(
    first: C, revisions: Iterable[Revision[C]], evaluate: Callable[[str, C], Evaluation], on: EvaluationSet
) -> Improved[C]:
    """Try each revision on what stands. Raises UserInputError when the first version is refused."""
    standing, measured = first, evaluate("v1", first)
    decisions = [decide(None, measured, on)]
    for number, revision in enumerate(revisions, start=2):
        candidate = revision.make(standing)
        found = evaluate(f"v{number}", candidate)
        decisions.append(decide(measured, found, on))
        if decisions[-1].is_taken:
            standing, measured = candidate, found
    return Improved(standing=standing, evaluation=measured, decisions=tuple(decisions))
