"""Pilots, halving, and the decision: continue, change, stop. Shows R801-1.6, R801-4.17, R801-4.18."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loops.potential.recipe.decision import Choice, decide, finalists
from loops.potential.recipe.plan import BASELINE, Candidate, RecipePlan, name_of, pilots, survivors
from loops.potential.recipe.problems import problems_of

PLAN = RecipePlan(
    run_id="r",
    candidates=tuple(Candidate(name=name, overrides={}, why="") for name in (BASELINE, "a", "b", "c", "d")),
    seeds=(1, 2, 3),
)


def body(tiny: float, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"tiny": tiny, "base": tiny - 5.0, "problems": list(problems)}


def rung(**tiny: list[float]) -> dict[str, dict[int, dict[str, Any]]]:
    return {name: {seed: body(value) for seed, value in enumerate(values, 1)} for name, values in tiny.items()}


def reading(verdict: str) -> dict[str, Any]:
    return {"verdict": {"verdict": verdict, "sentence": "base -0.1, after SFT +1.0"}}


def test_the_better_half_goes_on_with_the_unchanged_recipe() -> None:
    scores = {name: dict.fromkeys(PLAN.seeds, value) for name, value in ((BASELINE, 1.0), ("a", 9.0), ("b", 2.0))}
    scores |= {"c": dict.fromkeys(PLAN.seeds, 5.0), "d": {1: 99.0}}  # d: two of its pilots failed
    assert survivors(PLAN, 0, scores) == [BASELINE, "a", "c"]


def test_the_last_rung_has_seeds_of_its_own_and_twice_the_steps() -> None:
    first, last = pilots(PLAN, 0, ["a"]), pilots(PLAN, 1, ["a"])
    assert not {each.seed for each in first} & {each.seed for each in last}
    assert PLAN.steps(1) == 2 * PLAN.steps(0)
    assert RecipePlan.from_json(PLAN.to_json()) == PLAN


def test_a_change_needs_more_than_noise() -> None:
    clear = finalists(rung(unchanged=[30.0, 31.0, 32.0], a=[34.0, 35.2, 36.1]))
    found = decide(reading("false_plateau"), clear)
    assert (found.choice, found.candidate) == (Choice.CHANGE, "a")
    assert "3 paired seeds" in found.sentence
    noisy = finalists(rung(unchanged=[30.0, 31.0, 32.0], a=[30.0, 39.0, 29.0]))
    assert decide(reading("growth"), noisy).choice is Choice.CONTINUE


def test_a_flat_base_is_no_reason_to_stop_while_the_potential_grows() -> None:
    none = finalists(rung(unchanged=[30.0, 31.0, 32.0], a=[30.0, 31.1, 31.9]))
    assert decide(reading("false_plateau"), none).choice is Choice.CONTINUE
    assert decide(reading("true_plateau"), none).choice is Choice.STOP
    assert decide(reading("overtraining"), none).choice is Choice.STOP


def test_both_curves_stand_in_the_sentence() -> None:
    found = decide(reading("growth"), [])
    assert "base -0.1" in found.sentence
    assert "after SFT +1.0" in found.sentence


def test_a_better_score_with_a_new_problem_is_no_change() -> None:
    pilots_of = rung(unchanged=[30.0, 31.0, 32.0], a=[34.0, 35.2, 36.1])
    for each in pilots_of["a"].values():
        each["problems"] = ["loss spike"]
    for each in pilots_of[BASELINE].values():
        each["problems"] = ["experts out of balance"]
    (found,) = finalists(pilots_of)
    assert found.problems.found == ("loss spike",)
    assert found.problems.removed == ("experts out of balance",)
    assert decide(reading("growth"), [found]).choice is Choice.CONTINUE


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (np.linspace(5, 2, 50), []),
        (np.linspace(2, 5, 50), ["loss does not fall"]),
        (np.where(np.arange(50) == 30, 9.0, np.linspace(5, 2, 50)), ["loss spike"]),
        (np.where(np.arange(50) == 30, np.nan, np.linspace(5, 2, 50)), ["loss not finite"]),
    ],
)
def test_problems_of_a_pilot(loss: np.ndarray, expected: list[str]) -> None:
    assert problems_of([{"lm_loss": float(value), "max_vio": 0.2} for value in loss]) == expected


def test_balance_and_gradients_are_looked_at() -> None:
    steps = [{"lm_loss": 5.0 - n / 50, "max_vio": 3.0, "grad_norm": 1.0 if n < 40 else 50.0} for n in range(50)]
    assert problems_of(steps) == ["experts out of balance", "gradient norm grows"]


def test_equal_changes_have_equal_names() -> None:
    assert name_of({"moe.balance.coef": 0.001}) == "moe.balance.coef=0.001"
    assert name_of({"optim.experts.lr": 0.1}) != name_of({"optim.attention.lr": 0.1})
    assert name_of({"a.b": 1, "c.d": 2}) == name_of({"c.d": 2, "a.b": 1})
    assert name_of({f"optim.experts.field_{n}": n for n in range(9)}).startswith("change-")
