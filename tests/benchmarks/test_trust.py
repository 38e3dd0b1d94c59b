"""The parts of benchmarks.trust in small: they run, and what they have to see they see. Shows RM2-7.15, RM2-7.18."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.trust import GOALS, parse
from benchmarks.trust_attacks.runner import OWN_ATTACKS, measure, read_attacks
from benchmarks.trust_kills import measure as kills
from benchmarks.trust_load import load
from benchmarks.trust_parts import budget, growth
from context_store import Store
from context_store.records import Amount

OPEN_DOOR = '''
"""An attack with more rights than anybody outside has: the judge has to see what comes of it."""
import time
from contracts.enums import Role

VARIANTS = {"approved in the store": True, "refused": False}

def control(kit):
    return kit.honest()

def attack(kit, evil):
    proposal = kit.propose()
    kit.store.proposals.approve(proposal.id, "eve", Role.ADMIN if evil else Role.VIEWER, "", time.time())
    kit.request(proposal)
'''


@pytest.mark.parametrize("number", range(4))
def test_budgets_are_as_the_model_has_them(store: Store, number: int) -> None:
    assert budget.fuzz_tree(store, number, seed=7) == []


def test_a_budget_that_gave_too_much_is_seen(store: Store) -> None:
    model = budget.Model(limits={"b": (1.0, 0.0, 0.0, 0.0, 0.0)}, holdings={"k": ("b", (0.5, 0.0, 0.0, 0.0, 0.0))})
    store.budgets.open("b", Amount(cpu_s=1.0))
    store.budgets.reserve("b", "k", Amount(cpu_s=1.0))
    store.budgets.settle("k", cpu_s=1.5)
    assert "overspend" in list(budget.disagreements(store, model))


def test_the_judge_sees_what_nobody_allowed(short_folder: Path) -> None:
    attacks = short_folder / "attacks"
    attacks.mkdir()
    (attacks / "open_door.py").write_text(OPEN_DOOR)
    found = measure(short_folder / "world", [attacks], only="open_door")
    assert (found["bypasses"], found["attacks"], found["controls"]) == (1, 2, 1)
    (row,) = found["attacks_first_faults"]
    assert any("messages" in why for why in row["why"])
    assert any("eve" in why for why in row["why"])


def test_there_are_enough_attack_files_and_each_has_an_honest_way() -> None:
    files = read_attacks([OWN_ATTACKS])
    assert len(files) >= 12
    assert all(callable(file.control) and callable(file.attack) for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("only", [path.stem for path in sorted(OWN_ATTACKS.glob("*.py"))])
def test_no_attack_gets_through(short_folder: Path, only: str) -> None:
    found = measure(short_folder, only=only)
    assert found["attacks_first_faults"] == []
    assert found["bypasses"] == found["attacks_broken"] == found["controls_failed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_growth_is_bounded(short_folder: Path, rounds: int) -> None:
    found = growth.measure(short_folder, rounds=rounds)
    assert found["state_growth_mb"] <= GOALS["state_growth_mb"].value
    assert found["state_growth_mb"] < found["state_growth_unpruned_mb"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_lose_and_repeat_nothing(short_folder: Path) -> None:
    found = kills.measure(short_folder, kills=4)
    assert {name: found[name] for name in ("lost", "repeated_effects", "different_outcomes")} == {
        "lost": 0, "repeated_effects": 0, "different_outcomes": 0,
    }, found["first_faults"]  # fmt: skip


@pytest.mark.slow
def test_load_loses_no_point(short_folder: Path) -> None:
    found = load.measure(short_folder, seconds=3.0, per_second=20.0)
    assert (found["api_errors"], found["lost_points"], found["api_requests"]) == (0, 0, 60), found


def test_the_options_say_which_part() -> None:
    assert parse(["--only", "kills", "--kills", "500"]).kills == 500
    assert dataclasses.asdict(GOALS["attacks"]) == {"value": 200, "at_least": True}
