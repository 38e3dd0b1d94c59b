"""The acceptance rule: what it promises holds on simulated pairs, and its readings are those of the first ending."""

import numpy as np
import pytest

from benchmarks.evolve_parts.simulated import null_runs, power
from contracts.errors import UserInputError
from loops.evolve.acceptance import ErrorBudget, Reading, Rule, Standing, detectable, read, wealth_path


def _reading(standing: Standing, wealth: float) -> Reading:
    return Reading(standing=standing, num_pairs=10, mean=0.0, wealth=wealth, doubt=1.0)


def test_wealth_is_a_fair_game_without_gain() -> None:
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=(40_000, 10))
    assert abs(wealth_path(differences)[:, -1].mean() - 1.0) < 0.06


def test_false_commits_of_whole_runs_stay_within_the_budget() -> None:
    """Shows RM2-7.16: 300 runs of 30 rounds in which nothing helps."""
    found = null_runs(np.random.default_rng(1), Rule(rounds=30), 300)
    assert found["false_commit_rate"] <= 0.05
    assert found["greedy_false_commit_rate"] == 1.0


def test_a_large_gain_is_found() -> None:
    found = power(np.random.default_rng(2), Rule(rounds=30), 200, 0.2, 0.3)
    assert found["power"] >= 0.95


def test_the_first_ending_counts() -> None:
    rule = Rule(rounds=1, run_alpha=0.05)
    wins = [1.0] * 12
    ended = read(wins, 0.05, rule)
    assert ended.standing is Standing.ACCEPTED
    assert ended.num_pairs < 12
    assert read([*wins, *[-1.0] * 60], 0.05, rule) == ended


def test_a_useless_candidate_is_given_up_before_the_last_pair() -> None:
    reading = read([0.0] * 240, 0.0005, Rule())
    assert reading.standing is Standing.FUTILE
    assert reading.num_pairs < 60


def test_what_cannot_be_reached_any_more_is_given_up() -> None:
    rule = Rule(max_pairs=30)
    reading = read([0.0] * 29, 1e-9, rule)
    assert reading.standing is Standing.FUTILE
    assert reading.num_pairs < 20


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(UserInputError):
        read([float("nan")], 0.05, Rule())


def test_a_round_pays_back_what_its_evidence_left_and_a_commit_nothing() -> None:
    budget = ErrorBudget(left=0.05, rounds_left=100)
    assert budget.share == pytest.approx(0.0005)
    assert budget.settled(_reading(Standing.FUTILE, 0.4)).left == pytest.approx(0.05 - 0.0005 * 0.6)
    assert budget.settled(_reading(Standing.FUTILE, 7.0)).left == pytest.approx(0.05)
    assert budget.settled(_reading(Standing.ACCEPTED, 2500.0)).left == pytest.approx(0.0495)


def test_the_detectable_gain_shrinks_with_pairs() -> None:
    few, many = detectable(120, 0.0005, 0.3), detectable(1000, 0.0005, 0.3)
    assert 0.15 < few < 0.3
    assert many < 0.1
    assert detectable(3, 0.0005, 0.3) == 1.0
