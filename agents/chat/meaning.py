"""How near a question is in meaning to each kind of questions, told from prototypes of the kinds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from agents.chat.forms import Kind
from agents.chat.prototypes import PROTOTYPES
from agents.chat.questions import named
from context_store.embedding import Embedder


class Meaning:
    """A linear reading of the embedding: ridge regression of the kinds on their prototypes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def closeness(self, text: str, known_runs: Collection[str]) -> Mapping[Kind, float]:
        """Of every kind that has prototypes, about 0..1: mean over the question, and its form without its topic."""
        asked = self._embedder.embed([text, _without_topic(text, known_runs)])
        values = (asked @ _read(self._embedder)).mean(axis=0)
        return dict(zip(PROTOTYPES, values.tolist(), strict=True))


def _read(embedder: Embedder) -> NDArray[np.float32]:
    """[DIMENSIONS, kinds], once for each embedder of a process: seconds with a model."""
    if embedder not in _FITTED:
        prototypes = embedder.embed(
            [text for texts in PROTOTYPES.values() for text in texts]
        )  # [prototypes, DIMENSIONS]
        of_kind = np.asarray([[each is kind for kind in PROTOTYPES] for each in _KINDS], np.float32)
        within = prototypes @ prototypes.T + _RIDGE * np.eye(len(prototypes), dtype=np.float32)
        _FITTED[embedder] = (prototypes.T @ np.linalg.solve(within, of_kind)).astype(np.float32)
    return _FITTED[embedder]


_FITTED: WeakKeyDictionary[Embedder, NDArray[np.float32]] = WeakKeyDictionary()
_RIDGE = 1.0


_KINDS = tuple(kind for kind, texts in PROTOTYPES.items() for _ in texts)


def _without_topic(text: str, known_runs: Collection[str]) -> str:
    """Prototypes speak of "the run" and of X; a name says nothing of the kind, and would outweigh what does."""
    found, _ = named(text, known_runs)
    for each in found:
        text = text.replace(each, "the run")
    words = (word if word.lower() in _SPOKEN or not word[0].isalpha() else "X" for word in _WORD.findall(text))
    return _MANY_X.sub("X", " ".join(words)).replace(" '", "'")


_WORD = re.compile(r"[A-Za-z][\w-]*|\d[\w.,]*|[?,.!']")
_MANY_X = re.compile(r"\bX(?: (?:of |the |a |an |in |on )*X)+\b")
_SPOKEN = frozenset(word.lower() for texts in PROTOTYPES.values() for text in texts for word in _WORD.findall(text))
