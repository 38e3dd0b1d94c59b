"""Mechanisms of the catalogue by themselves."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from loops.evolve.operators import CATALOGUE


@pytest.fixture
def loop_detection() -> Iterator[ModuleType]:
    sys.path[:0] = [str(CATALOGUE), str(CATALOGUE.parent / "scaffolds" / "default")]
    yield importlib.import_module("loop_detection")
    del sys.path[:2]
    for name in ("loop_detection", "mechanism"):
        sys.modules.pop(name, None)


def _edit(text: str) -> dict[str, object]:
    return {"tool": "edit", "args": {"path": "a.py", "line": 2, "text": text}}


def test_a_repeated_step_is_answered_with_a_nudge_also_in_a_cycle(loop_detection: ModuleType) -> None:
    """Shows RM2-7.25: the same action with the same answer, alone or in a cycle of two."""
    found = loop_detection.Mechanism({}, None)
    for text in ("one", "two"):
        assert found.instead(_edit(text)) is None
        found.after(_edit(text), "TESTS passed=0 failed=3")
    assert found.instead(_edit("one")) == "AVOID a.py:2 -> one"
    assert found.instead(_edit("two")) == "AVOID a.py:2 -> two"
    assert found.instead(_edit("three")) is None


def test_polling_with_changing_answers_is_no_loop(loop_detection: ModuleType) -> None:
    found = loop_detection.Mechanism({}, None)
    poll = {"tool": "shell", "args": {"command": "sh fetch.sh"}}
    for answer in ("RAN exit=75 busy 1", "RAN exit=75 busy 2", "RAN exit=75 busy 3"):
        found.after(poll, answer)
    assert found.instead(poll) is None
