"""What a version is worth on the case's fixed set, as the JSON values that are stored and shown."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from loops.classifiers import mistakes
from loops.classifiers.gate import WHOLE
from loops.classifiers.groups import Ints
from loops.classifiers.measures import Agreement, Score, agreement, calibration_error
from loops.classifiers.model import Bools, Classifier, Floats
from loops.classifiers.rules import Rule
from loops.pipelines.component import Decision, Evaluation, EvaluationSet
from loops.quantify.labels import wilson
from loops.quantify.need import Need
from loops.quantify.versions import Corpus, probabilities, values_of

METRIC = "1 - mean cost of a mistake"  # with equal costs: the share that is right
_MAX_CLUSTERS = 12
_SPEED_CHARS, _SPEED_TEXTS = 1000, 2000


def part_of(corpus: Corpus, numbers: Ints, found: Floats, threshold: float, seed: int) -> dict[str, Any]:
    """Agreement with the reference labels on one part, with intervals; `found` (numbers.size,) are probabilities."""
    labels, predicted = corpus.labels[numbers], found >= threshold
    worth = agreement(predicted, labels, corpus.groups[numbers], rng=np.random.default_rng(seed))
    return {
        **plain(worth),
        "macro_f1": macro_f1(predicted, labels),
        "calibration_error": calibration_error(found, labels),
    }


def plain(worth: Agreement) -> dict[str, Any]:
    """JSON values; what is not a number becomes None."""
    fields = asdict(worth)
    scores = {name: {key: _number(value) for key, value in fields[name].items()} for name in ("f1", "accuracy")}
    return {**fields, **scores, "precision": _number(worth.precision), "recall": _number(worth.recall)}


def macro_f1(predicted: Bools, labels: Bools) -> float | None:
    """Mean of the F1 of both classes, as R801-5.7 reports it; None where one of them does not occur at all."""
    both = []
    for one, other in ((predicted, labels), (~predicted, ~labels)):
        if not (one | other).any():
            return None
        both.append(2.0 * float((one & other).sum()) / float(one.sum() + other.sum()))
    return float(np.mean(both))


def evaluation_of(
    version: str, found: Floats, threshold: float, labels: Bools, on: EvaluationSet, need: Need
) -> Evaluation:
    right = (found >= threshold) == labels
    return Evaluation(
        version=version, evaluation_sha256=on.sha256, metric=METRIC, values=values_of(right, labels, need), right=right
    )


def slices_of(right: Bools, slices: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Share right in each slice, with its interval; all texts first."""
    masks = {WHOLE: np.ones(right.size, dtype=np.bool_)}
    for attribute, values in slices.items():
        column = np.asarray(values)
        masks |= {f"{attribute}={value}": column == value for value in sorted(set(values))}
    return [{"name": name, "num_texts": int(mask.sum()), **asdict(wilson(right[mask]))} for name, mask in masks.items()]


def clusters_of(
    corpus: Corpus, ids: Sequence[str], numbers: Ints, predicted: Bools, slices: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Mistakes on the set in clusters: the items, their words, and what they share."""
    found = mistakes.clusters(corpus.part(numbers), predicted, corpus.labels[numbers], slices)
    return [
        {
            "missed": each.missed, "items": [ids[numbers[at]] for at in each.texts], "words": list(each.words),
            "slices": list(each.slices), "sentence": each.sentence,
        }
        for each in found[:_MAX_CLUSTERS]
    ]  # fmt: skip


def decision_of(decision: Decision) -> dict[str, Any]:
    """For the store: the paired tests of the gate by slice, and the change with its interval."""
    tests = [] if decision.gate is None else [asdict(each) for each in decision.gate.slices]
    return {
        "is_taken": decision.is_taken, "against": decision.against, "reason": decision.reason,
        "change": None if decision.change is None else asdict(decision.change), "tests": tests,
        "worse": [] if decision.gate is None else list(decision.gate.worse),
        "blind": [] if decision.gate is None else list(decision.gate.blind),
    }  # fmt: skip


def speed_of(model: Classifier, rules: Sequence[Rule], texts: Sequence[str]) -> float:
    """Texts a second from strings to decisions, each cut to 1,000 characters, one process, once."""
    cut = [text[:_SPEED_CHARS] for text in texts[:_SPEED_TEXTS]]
    begin = time.perf_counter()
    for start in range(0, len(cut), 1000):
        probabilities(model, rules, cut[start : start + 1000])
    return len(cut) / (time.perf_counter() - begin)


def score_of(fields: Mapping[str, float]) -> Score:
    return Score(value=fields["value"], low=fields["low"], high=fields["high"])


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
