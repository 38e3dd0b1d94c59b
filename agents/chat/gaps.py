"""What a question asks for that no stored text speaks of: then what is near it is no answer.

Told by form: a name (`FlashAttention`, `MMLU`), the thing that is asked for (`which datacentre`, `the hostname of`),
who did what nobody is said to have done, and what would be if a training went on.
"""

from __future__ import annotations

import re

from agents.chat.places import Places, foreign_names, general, lacks_quality
from agents.chat.questions import Asked
from agents.tools.matching import words

_THING_OF = re.compile(
    r"\bwhat(?:'s|s| is| was| were) (?:the|their) ((?:[\w-]+ ){0,2}?[\w-]+) (?:of|for|that|in|when|the)\b",
    re.IGNORECASE,
)
_WHO = re.compile(r"^\W*(?:and |so )?who (?:at [\w ]+? |in [\w ]+? |else |was it that )?(\w+)", re.IGNORECASE)
_KNOWN_DEEDS = frozenset(
    words(
        "is was are were did does do has had gave approved signed wrote committed changed decided put made said "
        "authored touched edited added accepted agreed allowed okayed let proposed to"
    )
)
_WOULD_BE = re.compile(
    r"\bif (?:we|i|you) (?:keep|let|train|continue|go on)\b"
    r"|\bwill\b.*\b(?:be|get|end up|reach|blow|diverge|happen|come back)\b"
    r"|\bwould .* with (?:\d+|twice|more)\b",
    re.IGNORECASE,
)
_RELATED = 0.4  # cosine: what is asked about may be told in other words
_MOST = 0.5  # of the words of a thing that have to be told


def missing(asked: Asked, told: str, rest_means: float, places: Places) -> str:
    """What is asked for and not told, "" for nothing. `rest_means`: how near the best passage comes to it."""
    there = set(words(told))
    if _WOULD_BE.search(asked.text):
        return "what would be if a training went on"
    if names := foreign_names(asked.rest, told):
        return f"'{names[0]}'"
    if places.is_foreign(asked, told):
        return f"'{asked.focus.strip()}'"
    if lacks_quality(asked, there):
        return "the quantity that is asked for"
    subject = set(words(asked.subject)) - general()
    if subject and not subject & there and rest_means < _RELATED:
        return f"'{asked.subject.strip()}'"
    thing = _THING_OF.search(asked.rest)
    if thing and (named := set(words(thing[1])) - general()) and len(named - there) > _MOST * len(named):
        return f"'{thing[1]}'"
    deed = _WHO.search(asked.rest)
    if deed and (done := set(words(deed[1]))) and not done & (there | _KNOWN_DEEDS):
        return f"who {deed[1]} it"
    return ""
