"""One scripted attack of each kind from inside a scaffold; all of them: `benchmarks.evolve --attacks`."""

from pathlib import Path

import pytest

from agents.sandbox import Sandbox
from benchmarks.evolve_parts.attacks import Range, laid_out, variants

PICKED = (
    ("submission", "frames"), ("submission", "grade line"), ("supervisor", "mem"), ("supervisor", "kill"),
    ("forge", "all"), ("stay", "double fork"), ("evaluator", "write /inputs/lathe/loops/evolve/inside/grade.py"),
    ("budget", "many asks"), ("budget", "requests in a row"), ("budget", "never reads"), ("search", "/inputs"),
)  # fmt: skip


@pytest.fixture(scope="module")
def range_(isolated: Sandbox, place: Path) -> Range:
    return laid_out(place / "range", isolated)


def test_there_are_more_than_a_hundred_attacks() -> None:
    assert len(list(variants())) >= 150


def test_attacks_of_every_kind_hold(range_: Range) -> None:
    found = {attack: range_.try_one(*attack) for attack in PICKED}
    assert {attack: shows for attack, shows in found.items() if shows} == {}


def test_the_judge_sees_a_success(range_: Range) -> None:
    """The oracle passes, and a token that is seen is told."""
    task = range_.evaluator.suite.tasks["target"]
    assert range_.evaluator.grade([("target", task.oracle)])[0][0] == 1.0
    assert range_.try_one("search", "/nowhere") == []
