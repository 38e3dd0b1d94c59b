"""Second versions of a classifier whose truth is known: better overall and worse in one slice, or nowhere worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
# (what the first version has right, slices, rng) -> (what the second has right, the slice that became worse)
Generator = Callable[[Bools, Mapping[str, Sequence[str]], np.random.Generator], tuple[Bools, str]]
_LEAST = 80  # texts in a slice that is made worse: half of its right ones are many enough to be seen
_LOSS = 0.3


def one_slice_down(right: Bools, slices: Mapping[str, Sequence[str]], rng: np.random.Generator) -> tuple[Bools, str]:
    """A slice drawn at random loses 30 % of what was right in it; elsewhere as many mistakes are mended, and more."""
    names = sorted({(attribute, value) for attribute, values in slices.items() for value in set(values)})
    sizes = {each: np.asarray(slices[each[0]]) == each[1] for each in names}
    fitting = [each for each in names if sizes[each].sum() >= _LEAST and _can_rise(right, sizes[each])]
    chosen = fitting[int(rng.integers(len(fitting)))]
    inside, new = sizes[chosen], right.copy()
    lost = rng.permutation(np.flatnonzero(right & inside))[: _num_lost(right, inside)]
    new[lost] = False
    wrong = rng.permutation(np.flatnonzero(~right & ~inside))
    new[wrong[: lost.size + max(1, (wrong.size - lost.size) // 2)]] = True
    return new, f"{chosen[0]}={chosen[1]}"


def nowhere_worse(right: Bools, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Two versions that differ in ten per cent of the texts; each of these is right in the one or the other, by a coin.

    In no slice is one of them better than the other but by chance.
    """
    differs, first = rng.random(right.size) < 0.1, rng.random(right.size) < 0.5
    return np.where(differs, first, right), np.where(differs, ~first, right)


def _num_lost(right: Bools, inside: Bools) -> int:
    return max(20, round(_LOSS * float((right & inside).sum())))


def _can_rise(right: Bools, inside: Bools) -> bool:
    return int((~right & ~inside).sum()) > _num_lost(right, inside) and int((right & inside).sum()) > 40
