"""What can be seen before a single answer is judged: the first prompt, token by token, and its stop words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loops.evals.model import Asked, EvaluatedModel
from loops.evals.protocol import Mode, Protocol


@dataclass(frozen=True, kw_only=True)
class Caution:
    """`kind`: not_checked, missing_start, double_start, stop_in_answer, stop_at_once, no_stop."""

    kind: str
    sentence: str


def preflight(asked: Asked, protocol: Protocol, model: EvaluatedModel, answers: Sequence[str]) -> list[Caution]:
    """Faults of the first prompt that are known to have changed published scores."""
    return [*_start(asked, model), *_stop(protocol, answers)]


def _start(asked: Asked, model: EvaluatedModel) -> Iterator[Caution]:
    told = model.tokens(asked)
    if told is None:
        sentence = "the server does not tell its tokens: whether the first one is missing or doubled was not checked"
        yield Caution(kind="not_checked", sentence=sentence)
        return
    ids, start = told
    if start is None:
        return
    leading = 0
    while leading < len(ids) and ids[leading] == start:
        leading += 1
    if leading == 0:
        shown = " ".join(map(str, list(ids)[:8]))
        yield Caution(
            kind="missing_start", sentence=f"the prompt begins without the model's token {start}: {shown} ..."
        )
    elif leading > 1:
        yield Caution(kind="double_start", sentence=f"the prompt begins with the model's token {start} {leading} times")


def _stop(protocol: Protocol, answers: Sequence[str]) -> Iterator[Caution]:
    if protocol.mode is Mode.LIKELIHOOD:
        return
    if not protocol.stop:
        yield Caution(kind="no_stop", sentence="nothing ends an answer but its length: what follows it is read too")
    solved = protocol.answer.rstrip("\n ")
    for word in protocol.stop:
        inside = sum(word in answer for answer in answers)
        if inside:
            sentence = f"the stop word {word!r} occurs in {inside} of {len(answers)} right answers, which it would cut"
            yield Caution(kind="stop_in_answer", sentence=sentence)
        elif word and word in solved and not solved.endswith(word):
            sentence = f"the stop word {word!r} occurs in the form that solved examples have, before their answer ends"
            yield Caution(kind="stop_in_answer", sentence=sentence)
        if not word or (protocol.cue + protocol.prefill).endswith(word):
            yield Caution(kind="stop_at_once", sentence=f"the stop word {word!r} ends every answer at its first token")
