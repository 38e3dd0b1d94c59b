"""Rules that stand above a classifier: words that decide a text by themselves, where error analysis found such.

Shared with the one-file scorer, so nothing but the standard library and numpy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rule = tuple[tuple[str, ...], bool]  # a text with all of these words (lower case) is positive, or is not
SURE = 0.999  # probability of what a rule decides
_RULE_WORD = re.compile(r"[^\W\d]{3,30}")


def decided(texts: Sequence[str], rules: Sequence[Rule], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """`probabilities` (len(texts),), except where a rule holds; of several the first one counts."""
    if not rules:
        return probabilities
    found = probabilities.copy()
    for number, text in enumerate(texts):
        words = set(_RULE_WORD.findall(text.lower()))
        for wanted, positive in rules:
            if words.issuperset(wanted):
                found[number] = SURE if positive else 1.0 - SURE
                break
    return found
