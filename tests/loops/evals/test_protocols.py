"""Golden prompts, extraction and scoring of every protocol. Shows R801-4.15, R801-4.16."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from context_store.canonical import content_hash
from contracts.errors import NotFound, UserInputError
from loops.evals import extraction
from loops.evals.extraction import EXTRACTORS, as_number, boxed, is_right
from loops.evals.gaps import extraction_gaps, findings, gap
from loops.evals.model import Asked
from loops.evals.prompts import can_ask, prompts, written
from loops.evals.protocol import PROTOCOLS, Matching, Mode, Protocol, in_chat, protocol
from loops.evals.run import evaluate, save, saved_outputs
from loops.evals.scripted import ScriptedModel
from loops.evals.task import Code, Item, Task
from loops.evals.tasks import generated
from loops.potential.plan import FAN_TASKS, fan_protocols

ITEM = Item(id="1", question="What is 2 + 2?", answer="4", choices=("3", "4"), working="2 and 2 make 4.")
EXAMPLES = tuple(replace(ITEM, id=f"e{n}", question=f"What is {n} + 1?", answer=str(n + 1), choices=("0", str(n + 1)),
                         working=f"{n} and 1 make {n + 1}.") for n in range(1, 9))  # fmt: skip
TASK = Task(name="sums", version=1, group="math", items=(ITEM,), examples=EXAMPLES)
CODE = Code(signature='def add(a, b):\n    """Sum."""\n', entry="add", tests="assert add(1, 2) == 3")
CODE_ITEM = Item(id="c", question="Write add(a, b).", answer="    return a + b", code=CODE)
CODE_TASK = Task(name="code", version=1, group="code", items=(CODE_ITEM,), examples=(CODE_ITEM,) * 3)

FAN = [task.first(20) for task in generated.tasks(20) if task.name in FAN_TASKS]


def prompt(name: str, task: Task = TASK) -> str:
    return prompts(task, protocol(name))[0].text


def test_every_protocol_of_the_table_is_there() -> None:
    names = {each.name for each in PROTOCOLS}
    assert names >= {
        "5_shot", "5_shot_working", "4_shot_minerva", "8_shot_cot", "3_shot_cot", "0_shot_answer_is", "0_shot_boxed",
        "ppl_acc_norm", "code_3_shot_completion", "code_3_shot_instruction_signature",
        "code_3_shot_instruction_whole", "code_0_shot_instruction_signature", "code_0_shot_instruction_whole",
    }  # fmt: skip
    assert len({each.digest for each in PROTOCOLS}) == len(PROTOCOLS)
    with pytest.raises(NotFound, match="one of: 5_shot"):
        protocol("6_shot")


def test_prompt_of_five_shots_shows_letters_and_answers_only() -> None:
    text = prompt("5_shot")
    assert text.startswith("Question: What is 1 + 1?\n(A) 0\n(B) 2\nAnswer: The answer is (B).\n\nQuestion: ")
    assert text.endswith("Question: What is 2 + 2?\n(A) 3\n(B) 4\nAnswer:")
    assert text.count("The answer is") == 5
    assert "make" not in text
    assert prompt("5_shot_working").count("make") == 5


def test_prompts_with_working() -> None:
    assert prompt("8_shot_cot").startswith("Q: What is 1 + 1?\nA: 1 and 1 make 2. The answer is 2.\n\n")
    assert prompt("8_shot_cot").count("A:") == 9
    assert prompt("4_shot_minerva").count("I hope it is correct.") == 4
    assert prompt("3_shot_cot").endswith("Q: What is 2 + 2?\nA: Let's think step by step.")


def test_prompts_without_examples() -> None:
    assert prompt("0_shot_boxed") == (
        "Answer the question. Put the final answer in \\boxed{}.\n\nQuestion: What is 2 + 2?\nAnswer:"
    )
    assert 'End with "The answer is X"' in prompt("0_shot_answer_is")
    assert prompts(TASK, protocol("ppl_acc_norm"))[0].options == (" 3", " 4")


def test_prompts_of_code() -> None:
    completion = prompt("code_3_shot_completion", CODE_TASK)
    assert completion.endswith(CODE.signature)
    assert completion.count("return a + b") == 3
    with_signature = prompts(CODE_TASK, protocol("code_0_shot_instruction_signature"))[0]
    assert with_signature.text == "Write this Python function.\nWrite add(a, b).\n\n```python\n"
    assert with_signature.prefill == CODE.signature
    assert prompts(CODE_TASK, protocol("code_0_shot_instruction_whole"))[0].prefill == ""


def test_a_task_that_does_not_fit_is_refused() -> None:
    assert not can_ask(CODE_TASK, protocol("8_shot_cot"))
    with pytest.raises(UserInputError, match="no tests to run"):
        prompts(TASK, protocol("code_3_shot_completion"))
    with pytest.raises(UserInputError, match="8 solved examples"):
        prompts(replace(TASK, examples=()), protocol("8_shot_cot"))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("answer_is", "So the answer is 12. The answer is 7.", "7"),
        ("answer_is_leftmost", "The answer is 12.\nQ: more\nThe answer is 7.", "12"),
        ("strict_number", "The answer is 1,204.", "1,204"),
        ("strict_number", "the answer is **12**", None),
        ("flexible_number", "12 or 13, so 14 dollars", "14"),
        ("final_answer", "Final Answer: The final answer is $\\frac{1}{2}$. I hope", "$\\frac{1}{2}$"),
        ("option_letter", "The answer is (C).", "C"),
        ("any_letter", "B", "B"),
        ("last_line", "some words\nAnswer: 42.", "42"),
        ("fenced", "```python\ndef f(): pass\n```\nmore", "def f(): pass\n"),
        ("fenced", "def f(): pass\n```", "def f(): pass\n"),
        ("continuation", "  \n", None),
    ],
)
def test_extraction(name: str, text: str, expected: str | None) -> None:
    assert EXTRACTORS[name](text) == expected


def test_box_with_braces_and_numbers() -> None:
    assert boxed("so \\boxed{\\frac{1}{2}} done") == "\\frac{1}{2}"
    assert boxed("no box") is None
    assert as_number("\\frac{1}{2}") == as_number("0.5") == as_number("50%")
    assert as_number("half") is None
    half = replace(ITEM, answer="1/2", choices=())
    assert is_right("0.5", half, Matching.MATH)
    assert not is_right("0.5", half, Matching.EXACT)
    assert is_right("$1,200.", replace(ITEM, answer="1200"), Matching.EXACT)


def test_unparsed_is_not_wrong_and_extractors_disagree() -> None:
    says = {"3": " I do not know", "4": " The answer is **12**", "5": " The answer is 5. No, it is 6"}

    def speak(asked: Asked) -> str:
        return says[asked.text.rsplit("What is ", 1)[1][0]]

    answers = {"3": "3", "4": "12", "5": "6"}
    items = tuple(replace(ITEM, id=n, question=f"What is {n}?", answer=a, choices=()) for n, a in answers.items())
    done = evaluate(replace(TASK, items=items), protocol("8_shot_cot"), ScriptedModel(name="m", says=speak))
    assert done.unparsed == pytest.approx(2 / 3)
    assert done.wrong == pytest.approx(1 / 3)
    assert done.accuracy == 0.0
    assert done.disagreement == pytest.approx(2 / 3)
    assert {each.second: each.points for each in extraction_gaps(done)}["flexible_number"] == pytest.approx(200 / 3)


def test_identity_names_all_that_moves_a_score(tmp_path: Path) -> None:
    model = ScriptedModel(name="m", says=lambda asked: " The answer is 4.")
    done = evaluate(TASK, protocol("0_shot_answer_is"), model)
    identity = done.identity
    assert identity["stop_set"] == ("\n\nQuestion:",)
    assert identity["extractor"] == "answer_is"
    assert identity["settings"]["task"] == TASK.digest
    assert identity["settings"]["start"] == "added"
    path, digest = save(done, tmp_path)
    assert path.name.endswith(f"{digest[:16]}.jsonl")
    head, rows = saved_outputs(path)
    assert head["accuracy"] == 1.0
    assert head["first_token_ids"] == list(b"Answer the quest")
    assert rows[0]["found"] == "4"
    assert save(evaluate(TASK, protocol("0_shot_answer_is"), model), tmp_path)[0] == path


def test_preflight_sees_stop_words_and_the_first_token() -> None:
    base = protocol("0_shot_answer_is")
    model = ScriptedModel(name="m", says=lambda asked: "", start=2)
    cut = evaluate(TASK, replace(base, stop=("4",)), model)
    assert "stop_in_answer" in [each.kind for each in cut.warnings]
    assert "no_stop" in [each.kind for each in evaluate(TASK, replace(base, stop=()), model).warnings]
    bare = evaluate(TASK, replace(base, start="none"), model)
    assert "missing_start" in [each.kind for each in bare.warnings]
    assert any("without the model's token 2" in sentence for sentence in findings([bare]))


def test_a_gap_needs_the_same_items_and_names_its_cause() -> None:
    task = generated.task("math", "add", 60)
    model = ScriptedModel(name="m", says=lambda asked: "\nThe answer is 7.")
    base = protocol("0_shot_answer_is")
    one, other = evaluate(task, base, model), evaluate(task, replace(base, stop=("\n",)), model)
    assert gap(one, other).cause == "stop_words"
    with pytest.raises(UserInputError, match="not the same measurement"):
        gap(one, evaluate(task.first(10), base, model))


@pytest.mark.parametrize("form", fan_protocols(FAN), ids=lambda form: form.name)
def test_who_answers_in_the_form_shown_has_every_point(form: Protocol) -> None:
    """The oracle: caps, stop words, extractor and matching of the fan leave a right answer right."""
    asked = [task for task in FAN if can_ask(task, form)]
    assert asked
    for task in asked:
        item_of = {prompt.text: prompt.item for prompt in prompts(task, form)}
        model = ScriptedModel(
            name="oracle",
            says=lambda asked, item_of=item_of: written(item_of[asked.text], form),
            likes=lambda asked, text, item_of=item_of: float(text == written(item_of[asked.text], form)),
        )
        done = evaluate(task, form, model)
        assert (done.accuracy, done.unparsed) == (1.0, 0.0), (task.name, form.max_tokens)


def test_numbers_are_not_asked_for_where_answers_are_names() -> None:
    order, add = generated.task("science", "order", 5), generated.task("math", "add", 5)
    assert can_ask(add, protocol("8_shot_cot"))
    assert not can_ask(order, protocol("8_shot_cot"))
    with pytest.raises(UserInputError, match="answers that the extractor strict_number reads"):
        prompts(order, protocol("8_shot_cot"))


def test_preflight_sees_a_doubled_token_and_a_stop_word_that_ends_all() -> None:
    base, model = protocol("0_shot_answer_is"), ScriptedModel(name="m", says=lambda asked: "", start=2)
    kinds = {each.kind for each in evaluate(TASK, replace(base, instruction="\x02"), model).warnings}
    assert kinds == {"double_start"}
    kinds = {each.kind for each in evaluate(TASK, replace(base, stop=("Answer:",)), model).warnings}
    assert kinds == {"stop_at_once"}


def test_a_whole_program_may_open_its_own_fence() -> None:
    says = {False: "```python\ndef add(a, b):\n    return a + b\n```\nDone.",
            True: "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```\nDone."}  # fmt: skip
    model = ScriptedModel(name="m", says=lambda asked: says[asked.chat])
    judged = []
    for form in (protocol("code_0_shot_instruction_whole"), in_chat(protocol("code_0_shot_instruction_whole"))):
        done = evaluate(CODE_TASK, form, model, judge=lambda item, program: bool(judged.append(program)) or True)
        assert done.outputs[0].found.strip() == "def add(a, b):\n    return a + b"
    with pytest.raises(UserInputError, match="cannot be asked in a chat"):
        in_chat(protocol("ppl_acc_norm"))


# What is promised by name and version: who changes one of these gives it another version and freezes it anew here.
FROZEN = {
    "5_shot/1": "5cf5e1e63f4c",
    "5_shot_working/1": "497318a40f96",
    "4_shot_minerva/1": "7d6111d5220f",
    "8_shot_cot/1": "dd19fdb3a9a6",
    "3_shot_cot/1": "6852744ac826",
    "0_shot_answer_is/2": "fc746d35f316",
    "0_shot_boxed/2": "ac739313f8c3",
    "0_shot_direct/1": "9ffc94d5a89d",
    "ppl_acc_norm/1": "1bf1cf0c13a5",
    "code_3_shot_completion/1": "1b875650d35c",
    "code_3_shot_instruction_signature/1": "d59572b4d2ab",
    "code_3_shot_instruction_whole/2": "433a60777b79",
    "code_0_shot_instruction_signature/1": "b81f6019502e",
    "code_0_shot_instruction_whole/2": "702ff77b8487",
}


def test_protocols_and_extractors_are_frozen() -> None:
    assert {f"{each.name}/{each.version}": each.digest[:12] for each in PROTOCOLS} == FROZEN
    assert content_hash(inspect.getsource(extraction))[:12] == "e152ffded271", "raise run.VERSION, which scores name"


def test_code_mode_belongs_to_code_alone() -> None:
    modes = {each.name: each.mode for each in PROTOCOLS}
    assert all((mode is Mode.CODE) == name.startswith("code_") for name, mode in modes.items())
