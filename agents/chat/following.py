"""Questions that lean on what was said before in the thread, and on the order of what happened, spelled out.

"and for layer 3?" takes the question before with that layer in it; "why not?" takes what was asked about; a question
that names nothing is about the case of the last answer; "the second restart" becomes the restart at its step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from agents.chat.answer import CardKind
from agents.chat.places import ChatContext
from agents.chat.questions import Asked, recognise
from agents.chat.threads import Exchange
from context_store import Store

_LEANS = re.compile(
    r"^\W*(?:and|but|so|ok(?:ay)?,?)?\W*(?:(?:what|how) about|same (?:for|question for)"
    r"|(?:and|also) (?:for|in|of|at)?|for|in|why not|why|since when|when|who|how)\b",
    re.IGNORECASE,
)
_WHY_NOT = re.compile(r"^\W*(?:and |but |so )?why not\W*$", re.IGNORECASE)
_ABOUT = re.compile(
    r"^\W*(?:and |but |so )?(?:(?:what|how) about|same (?:for|question for)"
    r"|and(?: also)?(?: for| in| of| at)?|for) ?(.*?)\W*$",
    re.IGNORECASE,
)
_LAYERS = re.compile(r"\blayers?\s+\d+(?:\s*(?:,|and|to)\s*\d+)*", re.IGNORECASE)
_STEPS = re.compile(r"\b(?:step|iteration)s?\s+\d[\d,]*", re.IGNORECASE)
_POINTS_BACK = re.compile(r"\b(?:it|its|that|this|they|them|there)\b", re.IGNORECASE)
_MAX_LEANING = 8  # words; a longer question stands for itself
_NUMBERS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1, "latest": -1, "final": -1}
_ORDINAL = re.compile(
    rf"\b(?:the |its |that )?({'|'.join(_NUMBERS)}|1st|2nd|3rd|4th|5th) (?:\w+ )?"
    r"(restart|resume|resumption|re-?launch|spike|jump|anomal(?:y|ies)|departure)\b",
    re.IGNORECASE,
)
_RESTARTS = re.compile(r"re", re.IGNORECASE)


def in_full(
    question: str, context: ChatContext, before: Sequence[Exchange], known_runs: Collection[str]
) -> tuple[str, ChatContext]:
    """The question as it would stand alone, and where it is asked. `before`: what was said in the thread."""
    if not before or len(question.split()) > _MAX_LEANING:
        return question, context
    last, asked = before[-1], recognise(question, known_runs)
    if _WHY_NOT.match(question):
        earlier = recognise(last.question, known_runs)
        return f"why not {earlier.subject.strip() or earlier.topic.strip()}", _of_last(last, context)
    about = _ABOUT.match(question)
    if about and about[1]:
        return _put_into(last.question, about[1], asked, known_runs), _of_last(last, context)
    points = _POINTS_BACK.search(question) or (_LEANS.match(question) and not asked.runs)
    return (question, _of_last(last, context)) if points else (question, context)


def _put_into(earlier: str, thing: str, asked: Asked, known_runs: Collection[str]) -> str:
    """The earlier question with another layer, step, run or thing in it."""
    for named, form in ((asked.layers, _LAYERS), (asked.steps, _STEPS)):
        if named and (own := form.search(thing)):
            return form.sub(own[0], earlier) if form.search(earlier) else f"{earlier.rstrip('?!. ')} at {own[0]}"
    before = recognise(earlier, known_runs)
    if asked.runs and before.runs:
        return re.sub(rf"(?<![\w.-]){re.escape(before.runs[0])}(?![\w-])", asked.runs[0], earlier)
    if asked.runs:
        return f"{earlier.rstrip('?!. ')} of {asked.runs[0]}"
    if subject := before.subject.strip():
        return earlier.replace(subject, thing)
    return f"{earlier.rstrip('?!. ')} {thing}"


def _of_last(last: Exchange, context: ChatContext) -> ChatContext:
    """The case of the last answer, where nothing else says where the question is asked."""
    cases = [card.detail["id"] for card in last.answer.cards if card.kind is CardKind.CASE]
    if context.run_id or context.investigation_id or not cases:
        return context
    return replace(context, investigation_id=str(cases[0]))


def with_steps(question: str, run_id: str | None, store: Store) -> tuple[str, str]:
    """With the step of what is named by its place in the order: restarts of the run, and what was found in it.

    Second, what is to be said when there are not so many; "" otherwise.
    """
    match = _ORDINAL.search(question)
    if match is None or run_id is None:
        return question, ""
    number, what = match[1].lower(), match[2]
    place = _NUMBERS[number] if number in _NUMBERS else int(number[0]) - 1
    if _RESTARTS.match(what):
        steps = [each.start_step for each in store.runs.segments(run_id)][1:]
    else:
        steps = sorted({each.onset[0] for each in store.knowledge.anomalies(run_id)})
    if not steps or place >= len(steps):
        return question, f"run {run_id} has {len(steps)} {'restarts' if _RESTARTS.match(what) else 'findings'}"
    spelled = f"{question[: match.start()]}the {what} at step {steps[place]}{question[match.end() :]}"
    return spelled, ""
