"""Published differences between protocols, re-created: a model that behaves as reported, read both ways.

The scripted models know a share of the answers; how they write them is what the reports describe. Each case says which
report it re-creates, the two published scores, and what has to be flagged.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loops.evals.gaps import Gap, extraction_gaps, gap, recitation
from loops.evals.model import Asked
from loops.evals.protocol import Examples, Protocol, Start, protocol
from loops.evals.run import Evaluation, evaluate
from loops.evals.scripted import ScriptedModel
from loops.evals.task import Task
from loops.evals.tasks import generated

_START = 2
_SUM = re.compile(r"What is (\d+) \+ (\d+)\?")


@dataclass(frozen=True, kw_only=True)
class Case:
    """`read` gives the gap that has to be flagged, and cautions that were told before any answer."""

    name: str
    published: str
    expected: str  # cause
    read: Callable[[Task], tuple[Gap, list[str]]]


def found(num_items: int = 200) -> Iterator[Mapping[str, Any]]:
    """A row a case: what was published, what the re-creation shows, and whether its cause was flagged."""
    task = generated.task("math", "add", num_items)
    for case in CASES:
        shown, cautions = case.read(task)
        yield {
            "case": case.name,
            "published": case.published,
            "points": round(shown.points, 1),
            "cause": shown.cause,
            "cautions": cautions,
            "flagged": shown.is_flagged and shown.cause == case.expected,
        }


def _right(asked: Asked, share: float) -> tuple[str, str]:
    """(what it thinks, the right answer) of the last sum asked for: right in `share` of the questions."""
    a, b = map(int, _SUM.findall(asked.text)[-1])
    knows = random.Random(f"{a} {b}").random() < share
    return str(a + b if knows else a + b + 1), str(a + b)


def _strict_flexible(task: Task) -> tuple[Gap, list[str]]:
    """Right answers that seldom have the one form the strict pattern takes."""

    def says(asked: Asked) -> str:
        thinks, _ = _right(asked, 0.785)
        if random.Random(asked.text[-30:]).random() < 0.26:
            return f" We add them. The answer is {thinks}."
        return f" We add them, so it is **{thinks}**"

    done = evaluate(task, protocol("8_shot_cot"), ScriptedModel(name="strict", says=says))
    return _of(extraction_gaps(done), "flexible_number"), _cautions(done)


def _stop_word(task: Task) -> tuple[Gap, list[str]]:
    """An answer that begins on a new line, where a line break is a stop word."""

    def says(asked: Asked) -> str:
        return f"\nWe add them.\nThe answer is {_right(asked, 0.69)[0]}."

    model, wide = ScriptedModel(name="stop", says=says), protocol("0_shot_answer_is")
    narrow = replace(wide, stop=("\n",))
    cut_short, whole = evaluate(task, narrow, model), evaluate(task, wide, model)
    return gap(cut_short, whole), _cautions(cut_short)


def _missing_start(task: Task) -> tuple[Gap, list[str]]:
    """A model whose likelihoods mean nothing without its first token."""

    def likes(asked: Asked, continuation: str) -> float:
        thinks, _ = _right(asked, 0.67)
        if asked.starts:
            return 0.0 if continuation.strip() == thinks else -10.0
        return -random.Random(continuation + asked.text[-20:]).random()

    model = ScriptedModel(name="start", says=lambda asked: "", likes=likes, start=_START)
    with_start = protocol("ppl_acc_norm")
    bare = evaluate(task, replace(with_start, start=Start.NONE), model)
    return gap(bare, evaluate(task, with_start, model)), _cautions(bare)


def _chat_template(task: Task) -> tuple[Gap, list[str]]:
    """A chat model that talks instead of answering when it is given plain text."""

    def says(asked: Asked) -> str:
        if asked.chat:
            return f" The answer is {_right(asked, 0.25)[0]}."
        return " Sure! I can help you with addition. Let me know what you would like to add."

    plain = protocol("0_shot_answer_is")
    model = ScriptedModel(name="chat", says=says)
    completed = evaluate(task, plain, model)
    return gap(completed, evaluate(task, replace(plain, chat=True), model)), _cautions(completed)


def _recitation(task: Task) -> tuple[Gap, list[str]]:
    """A base model that goes on with questions of its own after the right answer."""

    def says(asked: Asked) -> str:
        thinks, _ = _right(asked, 0.6)
        return f" We add them. The answer is {thinks}.\n\nQ: What is 3 + 4?\nA: We add them. The answer is 7.\n\n"

    base = protocol("8_shot_cot")
    unstopped: Protocol = replace(base, extractor="answer_is", stop=(), examples=Examples.ANSWERS)
    done = evaluate(task, unstopped, ScriptedModel(name="recites", says=says))
    shown = recitation(done)
    assert shown is not None, "the outputs hold no further question"
    return shown, _cautions(done)


def _of(gaps: list[Gap], second: str) -> Gap:
    return next(each for each in gaps if each.second == second)


def _cautions(evaluation: Evaluation) -> list[str]:
    return [each.kind for each in evaluation.warnings]


CASES: tuple[Case, ...] = (
    Case(
        name="strict against flexible extraction",
        published="Llama-3.1-8B-Instruct GSM8K 0.202 / 0.785 (lm-eval PR 2034)",
        expected="extraction",
        read=_strict_flexible,
    ),
    Case(
        name="a stop word",
        published="0.0015 / 0.690 (lighteval 649)",
        expected="stop_words",
        read=_stop_word,
    ),
    Case(
        name="a missing first token",
        published="Gemma-7B LAMBADA 0.004 / 0.671 (lm-eval PR 1465)",
        expected="start_token",
        read=_missing_start,
    ),
    Case(
        name="chat template against plain text",
        published="Tulu-2-7b-dpo HumanEval .01 / .25 (open-instruct PR 99)",
        expected="chat_template",
        read=_chat_template,
    ),
    Case(
        name="few-shot text recited",
        published="lm-eval 3438: the text of the examples is matched instead of the answer",
        expected="recitation",
        read=_recitation,
    ),
)
