"""Tasks without a download: right answers, apart from what is learned, and stable. Shows R801-9.2 (stand-ins)."""

from __future__ import annotations

import pytest

from loops.evals.prompts import can_ask
from loops.evals.protocol import protocol
from loops.evals.tasks import generated, real_text
from trainer.corpus import load_corpus

TASKS = generated.tasks(30)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_items_are_distinct_and_hold_their_answer(task: generated.Task) -> None:
    assert len({item.question for item in (*task.items, *task.examples)}) == 38
    for item in task.items:
        assert item.answer in item.choices
        assert len(set(item.choices)) == len(item.choices) >= 2
    assert can_ask(task, protocol("5_shot"))
    assert can_ask(task, protocol("ppl_acc_norm"))


def test_answers_are_right() -> None:
    by_name = {task.name: task for task in TASKS}
    for item in by_name["generated_add"].items:
        a, b = item.question.removeprefix("What is ").rstrip("?").split(" + ")
        assert int(item.answer) == int(a) + int(b)
    for item in by_name["generated_boolean"].items:
        assert item.answer == str(eval(item.question.removeprefix("Is this true or false: ").rstrip("?")))
    for item in by_name["generated_length"].items:
        assert item.answer == str(eval(item.question.removeprefix("What is ").rstrip("?")))
    for item in by_name["generated_index"].items:
        assert item.answer == eval(item.question.removeprefix("What is ").rstrip("?"))


def test_same_seed_same_digest() -> None:
    assert generated.task("math", "add", 30).digest == TASKS[0].digest
    assert generated.task("math", "add", 30, seed=1).digest != TASKS[0].digest
    assert TASKS[0].first(10).digest != TASKS[0].digest


def test_what_is_learned_has_no_test_question() -> None:
    avoid = {item.question for task in TASKS for item in task.items}
    questions = generated.stream("math", 5, avoid)
    assert not {next(questions).text for _ in range(400)} & avoid


def test_real_text_was_not_read_by_a_training() -> None:
    held_out = real_text.held_out(400_000, 16_384)
    read = b"".join(source.tobytes() for source in load_corpus(400_000).sources)
    assert set(held_out) == {"code", "packages", "documentation"}
    assert all(text[:200] not in read for text in held_out.values())
    cloze, kinds = real_text.cloze(400_000, 20), real_text.kinds(400_000, 20)
    assert all(item.answer in item.choices and len(item.choices) == 4 for item in cloze.items)
    assert {item.answer for item in kinds.items} == set(held_out)
    assert len(real_text.texts(400_000)) == 3
