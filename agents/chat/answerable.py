"""Whether what is asked for stands in what is stored; if not, what is missing.

What answers has to hold the slot of the question (reading): a remedy or a suspect has to be among what was tried,
suspected or changed; a number needs a number of that quantity; who did something needs a recorded deed of that kind; a
name that is asked of a thing needs that thing. A thing is there when one passage holds most of its words, or means
about the same. Beside the slot: proper names, qualified quantities and the future.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from agents.chat.answer import Answer
from agents.chat.deciding import is_meant
from agents.chat.forms import Kind
from agents.chat.passages import Part, Passage
from agents.chat.places import foreign_names, general, lacks_quality
from agents.chat.questions import Asked
from agents.chat.reading import Slot
from agents.chat.weighing import Weighed, vectors_of, words_of
from agents.chat.weights import NEAR
from agents.tools.matching import words
from context_store.embedding import Embedder, HashedEmbedder

_HOLDS, _MEANS = 0.6, 0.5  # share of a remedy's words in one passage; cosine of it to a passage
_SUSPECTED, _SUSPECT_MEANS = 0.33, 0.4  # the same of a suspect, which people describe in words of their own
_HALF = 0.5  # of a quantity, where a run's own numbers stand
_ALL = 0.99  # of a thing whose presence is asked for, and of one that makes up for a case that is not near
_NEAR_RUN = 3.65  # the same where the only case is one of a run with steps, and the question names no run
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|half|twice|few|several|dozens?|hundreds?|thousands?|never"
    r"|none|nothing)\b",
    re.IGNORECASE,
)
_LASTS = re.compile(
    r"\b(?:\d+(?:,\d{3})*|few|several|hundreds?|thousands?|two|three|four|five|six|nine|ten) "
    r"(?:thousand |hundred |more )?(?:steps?|iterations?|seconds?|minutes?|hours?|days?|weeks?|months?)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?<=[.;:!?])\s+|,\s+")
_WOULD_BE = re.compile(
    r"\bif (?:we|i|you) (?:keep|let|train|continue|go on)\b"
    r"|\bwill\b.*\b(?:be|get|end up|reach|blow|diverge|happen|come back|stay)\b"
    r"|\bwould .* with (?:\d+|twice|more)\b",
    re.IGNORECASE,
)
_DEED = re.compile(
    r"^\W*(?:and |so )?(?:who|by whom) (?:at [\w ]+? |in [\w ]+? |was it that |was |is )?(?P<deed>[\w']+)",
    re.IGNORECASE,
)
_DEEDS = frozenset(
    words(
        "gave approved signed agreed allowed okayed accepted let said wrote committed changed put made authored "
        "touched edited added introduced proposed decided broke had has was is did"
    )
)
_CONSENT = frozenset(words("gave approved signed agreed allowed okayed accepted let said"))
_PERSON = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
_WHOLE = re.compile(r"\b\d+\b")
_TYPES = frozenset(
    words(
        "commit commits edits curve metric series quantity signal symptom number plot graph version job run model "
        "person change incident thing kind way setting field people time line file patch patches remedy "
        "remedies fix repair pr prs part component module place piece layer expert node machine environment "
        "refactoring torch library text weights config case cause reason one ones theory theories candidate "
        "experiment attempt step option damage risk danger error effect evidence proof verdict seed guess idea "
        "test mistake fault bug fluke luck coincidence noise chance trouble hang jump mess training hardware logs "
        "knowledge"
    )
)  # what kind of thing is asked for, not which one
_MANNER = frozenset(
    words(
        "smaller bigger larger lower higher older newer faster slower longer shorter tighter looser stronger "
        "plain pure simple latest newest very extra missing different same keep kept keeping put putting turn "
        "turning switch switching go going move moving roll rolling get getting let use using off on away "
        "slightly half many altogether peak total overall exactly itself harder"
    )
)  # how, not what
_COUNTED = frozenset(
    words(
        "num many much value total altogether overall peak final last average rough roughly share fraction percentage"
    )
)
_PARTY = re.compile(
    r"\b(?:the|their|our|another|other) ((?!same\b|whole\b)\w+) (?:team|group|lab|department|people upstairs)\b",
    re.IGNORECASE,
)


class Answerable:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def of_a_case(self, asked: Asked, weighed: Weighed, *, general: bool) -> str:
        """What is asked for and not there, of cases that are told in words only; "" for nothing."""
        named = held(_wanted(asked), weighed.leading) >= _ALL
        if not is_meant(weighed.case_near, sure=general or named, least=NEAR):
            return "nothing stored is near this question"
        return _missing(asked, weighed.told) or self._slot(asked, weighed)

    def of_a_run(self, asked: Asked, weighed: Weighed, by_rules: Answer, stored: str) -> str:
        """The same of a run with steps, of which `stored` names all that was measured and configured."""
        if gap := _missing(asked, f"{weighed.told} {stored}"):
            return gap
        people = [each for each in _PERSON.findall(asked.rest) if not set(words(each)) & set(words(weighed.told))]
        if asked.kind is Kind.HISTORY and people:
            return f"nothing stored is by '{people[0]}'"
        if asked.kind is Kind.DECISIONS and (gap := _undecided(asked, weighed.leading)):
            return gap
        if not (asked.runs or by_rules.known) and weighed.case_near < _NEAR_RUN:
            return "nothing stored is near this question"
        if asked.reading.slot is Slot.AMOUNT and by_rules.known:
            return ""
        return self._slot(asked, weighed, stored)

    def _slot(self, asked: Asked, weighed: Weighed, stored: str = "") -> str:
        thing, slot, passages = asked.reading.thing, asked.reading.slot, weighed.leading
        if slot is Slot.WHO:
            return _deed(asked, weighed.leading)
        if not (wanted := _wanted(asked)):
            return ""
        if slot is Slot.AMOUNT:
            least = _HALF if stored else _HOLDS
            return "" if _has_number(wanted, passages, least) else f"no number of '{thing}' is recorded there"
        if slot is Slot.DURATION:
            lasting = [each for each in passages if _LASTS.search(each.row.text)]
            there = bool(lasting) and held(wanted, lasting) >= _HOLDS
            return "" if there else f"how long '{thing}' lasted is not recorded there"
        share, means = held(wanted, passages), self.meant(thing, passages)
        if slot is Slot.REMEDY and share < _HOLDS and means < _MEANS:
            return f"'{thing}' is not among what was tried there"
        if slot is Slot.SUSPECT and share < _SUSPECTED and means < _SUSPECT_MEANS:
            return f"'{thing}' is not among what was suspected or changed there"
        share = max(share, len(wanted & set(words(stored))) / len(wanted))
        if slot is Slot.PRESENT and share < _ALL:
            return f"nothing stored says whether there was '{thing}'"
        return f"nothing stored says anything of '{thing}'" if slot is Slot.NAME and share < _HOLDS else ""

    def meant(self, thing: str, passages: Sequence[Passage]) -> float:
        """The largest cosine of a passage; hashed words know no meanings."""
        if isinstance(self._embedder, HashedEmbedder):
            return 0.0
        own = vectors_of(self._embedder, [each.told for each in passages])
        return float((own @ vectors_of(self._embedder, [thing])[0]).max())


def held(wanted: Set[str], passages: Sequence[Passage]) -> float:
    """The largest share of words that one passage has; 0 of none."""
    texts = (f"{each.told} {each.row.text}" for each in passages)
    found = [len(wanted & words_of(text)) for text in texts]
    return max(found) / len(wanted) if wanted else 0.0


def _wanted(asked: Asked) -> set[str]:
    """Words that say which thing is asked about; empty where it is only called by its kind."""
    said = set(words(asked.reading.thing)) - {word for run in asked.runs for word in words(run)}
    if asked.reading.slot is Slot.AMOUNT:
        return (set(words(asked.owned)) - {word for run in asked.runs for word in words(run)}) - _COUNTED
    named = said - _TYPES
    told = (named - general()) - _MANNER or named - general()
    return set(words(asked.reading.thing)) if told and all(word.isdigit() for word in told) else told


def _missing(asked: Asked, told: str) -> str:
    there = words_of(told)
    if _WOULD_BE.search(asked.text):
        return "what would be if a training went on"
    if names := foreign_names(asked.rest, told):
        return f"nothing stored says anything of '{names[0]}'"
    if lacks_quality(asked, there):
        return "the quantity that is asked for was not measured"
    party = _PARTY.search(asked.text)
    return f"nothing stored is of '{party[0]}'" if party and not set(words(party[1])) & there else ""


def _deed(asked: Asked, passages: Sequence[Passage]) -> str:
    """Who did what is never recorded, or consented to what happened at a step at which nobody was asked."""
    match = _DEED.search(asked.reading.asks)
    done = set(words(match["deed"])) if match else set()
    if match is None or not done:
        return ""
    if not done & _DEEDS:
        return f"nobody is recorded to have '{match['deed']}' it"
    return _undecided(asked, passages) if done & _CONSENT else ""


def _undecided(asked: Asked, passages: Sequence[Passage]) -> str:
    """Nobody was asked about what happened at the step that is named."""
    decisions = " ".join(each.row.text for each in passages if each.part is Part.PROPOSAL)
    steps = {str(step) for step in asked.steps}
    if not decisions or (steps and not steps & set(_WHOLE.findall(decisions))):
        return "no decision about that is stored"
    return ""


def _has_number(wanted: set[str], passages: Sequence[Passage], least: float) -> bool:
    """True when one clause of a passage holds a number and `least` of the words, as a share."""
    clauses = (clause for each in passages for clause in _CLAUSE.split(f"{each.told}. {each.row.text}"))
    return any(_NUMBER.search(clause) and len(wanted & set(words(clause))) >= least * len(wanted) for clause in clauses)
