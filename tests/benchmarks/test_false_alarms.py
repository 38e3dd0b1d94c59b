"""The counts of `benchmarks.false_alarms`: a detector that cannot speak earns no rate."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.false_alarm_parts.plants import PLANTS
from benchmarks.false_alarms import BY_NAME, could_speak, rate, said, thought_dead
from loops.debug.view import RunView, make_view

STEPS = np.arange(1, 241)


def log() -> RunView:
    rng = np.random.default_rng(1)
    loss = (2.0 + 3.0 * np.exp(-STEPS / 40.0)) * np.exp(0.02 * rng.normal(size=STEPS.size))
    times = 0.05 * np.exp(0.1 * rng.normal(size=STEPS.size))
    return make_view("run", STEPS, {"lm_loss": loss, "grad_norm": np.ones(STEPS.size), "step_time_s": times})


def test_each_detector_has_its_fault() -> None:
    assert set(PLANTS) == set(BY_NAME)


@pytest.mark.parametrize("name", ["non_finite", "masked", "spike", "few_points", "drift", "sudden_gain"])
def test_a_detector_that_can_speak_finds_its_fault_and_is_silent_without_it(name: str) -> None:
    assert could_speak(name, log())
    assert said(name, log()) == []


@pytest.mark.parametrize("name", ["redone_steps", "eval_break", "self_check", "fork_departure", "over_balance"])
def test_a_detector_without_its_series_cannot_speak(name: str) -> None:
    assert not could_speak(name, log())


def test_a_pause_of_a_healthy_run_is_no_silence_and_a_hang_is() -> None:
    assert thought_dead(log()) == []
    assert len(thought_dead(log(), hangs=True)) == 1


def test_without_runs_in_which_it_could_speak_nothing_is_known() -> None:
    assert rate(0, 0) == {"rate": None, "of": "0/0", "upper_95": 1.0}
    assert rate(0, 60)["upper_95"] == pytest.approx(0.0487, abs=1e-4)
