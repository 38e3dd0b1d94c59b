"""Error analysis: mistakes in clusters with the words that make them alike, for a person, a model or a rule."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loops.classifiers.model import Bools

_MIN_TEXTS = 12  # fewer are shown as one cluster
_PER_CLUSTER = 8
_WORD = r"(?u)\b[^\W\d]{3,30}\b"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """`missed`: its texts are positive and were not found; otherwise false alarms. `texts`: numbers, most typical
    first. `words`: what sets it apart from texts that were told right. `slices`: attribute=value that nearly all share.
    """

    missed: bool
    texts: tuple[int, ...]
    words: tuple[str, ...]
    slices: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """For a list."""
        kind = "missed" if self.missed else "false alarms"
        where = f", nearly all {' and '.join(self.slices)}" if self.slices else ""
        return f"{len(self.texts)} {kind}{where}: {', '.join(self.words)}"


def clusters(
    texts: Sequence[str], predicted: Bools, labels: Bools, slices: Mapping[str, Sequence[str]]
) -> tuple[Cluster, ...]:
    """The mistakes by kind, then by likeness (k-means on tf-idf), the largest first. Deterministic."""
    found: list[Cluster] = []
    for missed in (True, False):
        wrong = np.flatnonzero(labels & ~predicted if missed else ~labels & predicted)
        if wrong.size:
            right = np.flatnonzero((predicted == labels) & (labels == missed))
            found += _grouped(
                [texts[each] for each in wrong.tolist()],
                wrong.tolist(),
                [texts[each] for each in right.tolist()],
                missed,
                slices,
            )
    return tuple(sorted(found, key=lambda each: -len(each.texts)))


def _grouped(
    mistakes: list[str], numbers: list[int], right: list[str], missed: bool, slices: Mapping[str, Sequence[str]]
) -> list[Cluster]:
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    reader = TfidfVectorizer(sublinear_tf=True, max_features=20_000, stop_words="english", token_pattern=_WORD)
    try:
        matrix = reader.fit_transform(mistakes + right)
    except ValueError:  # no word at all is left
        return [Cluster(missed=missed, texts=tuple(numbers), words=(), slices=_shared(numbers, slices))]
    ours, usual = matrix[: len(mistakes)], np.asarray(matrix[len(mistakes) :].mean(axis=0)).ravel() if right else 0.0
    num = 1 if len(mistakes) < _MIN_TEXTS else min(6, max(2, len(mistakes) // _PER_CLUSTER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different texts than clusters: then there are fewer clusters
        fitted = KMeans(num, n_init=4, random_state=0).fit(ours)
    names = reader.get_feature_names_out()
    clusters = []
    for number in sorted(set(fitted.labels_.tolist())):
        inside = np.flatnonzero(fitted.labels_ == number)
        centre = fitted.cluster_centers_[number]
        near = inside[np.argsort(-np.asarray(ours[inside] @ centre), kind="stable")]
        telling = centre - usual
        words = tuple(names[each] for each in np.argsort(-telling, kind="stable")[:6] if telling[each] > 0.0)
        chosen = tuple(numbers[each] for each in near)
        clusters.append(Cluster(missed=missed, texts=chosen, words=words, slices=_shared(chosen, slices)))
    return clusters


def _shared(numbers: Sequence[int], slices: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    found = []
    for attribute, values in slices.items():
        value, count = Counter(values[each] for each in numbers).most_common(1)[0]
        if count >= 0.9 * len(numbers):
            found.append(f"{attribute}={value}")
    return tuple(found)
