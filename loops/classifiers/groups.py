"""Groups of near-duplicates, and folds that never split one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from loops.classifiers.features import columns
from loops.classifiers.model import Bools, Classifier, Floats

Ints = NDArray[np.int64]
_NUM_HASHES, _BANDS = 64, 16  # two texts with Jaccard similarity 0.7 meet in a band with probability 0.99
_MARGIN = 0.1  # nearly twice the error of an estimate from so many hashes
SAME = 0.6  # Jaccard similarity of words, pairs and tokens from which on two texts are near-duplicates


def near_duplicates(texts: Sequence[str]) -> Ints:
    """Group number of each text, (len(texts),): texts whose elements are the same to `SAME` or more, directly or by a
    chain of such texts. Candidates by MinHash with bands (Broder 1997); each is verified by its real similarity.
    """
    found, start = columns(texts, triples=False)
    sets = [found[begin:end] for begin, end in itertools.pairwise(start)]
    parent = np.arange(len(sets))
    for left, right in _candidates(_signatures(found, start)):
        a, b = _root(parent, left), _root(parent, right)
        if a != b and _jaccard(sets[left], sets[right]) >= SAME:
            parent[max(a, b)] = min(a, b)
    return np.array([_root(parent, each) for each in range(len(sets))], dtype=np.int64)


def out_of_fold(
    texts: Sequence[str],
    labels: Bools,
    groups: Ints,
    fit: Callable[[Sequence[str], Bools], Classifier],
    *,
    num_folds: int = 5,
    seed: int = 0,
) -> Floats:
    """Margin of each text by a classifier that saw neither it nor any of its group, (len(texts),)."""
    from sklearn.model_selection import StratifiedGroupKFold

    margins = np.zeros(len(texts))
    folds = StratifiedGroupKFold(num_folds, shuffle=True, random_state=seed)
    for inside, outside in folds.split(np.zeros(len(texts)), labels, groups):
        model = fit([texts[each] for each in inside], labels[inside])
        margins[outside] = model.margins([texts[each] for each in outside])
    return margins


def signatures(texts: Sequence[str]) -> NDArray[np.uint64]:
    """MinHash values by which texts are known without being kept, (len(texts), 64)."""
    return _signatures(*columns(texts, triples=False))


def resembling(known: NDArray[np.uint64], new: NDArray[np.uint64]) -> Bools:
    """Which of the new ones are probably near-duplicates of a known one, by their signatures, (new.shape[0],). The
    share of equal values estimates the similarity; a margin makes sure of those a little below `SAME` too."""
    width, places = _NUM_HASHES // _BANDS, dict[tuple[int, bytes], list[int]]()
    for band in range(_BANDS):
        for number, part in enumerate(known[:, band * width : (band + 1) * width]):
            places.setdefault((band, part.tobytes()), []).append(number)
    found = np.zeros(new.shape[0], dtype=np.bool_)
    for number, each in enumerate(new):
        bands = ((band, each[band * width : (band + 1) * width].tobytes()) for band in range(_BANDS))
        met = sorted({other for key in bands for other in places.get(key, ())})
        found[number] = bool(met) and float((known[met] == each).mean(axis=1).max()) >= SAME - _MARGIN
    return found


def _signatures(found: Ints, start: Ints) -> NDArray[np.uint64]:
    """MinHash values, (num_texts, _NUM_HASHES); an empty text has the largest value everywhere."""
    rng = np.random.default_rng(0)
    odd = rng.integers(1, 2**63, _NUM_HASHES, dtype=np.uint64) | np.uint64(1)
    values = np.full((start.size - 1, _NUM_HASHES), np.iinfo(np.uint64).max)
    filled = np.flatnonzero(np.diff(start))
    for number, factor in enumerate(odd):
        hashes = (found.astype(np.uint64) + np.uint64(1)) * factor
        hashes = (hashes ^ (hashes >> np.uint64(31))) * factor
        values[filled, number] = np.minimum.reduceat(hashes, start[:-1][filled])
    return values


def _candidates(signatures: NDArray[np.uint64]) -> set[tuple[int, int]]:
    """Pairs with an equal band; of many equal ones each with the one before it."""
    width = _NUM_HASHES // _BANDS
    pairs: set[tuple[int, int]] = set()
    for band in range(_BANDS):
        part = signatures[:, band * width : (band + 1) * width]
        order = np.lexsort(part.T[::-1])
        same = np.flatnonzero((part[order][1:] == part[order][:-1]).all(axis=1))
        pairs.update((int(order[each]), int(order[each + 1])) for each in same)
    return pairs


def _jaccard(left: Ints, right: Ints) -> float:
    shared = np.intersect1d(left, right, assume_unique=True).size
    union = left.size + right.size - shared
    return shared / union if union else 1.0


def _root(parent: Ints, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = int(parent[node])
    return node
