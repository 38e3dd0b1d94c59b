"""The best of several protocols without the reward for noise (R801-4.14).

The largest of P noisy scores is too high even when all protocols are equally good. Here the protocol is chosen without
the seed and the items on which it is then scored: two-way cross-fitting (selection apart from valuation as in van
Hasselt 2010, Double Q-learning, section 3; folds as in Chernozhukov et al. 2018). The estimate is unbiased for
protocols of equal skill, and never too high in expectation.

Shape letters: L ladders (independent cases), P protocols, R seeds, I items, F folds of items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from contracts.errors import UserInputError
from loops.evals.gaps import LEVEL
from loops.statistics.paired import sign_test_p

Floats = NDArray[np.float64]

NUM_FOLDS = 5
_ROUNDS = 200


@dataclass(frozen=True, kw_only=True)
class Best:
    """Best protocol of a checkpoint, in points. `value` is corrected; `naive` is the largest mean, for comparison.

    `chosen`: share of the folds in which each protocol was chosen; below 1 the best one is not certain.
    """

    protocol: str
    value: float
    low: float
    high: float
    naive: float
    correction: float
    means: Mapping[str, float]
    chosen: Mapping[str, float]


def corrected_maximum(right_PRI: Mapping[str, Floats]) -> Best:
    """`right_PRI`: by protocol, for each seed and item the share of right answers (0..1), the same items in all.

    Raises UserInputError when protocols have other seeds or items: sets are never mixed on one axis.
    """
    shapes = {values.shape for values in right_PRI.values()}
    if len(shapes) != 1 or next(iter(shapes))[1] < NUM_FOLDS:
        raise UserInputError(
            f"protocols have scores of shapes {sorted(shapes)} (seeds, items)",
            remedy=f"score every protocol on the same seeds and the same items, at least {NUM_FOLDS}",
        )
    names = list(right_PRI)
    all_PRI = np.stack([right_PRI[name] for name in names])
    fold_I = np.arange(all_PRI.shape[2]) % NUM_FOLDS
    sums_PRF = np.stack([all_PRI[:, :, fold_I == fold].sum(axis=2) for fold in range(NUM_FOLDS)], axis=2)
    sizes_F = np.bincount(fold_I, minlength=NUM_FOLDS).astype(np.float64)
    chosen_RF = cross_fitted(sums_PRF[None], sizes_F)[1][0]
    seeds = all_PRI.shape[1]
    own_RI = np.stack([all_PRI[chosen_RF[r][fold_I], r, np.arange(fold_I.size)] for r in range(seeds)])
    value = 100.0 * float(own_RI.mean())
    half = _half(own_RI) if seeds > 1 else _resampled_half(all_PRI, fold_I)
    means = {name: 100.0 * float(all_PRI[index].mean()) for index, name in enumerate(names)}
    best = max(means, key=lambda name: means[name])
    return Best(
        protocol=best,
        value=value,
        low=max(0.0, value - half),
        high=min(100.0, value + half),
        naive=means[best],
        correction=value - means[best],
        means=means,
        chosen={name: float((chosen_RF == index).mean()) for index, name in enumerate(names)},
    )


def cross_fitted(sums_LPRF: Floats, sizes_F: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """[L] corrected maxima (0..1) and [L, R, F] the protocol chosen for each seed and fold.

    `sums_LPRF`: right answers by protocol, seed and fold; `sizes_F`: items of each fold. With several seeds the choice
    for (r, f) is made on the other seeds and the other folds, with a single seed on the other folds.
    """
    seeds = sums_LPRF.shape[2]
    other_seeds = sums_LPRF.sum(axis=2, keepdims=True) - sums_LPRF if seeds > 1 else sums_LPRF
    other = other_seeds.sum(axis=3, keepdims=True) - other_seeds
    divisor = (sizes_F.sum() - sizes_F) * max(seeds - 1, 1)
    chosen_LRF = (other / divisor).argmax(axis=1)
    own_LRF = np.take_along_axis(sums_LPRF, chosen_LRF[:, None], axis=1)[:, 0]
    return own_LRF.sum(axis=(1, 2)) / (sizes_F.sum() * seeds), chosen_LRF


def rank_changes(before: Mapping[str, Floats], after: Mapping[str, Floats]) -> list[tuple[str, str]]:
    """Pairs of protocols whose order turned, and which the sign test by item separates before and after.

    Of each protocol the share of right answers of each item, the same items in all. The level is that of protocol
    gaps, divided by the number of pairs (Bonferroni); both sides must pass it.
    """
    pairs = list(combinations(sorted(before.keys() & after.keys()), 2))
    level = LEVEL / max(1, len(pairs))
    return [
        (one, other)
        for one, other in pairs
        if _turned(before[one] - before[other], after[one] - after[other])
        and max(_sign_p(each[one] - each[other]) for each in (before, after)) < level
    ]


def _turned(before_I: Floats, after_I: Floats) -> bool:
    return bool(before_I.mean() * after_I.mean() < 0)


def _sign_p(difference_I: Floats) -> float:
    gained, lost = int((difference_I > 0).sum()), int((difference_I < 0).sum())
    return sign_test_p(gained, gained + lost)


def _half(own_RI: Floats) -> float:
    """Half of the 95 % interval in points; item and seed variance are added, which counts some noise twice."""
    seeds, items = own_RI.shape
    item_variance = own_RI.mean(axis=0).var(ddof=1) / items
    seed_variance = own_RI.mean(axis=1).var(ddof=1) / seeds
    t = special.stdtrit(seeds - 1, 0.975)
    return 100.0 * float(np.hypot(special.ndtri(0.975) * np.sqrt(item_variance), t * np.sqrt(seed_variance)))


def _resampled_half(all_PRI: Floats, fold_I: NDArray[np.int64]) -> float:
    """As `_half`, of a single seed: the whole choice is repeated on items drawn anew within their folds (bootstrap).

    The choice itself varies, so that the variance of the items alone is too small; this one is rather too large.
    """
    rng = np.random.default_rng(0)
    sizes_F = np.bincount(fold_I, minlength=NUM_FOLDS).astype(np.float64)
    drawn = []
    for fold in range(NUM_FOLDS):
        own_PRI = all_PRI[:, :, fold_I == fold]
        picks_LI = rng.integers(0, own_PRI.shape[2], (_ROUNDS, own_PRI.shape[2]))
        drawn.append(own_PRI[:, :, picks_LI].sum(axis=3).transpose(2, 0, 1))
    values_L, _ = cross_fitted(np.stack(drawn, axis=3), sizes_F)
    return 100.0 * float(special.ndtri(0.975) * values_L.std(ddof=1))
