"""Recognises the common questions about trainings, without a model.

Adding one: a word in `Kind`, a line in `_FORMS` (the first that matches counts), and a method in `retrieval.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    INVESTIGATE = "investigate"
    COMMIT = "commit"
    COMPARE = "compare"
    TRIED = "tried"
    WHY_NOT = "why_not"
    FIX = "fix"
    DEPARTS = "departs"
    CHANGED = "changed"
    DECISIONS = "decisions"
    SIMILAR = "similar"
    WHY = "why"
    WHEN = "when"
    VALUE = "value"
    STATUS = "status"
    OTHER = "other"


_FORMS = (
    (Kind.INVESTIGATE, r"^\W*(please )?(investigate|diagnose|look into|start (an )?investigation|open a case)\b"),
    (Kind.COMMIT, r"\b(commit|hunks? of|diff of)\s+[0-9a-f]{7,40}\b"),
    (Kind.COMPARE, r"\b(compare|versus|vs\.?)\b|\bdifferences? between\b|\bhow (do|does|did)\b.*\bdiffer\b"),
    (
        Kind.TRIED,
        r"\b(tried|try|tries|trying|tested|attempt\w*|experiment\w* with)\b|\b(ever|not|\w+n't) (work|help)",
    ),
    (
        Kind.WHY_NOT,
        r"\bwhy not\b|\bwhy (is|was|are|were|could|can)n'?t\b|\bwhy (is|was|are|were) (it|that|this|\w+) not\b"
        r"|\brul(e|ed|ing) (\w+ ){0,6}out\b|\binnocent\b|\bnot the (cause|culprit|reason)\b|\bexonerat"
        r"|\b(is|was) (it|this|that) (really |perhaps |maybe )?(due to|because|caused by|the|a|an)\b"
        r"|\bcould (it|this|that|\w+) (be|have)\b|\bcan we exclude\b|\bto blame\b|\bsuspect\w*\b",
    ),
    (Kind.FIX, r"\b(fix|fixed|fixes|mend\w*|solv\w*|remed\w*|workaround|work-around|cured?|resolved?)\b"),
    (Kind.DEPARTS, r"\b(which|what|whose) (layer|expert|rank|module|node)s?\b|\bdepart\w*\b|\bwhere in the model\b"),
    (
        Kind.CHANGED,
        r"\bwhat('s| is| was| were| has| have| did|)? ?(been |we |somebody |anybody )?(chang|differ|new\b|happen)"
        r"|\bchang(e|es|ed)\b.*\b(before|between|around|prior|since|until|at)\b|\bchangelog\b|\btimeline\b",
    ),
    (Kind.DECISIONS, r"\b(propos\w*|approv\w*|decid\w*|decision\w*|waits? for (me|us)|waiting for|reject\w*)\b"),
    (Kind.SIMILAR, r"\b(similar|like this|before\?|ever (seen|had|happen)|seen .*before|happen(ed)? before|precedent)"),
    (Kind.WHY, r"\bwhy\b|\bcaus\w+|\breason\b|\bexplain\w*|\bculprit\b|\bresponsible\b|\bbehind\b|\bhow come\b"),
    (Kind.WHEN, r"^\W*when\b|\bsince when\b|\b(what|which) (step|iteration)\b|\bonset\b|\bhow long\b"),
    (
        Kind.VALUE,
        r"\b(value|how (high|low|large|big|small|fast))\b|\bat (step|iteration) \d|\bplot\b|\bshow\b|\blatest\b",
    ),
    (
        Kind.STATUS,
        r"\bstatus\b|\bgoing\b|\bdoing\b|\bstand\b|\brunning\b|\bopen\b|\bprogress\b|\bfinished\b|\bhealthy\b",
    ),
)
_COMPILED = tuple((kind, re.compile(form, re.IGNORECASE)) for kind, form in _FORMS)
_STEP = re.compile(
    r"\b(?:steps?|iterations?|iter|batch)\s+(?:number\s+)?(\d[\d,]*)(?:\s*(?:-|to|and|\.\.)\s*(\d[\d,]*))?", re.I
)
_COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b")
_RUN_LIKE = re.compile(r"\brun[-_ ]((?=\w*\d)[\w.#-]*\w)|\b(run[-_][\w-]+)")
_MAX_FORM = 20  # characters
_ID = r"[\w.-]"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`runs`: known runs by RUN or RUN#SEGMENT, in the order named; `strangers`: what looks like a run and is none.

    `topic`: the question without its runs, steps, and the words that tell its kind.
    """

    kind: Kind
    text: str
    topic: str
    runs: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    commit: str = ""


def recognise(text: str, known_runs: Collection[str]) -> Asked:
    """What is asked, about which runs, steps and commit."""
    kind, form = next(((kind, form) for kind, form in _COMPILED if form.search(text)), (Kind.OTHER, None))
    runs, rest = _named(text, known_runs)
    strangers = tuple(a or b for a, b in _RUN_LIKE.findall(rest))
    steps = tuple(int(n.replace(",", "")) for pair in _STEP.findall(rest) for n in pair if n)
    commit = _COMMIT.search(rest)
    return Asked(
        kind=kind,
        text=text,
        topic=_STEP.sub(" ", rest if form is None else form.sub(_without_form, rest)),
        runs=runs,
        strangers=strangers,
        steps=steps,
        commit=commit[0] if commit else "",
    )


def _without_form(match: re.Match[str]) -> str:
    """The words that make the question one of its kind say nothing about its topic; longer matches hold more."""
    return " " if len(match[0]) <= _MAX_FORM else match[0]


def _named(text: str, known: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Known runs in the text, longest names first where they overlap, and the text without them."""
    found: list[tuple[int, str]] = []
    for run_id in sorted(known, key=len, reverse=True):
        form = re.compile(rf"(?<!{_ID}){re.escape(run_id)}(#\d+)?(?![\w-])", re.IGNORECASE)
        for match in form.finditer(text):
            found.append((match.start(), run_id + (match[1] or "")))
        text = form.sub(lambda match: " " * len(match[0]), text)
    return tuple(dict.fromkeys(name for _, name in sorted(found))), text
