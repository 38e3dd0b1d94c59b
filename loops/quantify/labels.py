"""Labels of a case by source, which of them is the reference, and how far the sources agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loops.classifiers.measures import Score, kappa
from loops.classifiers.model import Bools
from loops.quantify.need import Labeller

CHECK = "check"  # how batches of such labels begin
_ROUNDS = 2000
_Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True, kw_only=True)
class Label:
    """`source`: `given`, `person:NAME` or `model:NAME`; `batch`: in which it was asked for, "" for given ones."""

    item: str
    source: str
    positive: bool
    batch: str = ""

    @property
    def labeller(self) -> Labeller:
        return Labeller(self.source.partition(":")[0])


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """Two labellers on the texts that both labelled; `kappa` is NaN where both always say the same."""

    first: Labeller
    second: Labeller
    num_texts: int
    share: Score
    kappa: Score


def reference(labels: Iterable[Label], order: Sequence[Labeller]) -> dict[str, bool]:
    """Of each text the label that counts: by the first labeller of `order` that has one. Of one source the newest
    counts, of several persons the majority, and where they are as many the newest. A label that was asked for again
    because it looked wrong outweighs them all. `labels`: oldest first.
    """
    said: dict[str, dict[Labeller, dict[str, bool]]] = {}
    checked: dict[str, bool] = {}
    for each in labels:
        if each.batch.startswith(CHECK):
            checked[each.item] = each.positive
        by_source = said.setdefault(each.item, {}).setdefault(each.labeller, {})
        by_source.pop(each.source, None)
        by_source[each.source] = each.positive
    found: dict[str, bool] = {}
    for item, by_labeller in said.items():
        labeller = next((each for each in order if each in by_labeller), None)
        if labeller is not None:
            found[item] = _majority(list(by_labeller[labeller].values()))
    return found | checked


def agreements(labels: Sequence[Label], order: Sequence[Labeller], *, seed: int = 0) -> list[Agreed]:
    """Every two labellers that labelled some of the same texts."""
    alone = {each: reference((label for label in labels if label.labeller is each), [each]) for each in Labeller}
    found = []
    for number, first in enumerate(order):
        for second in [*order[number + 1 :], *(each for each in Labeller if each not in order)]:
            if shared := sorted(alone[first].keys() & alone[second].keys()):
                found.append(_agreed(first, second, alone[first], alone[second], shared, seed))
    return found


def _agreed(
    first: Labeller, second: Labeller, one: Mapping[str, bool], other: Mapping[str, bool], shared: list[str], seed: int
) -> Agreed:
    a = np.array([one[item] for item in shared])
    b = np.array([other[item] for item in shared])
    draws = np.random.default_rng(seed).integers(0, a.size, (_ROUNDS, a.size))
    kappas = np.array([kappa(a[draw], b[draw]) for draw in draws])
    finite = kappas[np.isfinite(kappas)]
    low, high = np.quantile(finite, [0.025, 0.975]) if finite.size else (np.nan, np.nan)
    of_chance = Score(value=kappa(a, b), low=float(low), high=float(high))
    return Agreed(first=first, second=second, num_texts=a.size, share=wilson(a == b), kappa=of_chance)


def wilson(hits: Bools) -> Score:
    """A share with its 95 % interval (Wilson 1927)."""
    num, share = hits.size, float(hits.mean())
    middle = (share + _Z**2 / (2 * num)) / (1 + _Z**2 / num)
    half = _Z / (1 + _Z**2 / num) * float(np.sqrt(share * (1 - share) / num + _Z**2 / (4 * num**2)))
    return Score(value=share, low=max(0.0, middle - half), high=min(1.0, middle + half))


def _majority(votes: list[bool]) -> bool:
    yes = sum(votes)
    return votes[-1] if 2 * yes == len(votes) else 2 * yes > len(votes)
