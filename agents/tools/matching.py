"""Which of a few hundred texts a question is about, by the words they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
_WORD = re.compile(r"\d+b\b|[a-z]+\d+|[a-z]+|\d+")
_EMPTY = frozenset(
    {
        "a", "about", "actually", "after", "again", "against", "all", "also", "am", "an", "and", "any", "anybody",
        "anyone", "anyway", "are", "around", "as", "at", "be", "because", "been", "before", "being", "between",
        "bit", "both", "but", "by", "can", "cause", "caused", "causes", "causing", "could", "couldn", "did", "didn",
        "do", "does", "doesn", "don", "down", "during", "each", "either", "else", "ever", "every", "everybody",
        "explain", "finally", "find", "for", "from", "gave", "get", "give", "given", "got", "had", "happen",
        "happened", "happens", "has", "have", "he", "her", "here", "hey", "hi", "how", "i", "idea", "if", "in",
        "into", "is", "isn", "it", "iteration", "its", "just", "kind", "know", "let", "like", "lot", "made", "make",
        "may", "maybe", "me", "might", "more", "must", "my", "need", "neither", "never", "no", "nobody", "not", "of",
        "off", "ok", "okay", "on", "one", "only", "or", "other", "our", "out", "over", "own", "people", "perhaps",
        "please", "pls", "problem", "quite", "really", "reason", "reasons", "run", "s", "said", "same", "saw", "say",
        "says", "see", "seen", "shall", "she", "should", "simply", "since", "so", "some", "somebody", "someone",
        "sort", "step", "still", "such", "t", "tell", "than", "thanks", "that", "the", "their", "them", "then",
        "there", "these", "they", "thing", "this", "those", "through", "to", "too", "training", "tried", "try",
        "under", "up", "us", "usually", "very", "want", "wanted", "wants", "was", "wasn", "way", "we", "were",
        "what", "when", "where", "whether", "which", "while", "who", "why", "will", "with", "within", "without",
        "won", "would", "yet", "you", "your",
    }
)  # fmt: skip
_SAME = tuple(
    (re.compile(rf"\b(?:{pattern})(?![a-z])"), name)
    for pattern, name in (
        (r"learning rates?", "lr"),
        (r"gradients? norms?|norms? of (?:the )?gradients?|size of (?:the )?gradients?", "grad norm"),
        (
            r"data[- ]?parallel(?:ism)?(?: (?:size|degree|ranks|width))?|"
            r"(?:number of|how many) (?:gpus|ranks|devices)|gpu counts?",
            "dp size",
        ),
        (r"training speed|speed|tokens? (?:per|a|each) second|tokens/s|tok/s", "throughput"),
        (r"time (?:per|of a|for a) step|seconds (?:per|a) step", "step time"),
        (r"(?:load[- ]?)?balanc\w+[- ](?:loss|penalty|term)", "balance loss"),
        (r"balancing|balanced", "balance"),
        (r"gradients|grads", "grad norm"),
        (
            r"samples? (?:are |were )?(?:seen |read |trained )?twice|(?:repeated|duplicated?|same) samples?",
            "repeated samples",
        ),
        (r"experts? (?:per|for each|a) token|experts? (?:is|are) chosen", "top k"),
        (r"(?:data|training) mix(?:es)?|mix of (?:the )?data", "mixture"),
        (r"freez\w*|froze\w*|stuck|stall\w*|deadlock\w*|hung|hang(?:s|ing)?", "hang"),
        (r"crept|creep(?:s|ing)?", "creep"),
        (r"dedup\w*", "dedup"),
        (r"corpora", "corpus"),
        (r"(?:adam|adamw|optimi[sz]er)(?:['’]?s)? (?:states?|moments?|buffers?|statistics)", "optimizer state"),
        (r"thr(?:own|ow|owing)[- ]away|discard\w*", "discard"),
        (r"wip(?:e|ed|ing)", "reset"),
        (r"(?:older|earlier|previous) (?:saves?|snapshots?)", "earlier checkpoint"),
        (r"regex(?:es|ps?)?", "regular expression"),
        (r"layer ?norms?|rms ?norms?|normaliz\w+|normalis\w+", "normalisation"),
        (r"params", "weights"),
        (r"swap\w*|exchang\w+|switched|substitut\w+", "replace"),
        (r"data ?loaders?", "loader"),
        (r"cool-?downs?", "cool down"),
        (r"(?:went|going|go|goes|gone|roll(?:ed|ing)?) back|roll-?backs?|revert(?:ed|s|ing)?", "revert"),
        (r"roll(?:ed|ing)? (\w+) back", r"\1 revert"),
        (r"(?:lost|losing|lose) speed|slow(?:er|ed|s|down)?", "throughput"),
        (r"spik(?:y|es?|ed|ing)", "spike"),
        (r"machines?|hardware", "hardware"),
        (r"gpus", "gpu"),
        (r"clean-?ups?|refactor\w*", "refactor"),
        (r"(\d+) ?bs?(?![a-z])", r"\1b"),
        (r"auxiliary", "aux"),
        (r"language[- ]model(?:l?ing)?(?: loss)?", "lm loss"),
        (r"max(?:imum|imal)? violation|maxvio", "max vio"),
        (r"evaluations?|validations?|val", "eval"),
        (r"fractions?|proportions?|percentages?", "share"),
        (r"attn", "attention"),
        (r"docs", "documentation"),
        (r"warm[- ]?up", "warmup"),
        (r"second moment", "beta2"),
        (r"optimis", "optimiz"),
        (r"re-runs?|reruns?|re-ran|reran", "rerun"),
        (r"restart(?:ed|s|ing)?|resum(?:e|ed|es|ing|ption)", "resume"),
        (r"how (?:large|big) (?:is|was|are|were) (?:the |each |a )?(\w+)", r"\1 size"),
        (r"how many|number of", "num"),
    )
)  # other words for the same thing, told alike
_DOUBLED = re.compile(r"([bdgmnprt])\1$")
_SHORT = 4
_ENDINGS = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "ers", "er", "ed", "es", "ly", "s")
_FEWEST = 10  # among fewer texts, how rare a word is says little
_FEWEST_NAMED, _MOST = 2, 0.6
MIN_SHARE = 0.33  # of the question's weight that has to be found; less is a chance match


def words(text: str) -> list[str]:
    """Lower-case words that carry meaning, cut to a crude stem; identifiers fall into their words."""
    plain = text.lower().replace("_", " ")
    for form, name in _SAME:
        plain = form.sub(name, plain)
    return [_stem(word) for word in _WORD.findall(plain) if word not in _EMPTY]


def best(
    question: str, items: Sequence[T], text_of: Callable[[T], str], *, limit: int, min_share: float = MIN_SHARE
) -> list[T]:
    """Items by the weight of the question's words they hold, rare words more; ties keep their order.

    The weight of a word is that of BM25 (Robertson & Zaragoza 2009, eq. 3.3). Items with under `min_share` of the
    question's weight are no match.
    """
    asked = set(words(question))
    texts = [Counter(words(text_of(item))) for item in items]
    num_all = max(len(texts), _FEWEST)
    weight = {word: _rarity(sum(word in text for text in texts), num_all) for word in asked}
    whole = sum(weight.values())
    scores = [sum(weight[word] for word in asked if word in text) for text in texts]
    order = sorted(range(len(items)), key=lambda i: -scores[i])
    return [items[i] for i in order if whole > 0 and scores[i] >= min_share * whole][:limit]


def names(question: str, phrase: str) -> bool:
    """True when the question holds most words of a phrase, two at least: it names what the phrase says."""
    asked, told = set(words(question)), set(words(phrase))
    shared = len(asked & told)
    return shared >= _FEWEST_NAMED and shared >= _MOST * len(told)


def _rarity(num_holding: int, num_all: int) -> float:
    return math.log(1 + (num_all - num_holding + 0.5) / (num_holding + 0.5))


def _stem(word: str) -> str:
    """Endings of number, tense and noun forms off, so that `accumulating` and `accumulation` meet."""
    for ending in _ENDINGS:
        stem = word[: -len(ending)]
        if word.endswith(ending) and len(stem) >= 3 and not (ending == "s" and stem[-1] in "saiu"):
            return stem[:-1] if _DOUBLED.search(stem) else stem
    return word[:-1] if word.endswith("e") and len(word) > _SHORT else word
