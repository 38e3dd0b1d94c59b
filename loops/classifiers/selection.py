"""Which texts to have labelled next, and which labels to look at again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loops.classifiers.groups import Ints
from loops.classifiers.model import Bools, Floats


def next_to_label(
    probabilities: Floats,
    groups: Ints,
    labelled: Bools,
    num_texts: int,
    *,
    rng: np.random.Generator,
    share: float = 0.2,
) -> Ints:
    """Up to `num_texts` numbers of texts to be labelled: those the model is least sure of (Lewis and Gale 1994), and a
    `share` at random, without which a region the model is wrongly sure of is never seen. One of a group is enough, and
    a group with a label is not asked about again.
    """
    known = set(groups[labelled].tolist())
    unsure = np.argsort(np.abs(probabilities - 0.5), kind="stable")
    at_random = rng.permutation(probabilities.size)
    num_random = round(num_texts * share)
    chosen = _first_of_groups(unsure, groups, known, num_texts - num_random)
    chosen += _first_of_groups(at_random, groups, known, num_texts - len(chosen))
    return np.array(chosen, dtype=np.int64)


def suspicious_labels(probabilities: Floats, labels: Bools) -> Ints:
    """Numbers of texts whose label is probably wrong, the worst first; `probabilities` are out of fold.

    Suspicious is a label that a classifier which has not seen the text finds less probable than the other one; in
    order of that probability (Northcutt et al. 2021, the baseline `argmax` of section 5: here its recall was the best).
    """
    given = np.where(labels, probabilities, 1.0 - probabilities)
    suspicious = np.flatnonzero(given < 0.5)
    return suspicious[np.argsort(given[suspicious], kind="stable")]


def _first_of_groups(order: Sequence[int] | Ints, groups: Ints, known: set[int], num_texts: int) -> list[int]:
    """In this order, texts of groups that are not `known`; their groups become known."""
    chosen: list[int] = []
    for text in order:
        if len(chosen) == num_texts:
            break
        group = int(groups[text])
        if group not in known:
            known.add(group)
            chosen.append(int(text))
    return chosen
