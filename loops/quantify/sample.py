"""Which texts judge, which are held out and which may be labelled for training: never one group in two of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contracts.errors import UserInputError
from loops.classifiers.groups import Ints
from loops.quantify.need import Need

_LARGE = 0.05  # a group with a larger share of the evaluation set would decide it alone


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Numbers of texts, ascending. `evaluation`: every version is judged and analysed on it. `held_out`: looked at
    once, before a deployment is proposed, since versions are tuned to the evaluation set (R801-5.6).
    """

    evaluation: Ints
    held_out: Ints
    pool: Ints


def sample(need: Need, groups: Ints, choosable: Sequence[int] | Ints) -> Sample:
    """Whole groups at random. `choosable`: texts that can be labelled; only these judge.

    Raises UserInputError when too few texts would be left for training.
    """
    order = np.random.default_rng(need.seed).permutation(np.unique(groups))
    wanted = {"evaluation": need.evaluation_size, "held_out": max(5, need.evaluation_size // 2)}
    members = _members(groups)
    can = np.zeros(groups.size, dtype=np.bool_)
    can[np.asarray(choosable, dtype=np.int64)] = True
    parts: dict[str, list[int]] = {name: [] for name in wanted}
    pool: list[int] = []
    for group in order.tolist():
        texts = members[group]
        part = next((name for name, size in wanted.items() if len(parts[name]) < size), None)
        fits = part is not None and can[texts].all() and texts.size <= max(1, _LARGE * need.evaluation_size)
        (parts[part] if fits and part is not None else pool).extend(texts.tolist())
    if len(pool) < need.first_labels or any(len(parts[name]) < size for name, size in wanted.items()):
        raise UserInputError(
            f"{groups.size} texts are too few: {sum(wanted.values())} would judge and only {len(pool)} would be left",
            remedy="give more texts, or a smaller --evaluation and --first",
        )
    held = {name: np.array(sorted(texts), dtype=np.int64) for name, texts in parts.items()}
    return Sample(evaluation=held["evaluation"], held_out=held["held_out"], pool=np.array(sorted(pool), dtype=np.int64))


def _members(groups: Ints) -> dict[int, Ints]:
    order = np.argsort(groups, kind="stable")
    names, first = np.unique(groups[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, first[1:]), strict=True))
