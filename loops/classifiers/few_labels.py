"""Much from few labels: what the unlabelled texts say about each other stands in for labels nobody has paid for.

Two views of every text are fitted to the few labels: its hashed elements, and its place among all texts (latent
semantic analysis, Deerwester et al. 1990). Their mean probability teaches a classifier on all texts, each weighted by
how sure the mean is. A label holds for the whole group of near-duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from loops.classifiers.groups import Ints
from loops.classifiers.model import Bools, Classifier, Floats, Settings, as_matrix, train_on
from loops.classifiers.selection import next_to_label

_DIMENSIONS = 150
_TAUGHT = 0.3  # weight of a text whose label comes from the mean, next to one that was labelled


@dataclass(frozen=True, kw_only=True)
class Pool:
    """All texts that may be labelled, (n,): their hashed elements, their places (n, _DIMENSIONS), their groups."""

    elements: sparse.csr_matrix
    places: Floats
    groups: Ints

    def known(self, labelled: Bools, labels: Bools) -> tuple[Bools, Bools]:
        """`labelled` and `labels` spread over groups; where a group was labelled twice the last one holds."""
        _, number = np.unique(self.groups, return_inverse=True)
        answer = np.zeros(number.max() + 1, dtype=np.int64)
        answer[number[labelled]] = np.where(labels[labelled], 1, -1)
        return answer[number] != 0, answer[number] > 0


def pool(texts: Sequence[str], groups: Ints) -> Pool:
    """Without any label."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    elements = as_matrix(texts)
    seen = np.asarray((elements > 0).sum(axis=0)).ravel()
    kept = np.flatnonzero((seen >= 3) & (seen < 0.5 * len(texts)))
    weights = np.log((1.0 + len(texts)) / (1.0 + seen[kept])).astype(np.float32)
    weighted = normalize(elements[:, kept].multiply(weights).tocsr())
    dimensions = min(_DIMENSIONS, kept.size - 1, len(texts) - 1)
    places = TruncatedSVD(dimensions, random_state=0, n_iter=3).fit_transform(weighted)
    return Pool(elements=elements, places=normalize(places), groups=groups)


def beliefs(texts: Pool, labelled: Bools, labels: Bools) -> Floats:
    """Mean probability by both views, (n,); `labels` counts only where `labelled`. Needs both classes."""
    from sklearn.linear_model import LogisticRegression

    known, value = texts.known(labelled, labels)
    by_place = LogisticRegression(C=30.0, class_weight="balanced", max_iter=500).fit(texts.places[known], value[known])
    by_element = LogisticRegression(C=30.0, class_weight="balanced", solver="liblinear", random_state=0)
    by_element.fit(texts.elements[known], value[known])
    both = by_place.predict_proba(texts.places)[:, 1] + by_element.predict_proba(texts.elements)[:, 1]
    return np.asarray(0.5 * both, dtype=np.float64)


def distilled(texts: Pool, labelled: Bools, labels: Bools, settings: Settings | None = None) -> Classifier:
    """The compact classifier that a pool with few labels teaches."""
    believed = beliefs(texts, labelled, labels)
    known, value = texts.known(labelled, labels)
    target = np.where(known, value, believed >= 0.5)
    weight = np.where(known, 1.0, _TAUGHT * np.abs(2.0 * believed - 1.0))
    return train_on(texts.elements, target, settings or Settings(), weight)


def ask_next(texts: Pool, labelled: Bools, labels: Bools, num_texts: int, *, rng: np.random.Generator) -> Ints:
    """Numbers of the texts whose labels would say most now; at random as long as one of the classes is missing."""
    known, value = texts.known(labelled, labels)
    if value[known].all() or not value[known].any():
        believed = np.full(labelled.size, 0.5)
        return next_to_label(believed, texts.groups, known, num_texts, rng=rng, share=1.0)
    return next_to_label(beliefs(texts, labelled, labels), texts.groups, known, num_texts, rng=rng, share=0.1)
