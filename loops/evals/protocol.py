"""How a task is asked: the four choices of R801-4.15 and everything else that moves a score.

A protocol is versioned and hashed apart from tasks. Two scores under protocols of different digest are never compared
as if they were one measurement.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property

from context_store.canonical import content_hash
from contracts.errors import NotFound, UserInputError


class Mode(StrEnum):
    LIKELIHOOD = "likelihood"  # the option of the highest log-likelihood; nothing is generated
    GENERATION = "generation"
    CODE = "code"  # generated, then executed against tests


class Examples(StrEnum):
    """What solved examples show."""

    ANSWERS = "answers"
    WORKING = "working"


class Matching(StrEnum):
    """When an extracted answer is right."""

    EXACT = "exact"
    MATH = "math"
    OPTION = "option"
    TESTS = "tests"


class Start(StrEnum):
    """What stands before the prompt: nothing, or the token with which the model's texts begin (if there is one)."""

    NONE = "none"
    ADDED = "added"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """`question` and `answer` are templates over {question}, {choices}, {signature}, {working}, {answer}, {letter}.

    `cue` stands between question and answer, `instruction` before everything, `prefill` behind the last cue, as if the
    model had written it. `normalised`: log-likelihoods are divided by the bytes of the option. `extractor` is a name of
    extraction.EXTRACTORS. `chat`: the prompt goes through the model's chat template. `candidates`: answers an item,
    whose mean counts.
    """

    name: str
    version: int = 1
    mode: Mode = Mode.GENERATION
    shots: int = 0
    examples: Examples = Examples.ANSWERS
    instruction: str = ""
    question: str = "Question: {question}\n"
    cue: str = "Answer:"
    answer: str = " {answer}\n\n"
    prefill: str = ""
    extractor: str = "answer_is"
    matching: Matching = Matching.EXACT
    normalised: bool = True
    stop: tuple[str, ...] = ("\n\n", "Question:")
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    candidates: int = 1
    chat: bool = False
    start: Start = Start.ADDED

    @cached_property
    def digest(self) -> str:
        return content_hash(asdict(self))

    @cached_property
    def template_digest(self) -> str:
        """Of the words alone: what `template` of a stored score says."""
        parts = (self.instruction, self.question, self.cue, self.answer, self.prefill, self.examples, self.chat)
        return content_hash([str(part) for part in parts])[:16]


_OPTIONS = "Question: {question}\n{choices}"
_LETTER = " {working}The answer is ({letter}).\n\n"
_SOLUTION = " {working}The answer is {answer}.\n\n"
_CODE_STOP = ("\nclass ", "\ndef ", "\nprint(", "\nif __name__", "\n#", "\n@")
_CODE_ASK = "Write this Python function.\n"

PROTOCOLS: tuple[Protocol, ...] = (
    Protocol(
        name="5_shot", shots=5, question=_OPTIONS, answer=_LETTER, extractor="option_letter", matching=Matching.OPTION
    ),
    Protocol(
        name="5_shot_working",
        shots=5,
        examples=Examples.WORKING,
        question=_OPTIONS,
        answer=_LETTER,
        extractor="option_letter",
        matching=Matching.OPTION,
        max_tokens=192,
    ),
    Protocol(
        name="4_shot_minerva",
        shots=4,
        examples=Examples.WORKING,
        question="Problem:\n{question}\n\n",
        cue="Solution:",
        answer=" {working}Final Answer: The final answer is {answer}. I hope it is correct.\n\n",
        extractor="final_answer",
        matching=Matching.MATH,
        stop=("Problem:", "I hope it is correct."),
        max_tokens=192,
    ),
    Protocol(
        name="8_shot_cot",
        shots=8,
        examples=Examples.WORKING,
        question="Q: {question}\n",
        cue="A:",
        answer=_SOLUTION,
        stop=("\n\n", "Q:"),
        extractor="strict_number",
        max_tokens=192,
    ),
    Protocol(
        name="3_shot_cot",
        shots=3,
        examples=Examples.WORKING,
        question="Q: {question}\n",
        cue="A: Let's think step by step.",
        answer=" {working}So the answer is {answer}.\n\n",
        stop=("\n\n", "Q:"),
        max_tokens=192,
    ),
    Protocol(
        name="0_shot_answer_is",
        version=2,
        instruction='Answer the question. End with "The answer is X", where X is the final answer.\n\n',
        answer=" The answer is {answer}.\n\n",
        matching=Matching.MATH,
        stop=("\n\nQuestion:",),
        max_tokens=192,
    ),
    Protocol(
        name="0_shot_boxed",
        version=2,
        instruction="Answer the question. Put the final answer in \\boxed{{}}.\n\n",
        answer=" \\boxed{{{answer}}}\n\n",
        extractor="boxed",
        matching=Matching.MATH,
        stop=("\n\nQuestion:",),
        max_tokens=192,
    ),
    Protocol(name="0_shot_direct", extractor="last_line", stop=("\n",), max_tokens=24),
    Protocol(name="ppl_acc_norm", mode=Mode.LIKELIHOOD, answer=" {answer}", extractor="highest", stop=()),
    Protocol(
        name="code_3_shot_completion",
        mode=Mode.CODE,
        shots=3,
        question="{signature}",
        cue="",
        answer="{answer}\n\n",
        extractor="continuation",
        matching=Matching.TESTS,
        stop=_CODE_STOP,
        max_tokens=256,
    ),
    *(
        Protocol(
            name=f"code_{shots}_shot_instruction_{'signature' if signature else 'whole'}",
            version=1 if signature else 2,
            mode=Mode.CODE,
            shots=shots,
            question=_CODE_ASK + "{question}\n\n",
            cue="```python\n",
            prefill="{signature}" if signature else "",
            answer="{signature}{answer}\n```\n\n",
            extractor="continuation" if signature else "fenced",
            matching=Matching.TESTS,
            stop=("```",) if signature else ("\n```",),  # a whole program may open a fence of its own
            max_tokens=256,
        )
        for shots in (3, 0)
        for signature in (True, False)
    ),
)


def has_chat(each: Protocol) -> bool:
    """Whether a chat model can be asked so: it weighs no options, and begins its answer itself."""
    return each.mode is not Mode.LIKELIHOOD and each.extractor != "continuation"


def in_chat(each: Protocol) -> Protocol:
    """The same through the model's chat template. A program may then stand in any fence, so that no stop word cuts it.

    Raises UserInputError where `has_chat` is false.
    """
    if not has_chat(each):
        raise UserInputError(
            f"protocol {each.name} cannot be asked in a chat", remedy="take one whose answer is written as a whole"
        )
    return replace(each, name=f"{each.name}_chat", chat=True, stop=() if each.mode is Mode.CODE else each.stop)


def protocol(name: str) -> Protocol:
    """Raises NotFound naming the known ones."""
    found = {each.name: each for each in PROTOCOLS}
    if name not in found:
        raise NotFound(f"no protocol '{name}'", remedy=f"one of: {', '.join(found)}")
    return found[name]
