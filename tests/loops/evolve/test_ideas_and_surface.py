"""When two diffs are the same idea, and which diffs are refused."""

import random

import pytest

from benchmarks.evolve_parts import diffs
from benchmarks.evolve_parts.repeats import repeats
from contracts.errors import NotPermitted
from loops.evolve import operators
from loops.evolve.archive import read_files
from loops.evolve.ideas import SAME, likeness, parts_of
from loops.evolve.operators import CATALOGUE
from loops.evolve.surface import Surface
from loops.evolve.tasks import read_suite

PLAIN = read_files(CATALOGUE.parent / "scaffolds" / "plain")
DEFAULT = read_files(CATALOGUE.parent / "scaffolds" / "default")


def test_comments_docstrings_and_blanks_are_no_idea() -> None:
    changed = {**PLAIN, "graph.py": '"""Other words."""\n# a comment\n' + PLAIN["graph.py"].split('"""', 2)[2]}
    assert not parts_of(PLAIN, changed)
    assert not parts_of(PLAIN, {**PLAIN, "prompts/system.md": PLAIN["prompts/system.md"] + "\n   \n"})
    assert not parts_of(PLAIN, operators.placebo(PLAIN, 3))


def test_renamed_locals_are_the_same_idea_and_another_function_is_not() -> None:
    source = "def f(a):\n    total = a + 1\n    return min(total, 3)\n"
    one = parts_of({}, {"mechanisms/x.py": source})
    same = parts_of(
        {}, {"mechanisms/x.py": source.replace("total", "whole").replace("(a)", "(b)").replace("= a", "= b")}
    )
    other = parts_of({}, {"mechanisms/x.py": source.replace("min", "max")})
    assert likeness(one, same) == 1.0
    assert likeness(one, other) < SAME


def test_planted_repeats_are_found_and_new_ideas_are_not_refused() -> None:
    found = repeats()
    assert found["planted_repeats"] > 100
    assert found["planted_repeats_refused"] >= 0.95
    assert found["new_ideas_wrongly_refused"] <= 0.02


def test_every_move_can_be_applied_and_stays_within_the_surface() -> None:
    secrets = read_suite().secrets
    for files in (PLAIN, DEFAULT):
        for move in operators.moves(files):
            Surface().check(files, operators.apply(files, move), secrets)


def test_findings_make_the_moves_that_bear_on_them_likelier() -> None:
    from loops.evolve.failures import Finding

    finding = Finding(cause="housekeeping", sentence="", traces=("t",))
    options = operators.moves(PLAIN)
    before, after = operators.weights(options, [], 2.0), operators.weights(options, [finding], 2.0)
    likelier = {move.what for move, a, b in zip(options, before, after, strict=True) if b > a}
    assert likelier == {"verify", "prepare"}
    chance = random.Random(0)
    assert operators.drawn(PLAIN, [finding], {"focus": 2.0, "bundle": 2}, chance, ())


def test_diffs_that_touch_anything_else_are_refused() -> None:
    secrets = sorted(read_suite().secrets)
    assert len(diffs.attacks(DEFAULT, secrets)) >= 40
    assert diffs.succeeded(DEFAULT, secrets) == []


def test_a_scaffold_that_names_a_task_is_refused_with_the_name() -> None:
    with pytest.raises(NotPermitted, match="fix_median"):
        Surface().check(PLAIN, {**PLAIN, "prompts/system.md": "fix_median needs - 1\n"}, read_suite().secrets)
