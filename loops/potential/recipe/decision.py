"""Continue, change or stop: what pilots and the run's own potential say together. Pure.

A flat base score is no reason to stop while the potential grows (R801-4.18), and a pilot exists to find problems, not
to predict scores (R801-1.6): a change needs a difference that its own seeds separate from noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from loops.potential.recipe.plan import BASELINE
from loops.potential.verdicts import Verdict
from loops.statistics.paired import PairedEffect, t_interval

_NO_GAIN = frozenset({Verdict.TRUE_PLATEAU, Verdict.TRUE_DROP, Verdict.OVERTRAINING})


class Choice(StrEnum):
    CONTINUE = "continue"
    CHANGE = "change"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Of a candidate against the unchanged recipe: the outcome of its pilots."""

    found: tuple[str, ...]
    removed: tuple[str, ...]
    carried_over: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """`difference` in points after tiny SFT, paired by seed; `base_difference` of the plain score."""

    name: str
    difference: PairedEffect
    base_difference: PairedEffect
    problems: Problems

    @property
    def is_better(self) -> bool:
        return self.difference.low > 0 and not self.problems.found


@dataclass(frozen=True, kw_only=True)
class Decision:
    choice: Choice
    candidate: str
    sentence: str
    finalists: tuple[Finalist, ...]


def finalists(pilots: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> list[Finalist]:
    """Of the last rung: bodies by candidate and seed; the best first. Needs two seeds and the unchanged recipe."""
    if BASELINE not in pilots:
        return []
    base = pilots[BASELINE]
    found = []
    for name, own in pilots.items():
        seeds = sorted(own.keys() & base.keys())
        if name == BASELINE or len(seeds) < 2:
            continue
        differences = {key: np.array([own[s][key] - base[s][key] for s in seeds]) for key in ("tiny", "base")}
        found.append(
            Finalist(
                name=name,
                difference=t_interval(differences["tiny"]),
                base_difference=t_interval(differences["base"]),
                problems=problems(_told(own), _told(base)),
            )
        )
    return sorted(found, key=lambda each: -each.difference.mean)


def problems(own: Sequence[str], base: Sequence[str]) -> Problems:
    mine, theirs = set(own), set(base)
    return Problems(
        found=tuple(sorted(mine - theirs)),
        removed=tuple(sorted(theirs - mine)),
        carried_over=tuple(sorted(mine & theirs)),
    )


def decide(reading: Mapping[str, Any], candidates: Sequence[Finalist]) -> Decision:
    """`reading`: of the run's own potential."""
    better = [each for each in candidates if each.is_better]
    verdict, curves = Verdict(reading["verdict"]["verdict"]), f"; the run: {reading['verdict']['sentence']}"
    if better:
        best = better[0]
        text = (
            f"change to {best.name}: {best.difference.mean:+.1f} points after tiny SFT "
            f"({best.difference.low:+.1f} to {best.difference.high:+.1f}, {best.difference.num_pairs} paired seeds)"
        )
        return Decision(choice=Choice.CHANGE, candidate=best.name, sentence=text + curves, finalists=tuple(candidates))
    none = "no pilot is better beyond noise"
    if verdict in _NO_GAIN:
        text = f"stop: {none}, and the run no longer gains"
        return Decision(choice=Choice.STOP, candidate="", sentence=text + curves, finalists=tuple(candidates))
    text = f"continue: {none}"
    return Decision(choice=Choice.CONTINUE, candidate=BASELINE, sentence=text + curves, finalists=tuple(candidates))


def _told(by_seed: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Problems that more than half of the seeds show."""
    names = [name for body in by_seed.values() for name in body["problems"]]
    return [name for name in dict.fromkeys(names) if 2 * names.count(name) > len(by_seed)]
