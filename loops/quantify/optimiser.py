"""Optimisers of labelling prompts behind one interface, and the judge that decides about what they propose.

An optimiser proposes; whether a prompt takes the place of the one that stands is decided as with every other version:
on a fixed set, paired, with intervals and slices (`loops.pipelines.component.decide`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from contracts.errors import BudgetExceeded
from loops.classifiers import mistakes
from loops.classifiers.model import Bools
from loops.pipelines.component import Decision, Evaluation, EvaluationSet, decide
from loops.quantify.need import Need
from loops.quantify.prompts import LabelPrompt, note_added, quoted

METRIC = "agreement of the prompt"
MAX_PROMPTS = 4  # that one tuning judges, the first one included
Judge = Callable[[LabelPrompt, Sequence[str]], list[bool | None]]  # labels of texts; None: the answer was unreadable


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Texts with their reference labels, (n,), on which an optimiser may look at mistakes."""

    texts: tuple[str, ...]
    labels: Bools

    def mistakes_of(self, said: Sequence[bool | None]) -> list[int]:
        """Numbers of texts that were labelled otherwise, or not at all."""
        return [number for number, each in enumerate(said) if each is None or each != bool(self.labels[number])]


class PromptOptimiser(Protocol):
    """Proposes prompts. Each one it yields was made from the one it was given, and has its reason."""

    @property
    def name(self) -> str: ...

    def propose(self, prompt: LabelPrompt, examples: Examples, judge: Judge) -> Iterator[LabelPrompt]: ...


@dataclass(frozen=True, kw_only=True)
class ByMistakes:
    """Deterministic and without a model of its own: one note for each cluster of mistakes, the largest first, which
    shows a typical text with its label.
    """

    need: Need
    num_notes: int = MAX_PROMPTS - 1
    name: str = "by mistakes"

    def propose(self, prompt: LabelPrompt, examples: Examples, judge: Judge) -> Iterator[LabelPrompt]:
        said = judge(prompt, examples.texts)
        predicted = np.array([
            not examples.labels[number] if each is None else each for number, each in enumerate(said)
        ], dtype=np.bool_)  # fmt: skip
        found = mistakes.clusters(examples.texts, predicted, examples.labels, {})
        for cluster in found[: self.num_notes]:
            shown = quoted(examples.texts[cluster.texts[0]])
            label = self.need.positive if cluster.missed else self.need.negative
            words = f" (words like {', '.join(cluster.words[:3])})" if cluster.words else ""
            yield note_added(prompt, f"Texts like {shown}{words} are {label}.", cluster.sentence)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """`prompt`: the one that stands at the end. `tried`: each that was proposed, with its decision. `stopped`: why no
    more were, "" when the optimiser had no more."""

    prompt: LabelPrompt
    tried: tuple[tuple[LabelPrompt, Decision], ...]
    stopped: str = ""


def tune(
    first: LabelPrompt,
    optimiser: PromptOptimiser,
    examples: Examples,
    judging: Examples,
    on: EvaluationSet,
    judge: Judge,
) -> Tuned:
    """`examples`: what the optimiser sees; `judging` with `on`: what decides, which it never sees. Where the budget
    ends in between, what stands by then is the answer."""
    standing, stopped = first, ""
    tried = []
    try:
        measured = evaluated(first, judging, on, judge)
        for proposed in optimiser.propose(first, examples, judge):
            candidate = LabelPrompt(text=proposed.text, parent=first.sha256, why=proposed.why or optimiser.name)
            found = evaluated(candidate, judging, on, judge)
            decision = decide(measured, found, on)
            tried.append((candidate, decision))
            if decision.is_taken:
                standing, measured = candidate, found
    except BudgetExceeded as error:
        stopped = error.message
    return Tuned(prompt=standing, tried=tuple(tried), stopped=stopped)


def evaluated(prompt: LabelPrompt, judging: Examples, on: EvaluationSet, judge: Judge) -> Evaluation:
    """An unreadable answer counts as not agreeing."""
    wrong = judging.mistakes_of(judge(prompt, judging.texts))
    right = np.ones(len(judging.texts), dtype=np.bool_)
    right[wrong] = False
    return Evaluation(
        version=prompt.sha256[:12],
        evaluation_sha256=on.sha256,
        metric=METRIC,
        values=right.astype(np.float64),
        right=right,
    )
