"""Reads a question without a model: its kind, and the runs, steps, places and things that it names.

Adding a kind: a word and its forms in `forms.py`, and a method in one of the files that `retrieval.py` names.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agents.chat.forms import BLAME, FORMS, Kind
from agents.chat.reading import Reading, read

_COMPILED = tuple((kind, re.compile("|".join(forms), re.IGNORECASE)) for kind, forms in FORMS.items())
_STEP = re.compile(
    r"\b(?:steps?|iterations?|iter|batch)\s+(?:number\s+)?(\d[\d,]*)(?:\s*(?:-|to|and|\.\.)\s*(?:steps?\s+)?(\d[\d,]*))?",
    re.I,
)
_NO_STEP = r"(?![\w.%-]|\s*(?:%|percent|layers?|experts?|ranks?|gpus?|seeds?|tokens?))"
_AT = re.compile(
    rf"\b(?:at|around|before|after|since|until|by|past|vs\.?|versus|from|to)\s+(\d[\d,]*){_NO_STEP}", re.IGNORECASE
)
_COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b")
_RUN_LIKE = re.compile(
    r"\b(?:run|job)[-_ ]((?=\w*\d)[\w.#-]*\w)|\b(run[-_][\w-]+)|\b([A-Za-z]{2,}[-_]v?\d[\w.-]*) run\b"
)
_NAMED = re.compile(r"\b(?:of|in|for|run|runs|and|with|between|compare|vs)\s+([A-Za-z][\w-]*[\w])", re.IGNORECASE)
_SUBJECT = re.compile(
    r"^\W*(?:so |and |but )?(?:is|was|are|were|could|might|may|can|did|do|does|has|have|would|will)\b(.*?)"
    rf"\b(?:{BLAME}|ever|actually|really|cure|fix|solve|help|work|any good|any use|ruled out)",
    re.IGNORECASE,
)
_MOVER = re.compile(r"\b(?:when|while|after|before|since|as soon as|once)\b.*", re.IGNORECASE)
_STEP_LIKE = re.compile(rf"{_STEP.pattern}|{_AT.pattern}", re.IGNORECASE)
_ENDS = r"(?:for|against|on|in|about|when|while|instead|by|with|during|from|after|before|of the|at|to see)\b"
_PHRASE = rf"((?:(?!{_ENDS})[\w-]+\s?){{1,4}})"
_FOCUS = re.compile(
    r"\bwhat (?:did|does|has) (?:the )?(\w+) do\b"
    rf"|\b(?:try|tried|trying|test|tested|experiment\w* with) (?:out |about )?(?:the |a |an |to |only )*{_PHRASE}"
    r"|\bhow (?:much|many) ([\w-]+(?: (?!is\b|was\b|are\b|were\b|did\b|do\b|does\b|has\b|have\b|per\b)[\w-]+)?)"
    r"|\b(?:which|what) (?!is\b|was\b|were\b|are\b|did\b|do\b|does\b|has\b|have\b|had\b|if\b|we\b)(\w+)",
    re.IGNORECASE,
)
_OWNER = r"((?:(?!(?:at|in|on|when|before|after|from|during|and|or|did|was|is|do|does)\b)[\w-]+\s*){1,4})"
_SEGMENTS = re.compile(r"\bsegments?\s+(\d+)(?:\s*(?:,|and|to|with|vs\.?)\s*(?:segment\s+)?(\d+))?", re.IGNORECASE)
_PLACE = re.compile(r"\b(layer|expert)s?\s+(?:number\s+)?(\d+)(?:\s*(?:,|and|to)\s*(\d+))?", re.IGNORECASE)
_BARE = re.compile(r"\W*(?:and |so )?(?:how|what|where|what about|how about)?(?:'s| is| are| was)?\W*", re.IGNORECASE)
_MAX_FORM = 20  # characters
_ID = r"[\w.-]"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`runs`: known runs by RUN or RUN#SEGMENT, in the order named; `strangers`: what looks like a run and is none.

    `kinds`: all whose forms fit, `kind` first. `rest`: the question without its runs, steps and commit; `topic`:
    also without the words that tell its kind.
    `layers`, `experts`: numbers that are named. `leading`: what names no case of its own is about the only case of its
    run, and what is left of the question need not fit it.
    """

    kind: Kind
    kinds: tuple[Kind, ...]
    reading: Reading
    text: str
    rest: str
    topic: str
    runs: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()
    experts: tuple[int, ...] = ()
    commit: str = ""
    leading: bool = False

    @property
    def subject(self) -> str:
        """Of a question like "is X to blame for Y?", X; "" for any other."""
        match = _SUBJECT.search(self.rest)
        return match[1] if match else ""

    @property
    def owned(self) -> str:
        """What the slot is about and whose it is: the learning rate of the router."""
        thing = self.reading.thing
        match = re.search(rf"{re.escape(thing)}\s+(?:of|for)\s+{_OWNER}", self.rest, re.IGNORECASE) if thing else None
        return f"{thing} {match[1]}" if match else thing

    @property
    def mover(self) -> str:
        """The question without what it says of the time."""
        return _MOVER.sub("", self.rest)

    @property
    def focus(self) -> str:
        """The thing that an answer has to be about: what was tried, which thing, what something did; "" for none."""
        match = _FOCUS.search(self.rest)
        return next((each for each in match.groups() if each), "") if match else ""

    def says(self, pattern: str) -> bool:
        return re.search(pattern, self.text, re.IGNORECASE) is not None


