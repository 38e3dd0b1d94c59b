"""Which passage answers a question, and whether any does: sums of what `weighing` read, and thresholds.

Nothing but the standard library: an evolution run takes this file as it is into its sandbox and moves the weights.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

CASE_FEATURES = (
    "near", "typical", "words", "situation_near", "situation_typical", "situation_words", "names", "thing",
)  # fmt: skip
PASSAGE_FEATURES = ("rest_near", "rest_words", "thing_near", "thing_words", "kind")
Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """`case` and `passage` in the order of their features; `part` and `form` by part, `slot` by slot and part."""

    case: Numbers
    passage: Numbers
    part: Mapping[str, float]
    form: Mapping[str, float]
    slot: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A passage. `fits`: its part answers questions of this kind."""

    case_id: str
    part: str
    features: Numbers
    fits: bool


def weigh(
    weights: Weights, slot: str, cases: Mapping[str, Numbers], candidates: Sequence[Candidate]
) -> tuple[dict[str, float], list[float]]:
    """How well each case fits, and the score of each candidate."""
    near = {case_id: _sum(weights.case, features) for case_id, features in cases.items()}
    scores = []
    for each in candidates:
        score = _sum(weights.passage, each.features) + weights.part[each.part]
        score += weights.form[each.part] if each.fits else 0.0
        scores.append(near[each.case_id] + score + weights.slot[slot].get(each.part, 0.0))
    return near, scores


def _sum(weights: Numbers, features: Numbers) -> float:
    return float(sum(weight * feature for weight, feature in zip(weights, features, strict=True)))


def leading(near: Mapping[str, float]) -> str:
    """The case that the question is about."""
    return max(near, key=lambda case_id: near[case_id])


def is_meant(case_near: float, *, sure: bool, least: float) -> bool:
    """Whether the question is about that case at all. `sure`: it asks in general, or the case holds what it names."""
    return sure or case_near >= least


def ordered(scores: Numbers, marks: Sequence[Hashable], first: Hashable, gain: float) -> list[int]:
    """Places of the candidates, best first; those of the mark that the rules put first gain."""
    gained = [score + (gain if mark == first else 0.0) for score, mark in zip(scores, marks, strict=True)]
    return sorted(range(len(gained)), key=lambda place: -gained[place])
