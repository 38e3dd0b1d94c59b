"""A small corpus with two kinds of texts, slices and near-duplicates, from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OFFERS = (
    "win",
    "free",
    "prize",
    "offer",
    "cash",
    "urgent",
    "click",
    "guarantee",
    "limited",
    "bonus",
    "cheap",
    "deal",
    "today",
    "winner",
    "credit",
)
_LETTERS = (
    "meeting",
    "patch",
    "compile",
    "thread",
    "list",
    "kernel",
    "review",
    "branch",
    "build",
    "release",
    "question",
    "server",
    "thanks",
    "module",
)
_BOTH = (
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "is",
    "it",
    "you",
    "that",
    "on",
    "for",
    "with",
    "as",
    "this",
    "have",
    "from",
    "we",
    "be",
    "not",
)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """`texts` with `labels` (True: an offer), the `source` of each, and `copies`: pairs of near-duplicates."""

    texts: list[str]
    labels: NDArray[np.bool_]
    source: list[str]
    copies: list[tuple[int, int]]


def corpus(num_texts: int = 300, *, seed: int = 0, num_copies: int = 20, length: int = 60) -> Corpus:
    """A third of the texts are offers; a tenth of the telling words are of the other kind."""
    rng = np.random.default_rng(seed)
    labels = rng.random(num_texts) < 1 / 3
    texts = [_text(bool(label), length, rng) for label in labels]
    source = [str(each) for each in rng.choice(["web", "list", "shop"], num_texts)]
    copies = []
    for original in rng.permutation(num_texts)[:num_copies].tolist():
        copies.append((original, len(texts)))
        texts.append(texts[original] + " forwarded")
        source.append(source[original])
        labels = np.append(labels, labels[original])
    return Corpus(texts=texts, labels=labels, source=source, copies=copies)


def _text(offer: bool, length: int, rng: np.random.Generator) -> str:
    telling = rng.random(length) < 0.25
    swapped = rng.random(length) < 0.1
    ours, theirs = (_OFFERS, _LETTERS) if offer else (_LETTERS, _OFFERS)
    return " ".join(
        str(rng.choice(_BOTH if not tells else theirs if swap else ours))
        for tells, swap in zip(telling, swapped, strict=True)
    )
