"""The regression gate: a new version is not deployed when it is worse anywhere that can be told, however good overall.

Each slice (a source, a length, a language) gets a paired test of its own on the same texts; all slices together keep
one error rate. A slice that is too small to notice a loss is named as such: silence there proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from loops.classifiers.groups import Ints
from loops.classifiers.model import Bools

ERROR_RATE = 0.02  # chance that a version which is nowhere worse is stopped, all slices together
WHOLE = "all"


@dataclass(frozen=True, kw_only=True)
class SliceResult:
    """`lost`: groups that only the old version had right; `gained`: only the new one. `p`: one-sided, uncorrected.

    `detectable`: the least net loss, as a share of the slice's groups, that the gate would notice here if nothing were
    gained; above 1 no loss at all would be noticed.
    """

    name: str
    num_groups: int
    lost: int
    gained: int
    p: float
    is_worse: bool
    detectable: float


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """`passed`: no slice is worse beyond chance. `blind`: slices in which even the loss of everything would pass."""

    passed: bool
    slices: tuple[SliceResult, ...]

    @property
    def worse(self) -> tuple[str, ...]:
        """Names of the slices that stop the new version."""
        return tuple(each.name for each in self.slices if each.is_worse)

    @property
    def blind(self) -> tuple[str, ...]:
        """Names of the slices that say nothing."""
        return tuple(each.name for each in self.slices if each.detectable > 1.0)


def compare(
    old_right: Bools, new_right: Bools, groups: Ints, slices: Mapping[str, Sequence[str]], *, rate: float = ERROR_RATE
) -> GateResult:
    """Whether the new version may take the old one's place; all arrays (num_texts,), in the same order.

    `slices`: attribute -> value of each text; every value is a slice, named `attribute=value`, beside all texts. In a
    slice a group of near-duplicates counts once, for whichever version has more of it right. The test is the exact
    one-sided sign test on the groups that differ (McNemar 1947); Holm's correction (1979) keeps `rate` over all slices.
    """
    masks = {WHOLE: np.ones(groups.size, dtype=np.bool_)}
    for attribute, values in slices.items():
        column = np.asarray(values)
        masks.update({f"{attribute}={value}": column == value for value in sorted(set(values))})
    change = new_right.astype(np.int64) - old_right.astype(np.int64)
    counted = {name: _counts(change[mask], groups[mask]) for name, mask in masks.items()}
    p = np.array([_worse_p(lost, gained) for lost, gained, _ in counted.values()])
    stopped = _holm(p, rate)
    strictest = rate / len(masks)
    found = tuple(
        SliceResult(
            name=name, num_groups=size, lost=lost, gained=gained, p=float(p[row]), is_worse=bool(stopped[row]),
            detectable=_least_loss(strictest) / size,
        )
        for row, (name, (lost, gained, size)) in enumerate(counted.items())
    )  # fmt: skip
    return GateResult(passed=not stopped.any(), slices=found)


def _counts(change: Ints, groups: Ints) -> tuple[int, int, int]:
    """(groups lost, groups gained, groups)."""
    _, number = np.unique(groups, return_inverse=True)
    net = np.bincount(number, weights=change)
    return int((net < 0).sum()), int((net > 0).sum()), net.size


def _worse_p(lost: int, gained: int) -> float:
    """P(at least `lost` of the differing groups are losses | both equally likely)."""
    return float(special.bdtrc(lost - 1, lost + gained, 0.5)) if lost else 1.0


def _holm(p: np.ndarray[tuple[int], np.dtype[np.float64]], rate: float) -> Bools:
    order = np.argsort(p, kind="stable")
    passes = p[order] <= rate / np.arange(p.size, 0, -1)
    num = int(np.argmin(passes)) if not passes.all() else p.size
    rejected = np.zeros(p.size, dtype=np.bool_)
    rejected[order[:num]] = True
    return rejected


def _least_loss(rate: float) -> int:
    """Losses in a row, with no gain, whose chance is at most `rate`."""
    return int(np.ceil(-np.log2(rate)))