def recognise(text: str, known_runs: Collection[str]) -> Asked:
    """What is asked, about which runs, steps and commit."""
    runs, rest = named(text, known_runs)
    reading = read(text)
    segments = tuple(int(n) for pair in _SEGMENTS.findall(rest) for n in pair if n)
    not_meant = () if len(runs) > 1 or len(segments) > 1 or not _STEP_LIKE.search(rest) else (Kind.COMPARE,)
    forms = [(kind, form) for kind, form in _COMPILED if kind not in not_meant and form.search(reading.asks)]
    kind, form = forms[0] if forms else (Kind.OTHER, None)
    if kind is Kind.OTHER and runs:
        kind = Kind.STATUS if _BARE.fullmatch(rest) else kind
    commit = _COMMIT.search(rest)
    places = [(each[1].lower(), [int(n) for n in each.groups()[1:] if n]) for each in _PLACE.finditer(rest)]
    return Asked(
        kind=kind,
        kinds=tuple(each for each, _ in forms),
        reading=reading,
        text=text,
        rest=_without_names(rest),
        topic=_without_names(rest if form is None else form.sub(_without_form, rest)),
        runs=runs,
        strangers=(*(next(filter(None, found)) for found in _RUN_LIKE.findall(rest)), *_misnamed(rest, known_runs)),
        steps=tuple(dict.fromkeys(int(n.replace(",", "")) for n in _steps(rest))),
        segments=segments,
        layers=tuple(n for what, numbers in places if what == "layer" for n in numbers),
        experts=tuple(n for what, numbers in places if what == "expert" for n in numbers),
        commit=commit[0] if commit else "",
    )


def _steps(text: str) -> list[str]:
    written = [n for pair in _STEP.findall(text) for n in pair if n]
    return [*written, *_AT.findall(_STEP.sub(" ", text))]


def _misnamed(text: str, known: Collection[str]) -> list[str]:
    """Names of runs with something behind them that no run has."""
    return [
        n for n in _NAMED.findall(text) if any(n.lower().startswith(each.lower()) for each in known if len(each) > 2)
    ]


def _without_names(text: str) -> str:
    return _COMMIT.sub(" ", _AT.sub(" ", _STEP.sub(" ", text)))


def _without_form(match: re.Match[str]) -> str:
    """The words that make the question one of its kind say nothing about its topic; longer matches hold more."""
    return " " if len(match[0]) <= _MAX_FORM else match[0]


def named(text: str, known: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Known runs in the text, longest names first where they overlap, and the text without them."""
    found: list[tuple[int, str]] = []
    for run_id in sorted(known, key=len, reverse=True):
        form = re.compile(rf"(?<!{_ID}){re.escape(run_id)}(#\d+)?(?![\w-])", re.IGNORECASE)
        for match in form.finditer(text):
            found.append((match.start(), run_id + (match[1] or "")))
        text = form.sub(lambda match: " " * len(match[0]), text)
    return tuple(dict.fromkeys(name for _, name in sorted(found))), text
