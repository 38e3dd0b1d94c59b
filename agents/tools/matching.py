"""Which of a few hundred texts a question is about, by the words they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
_WORD = re.compile(r"[a-z]+|\d+")
_EMPTY = frozenset(
    {
        "anybody", "anyone", "nobody", "somebody", "someone", "cause", "caused", "causes", "explain", "idea", "reason",
        "reasons", "tell", "step", "iteration",
        "a", "about", "after", "again", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because",
        "been", "before", "but", "by", "can", "could", "did", "do", "does", "down", "each", "else", "ever", "find",
        "for", "from", "get", "got", "had", "happen", "happened", "happens", "has", "have", "he", "her", "here",
        "how", "i", "if", "in", "into", "is", "it", "its", "just", "know", "like", "made", "make", "me", "more",
        "my", "no", "not", "of", "on", "one", "or", "other", "our", "out", "over", "problem", "run", "same", "saw",
        "see", "seen", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
        "there", "these", "they", "thing", "this", "to", "too", "training", "tried", "try", "under", "up", "us",
        "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "why", "will", "with",
        "without", "would", "you", "your",
    }
)  # fmt: skip
_ENDINGS = ("ations", "ation", "ating", "ated", "ates", "ings", "ing", "ers", "er", "ed", "es", "ly", "s")
_FEWEST = 10  # among fewer texts, how rare a word is says little
_MIN_SHARE = 0.33  # of the question's weight that has to be found; less is a chance match


def words(text: str) -> list[str]:
    """Lower-case words that carry meaning, cut to a crude stem; identifiers fall into their words."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def best(question: str, items: Sequence[T], text_of: Callable[[T], str], *, limit: int) -> list[T]:
    """Items by the weight of the question's words they hold, rare words more; ties keep their order.

    The weight of a word is that of BM25 (Robertson & Zaragoza 2009, eq. 3.3). Items with under a third of the
    question's weight are no match.
    """
    asked = set(words(question))
    texts = [Counter(words(text_of(item))) for item in items]
    num_all = max(len(texts), _FEWEST)
    weight = {word: _rarity(sum(word in text for text in texts), num_all) for word in asked}
    whole = sum(weight.values())
    scores = [sum(weight[word] for word in asked if word in text) for text in texts]
    order = sorted(range(len(items)), key=lambda i: -scores[i])
    return [items[i] for i in order if whole > 0 and scores[i] >= _MIN_SHARE * whole][:limit]


def _rarity(num_holding: int, num_all: int) -> float:
    return math.log(1 + (num_all - num_holding + 0.5) / (num_holding + 0.5))


def _stem(word: str) -> str:
    """Endings of number, tense and noun forms off, so that `accumulating` and `accumulation` meet."""
    for ending in _ENDINGS:
        stem = word[: -len(ending)]
        if word.endswith(ending) and len(stem) >= 3 and not (ending == "s" and stem[-1] in "saiu"):
            return stem
    return word
