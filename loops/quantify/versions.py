"""One version of a classifier: trained, calibrated and measured. Pure functions of texts, labels and a recipe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from contracts.errors import UserInputError
from loops.classifiers import few_labels, mistakes
from loops.classifiers.groups import Ints, out_of_fold
from loops.classifiers.mistakes import Cluster
from loops.classifiers.model import Bools, Classifier, Floats, Settings, calibrated, logistic, train
from loops.classifiers.rules import Rule, decided
from loops.classifiers.selection import suspicious_labels
from loops.quantify.need import Need
from loops.quantify.revisions import Revision, RevisionKind

_FOLDS = 3
_LEAST = 4  # groups of each class; with fewer a fold has none of it
_RULE_TEXTS, _RULE_SHARE = 5, 0.95  # so many training texts have the words, and so many of these are of its class


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a version is made from labels. `without`: labels that look wrong are left out; `taught`: texts without a
    label teach it too (`few_labels.distilled`)."""

    strength: float = 30.0
    balanced: bool = True
    taught: bool = False
    without: bool = False
    rules: tuple[Rule, ...] = ()

    def revised(self, revision: Revision) -> Recipe:
        """With the revision's change; other labels change no recipe."""
        detail = {key: value for key, value in revision.detail.items() if key != "name"}
        match revision.kind:
            case RevisionKind.SETTINGS:
                return replace(self, **detail)
            case RevisionKind.WITHOUT:
                return replace(self, without=True)
            case RevisionKind.RULE:
                return replace(self, rules=(*self.rules, (tuple(detail["words"]), bool(detail["positive"]))))
        return self

    def settings(self, need: Need) -> Settings:
        return Settings(
            strength=self.strength, balanced=self.balanced, cost_false_positive=need.cost_false_positive,
            cost_false_negative=need.cost_false_negative,
        )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        return {**vars(self), "rules": [[list(words), positive] for words, positive in self.rules]}

    @classmethod
    def load(cls, fields: Mapping[str, Any]) -> Recipe:
        return cls(**{**fields, "rules": tuple((tuple(words), positive) for words, positive in fields["rules"])})


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Everything, in the order of the documents, (n,). `known`: has a label that counts; `pool`: may train."""

    texts: tuple[str, ...]
    groups: Ints
    slices: Mapping[str, Sequence[str]]
    known: Bools
    labels: Bools
    pool: Bools

    def part(self, numbers: Ints) -> list[str]:
        return [self.texts[each] for each in numbers.tolist()]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """`trained_on`: numbers of the texts whose labels were used; `suspicious`: those whose label looks wrong, the
    worst first; `clusters`: mistakes on training texts, by classifiers that had not seen them; `rules`: (words,
    positive, sentence) that these suggest."""

    model: Classifier
    trained_on: Ints
    suspicious: Ints
    clusters: tuple[Cluster, ...]
    rules: tuple[tuple[tuple[str, ...], bool, str], ...]
    seconds: float = field(default=0.0)


def make(corpus: Corpus, recipe: Recipe, need: Need) -> Trained:
    """Raises UserInputError when a class has too few labelled groups."""
    begin, numbers = time.perf_counter(), np.flatnonzero(corpus.known & corpus.pool)
    _require_both(corpus, numbers, need)
    settings = recipe.settings(need)
    texts, labels, groups = corpus.part(numbers), corpus.labels[numbers], corpus.groups[numbers]

    def fit(inside: Sequence[str], truth: Bools) -> Classifier:
        return train(inside, truth, settings)

    margins = out_of_fold(texts, labels, groups, fit, num_folds=_FOLDS)
    suspicious = suspicious_labels(logistic(margins), labels)
    clusters = mistakes.clusters(texts, margins > 0, labels, _of(corpus.slices, numbers))
    kept = np.setdiff1d(np.arange(numbers.size), suspicious) if recipe.without else np.arange(numbers.size)
    if recipe.taught:
        model, margins = _taught(corpus, numbers[kept], settings)
    else:
        model, margins = fit([texts[each] for each in kept.tolist()], labels[kept]), margins[kept]
    return Trained(
        model=calibrated(model, margins, labels[kept], settings),
        trained_on=numbers[kept],
        suspicious=numbers[suspicious],
        clusters=tuple(replace(each, texts=tuple(numbers[list(each.texts)].tolist())) for each in clusters),
        rules=_rules(texts, labels, clusters),
        seconds=time.perf_counter() - begin,
    )


def probabilities(model: Classifier, rules: Sequence[Rule], texts: Sequence[str]) -> Floats:
    return decided(texts, rules, model.probabilities(texts))


def values_of(right: Bools, labels: Bools, need: Need) -> Floats:
    """1 for a right answer; a mistake costs its share of the dearer kind of mistake."""
    cost = np.where(labels, need.cost_false_negative, need.cost_false_positive)
    return np.where(right, 1.0, 1.0 - cost / max(need.cost_false_negative, need.cost_false_positive))


def _taught(corpus: Corpus, numbers: Ints, settings: Settings) -> tuple[Classifier, Floats]:
    """(classifier that the whole pool teaches, margins of `numbers` by ones that did not know their labels)."""
    from sklearn.model_selection import StratifiedGroupKFold

    pool = np.flatnonzero(corpus.pool)
    texts = few_labels.pool(corpus.part(pool), corpus.groups[pool])
    place = np.searchsorted(pool, numbers)
    labels, margins = corpus.labels[pool], np.zeros(numbers.size)
    split = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0).split
    for inside, outside in split(np.zeros(numbers.size), labels[place], corpus.groups[numbers]):
        model = few_labels.distilled(texts, _mask(pool.size, place[inside]), labels, settings)
        margins[outside] = model.margins(corpus.part(numbers[outside]))
    return few_labels.distilled(texts, _mask(pool.size, place), labels, settings), margins


def _require_both(corpus: Corpus, numbers: Ints, need: Need) -> None:
    for positive, name in ((True, need.positive), (False, need.negative)):
        num = np.unique(corpus.groups[numbers[corpus.labels[numbers] == positive]]).size
        if num < _LEAST:
            raise UserInputError(
                f"only {num} labelled texts for training are {name}", remedy=f"label at least {_LEAST} of each class"
            )


def _rules(
    texts: list[str], labels: Bools, clusters: Sequence[Cluster]
) -> tuple[tuple[tuple[str, ...], bool, str], ...]:
    """The two words of each cluster, where they tell the class in nearly all training texts that have both."""
    found = []
    for cluster in clusters:
        words = cluster.words[:2]
        if len(words) < 2:
            continue
        has = decided(texts, [(words, True)], np.zeros(len(texts))) > 0.0
        if has.sum() >= _RULE_TEXTS and (labels[has] == cluster.missed).mean() >= _RULE_SHARE:
            found.append((words, cluster.missed, f"{cluster.sentence}: a rule on {' and '.join(words)}"))
    return tuple(found)


def _of(slices: Mapping[str, Sequence[str]], numbers: Ints) -> dict[str, list[str]]:
    return {name: [values[each] for each in numbers.tolist()] for name, values in slices.items()}


def _mask(size: int, numbers: Ints) -> Bools:
    mask = np.zeros(size, dtype=np.bool_)
    mask[numbers] = True
    return mask
