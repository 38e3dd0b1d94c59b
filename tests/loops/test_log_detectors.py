"""Detectors that need no internals of a model, on logs as any trainer writes them; healthy logs stay silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from contracts.events import Scalar
from loops.debug.case import group_findings
from loops.debug.detectors import DETECTORS
from loops.debug.finding import Finding
from loops.debug.view import RunView, SegmentView, make_view

STEPS = np.arange(1, 241)
RESUME = 120
SEEDS = range(20)


def findings(view: RunView) -> list[Finding]:
    found = [finding for detector in DETECTORS for finding in detector(view)]
    return [finding for group in group_findings(view, found) for finding in group]


def log(seed: int, noise: float = 0.02) -> dict[str, np.ndarray]:
    """Loss, gradient norm, learning rate, loss scale and evaluations every 20 steps of a healthy training."""
    rng = np.random.default_rng(seed)
    loss = (2.0 + 3.0 * np.exp(-STEPS / 40.0)) * np.exp(noise * rng.normal(size=STEPS.size))
    rate = 1e-3 * np.minimum(STEPS / 20.0, 1.0) * (0.55 + 0.45 * np.cos(np.pi * STEPS / 300.0))
    return {
        "loss": loss,
        "grad_norm": np.exp(0.2 * rng.normal(size=STEPS.size)),
        "learning_rate": rate,
        "loss_scale": np.where(STEPS < 90, 65536.0, 131072.0),
    }


def segments(
    before: Mapping[str, Scalar] | None = None, after: Mapping[str, Scalar] | None = None
) -> tuple[SegmentView, ...]:
    first = SegmentView(number=0, start_step=0, last_step=RESUME, code_version="a", declared=before or {})
    return first, replace(first, number=1, start_step=RESUME, last_step=int(STEPS[-1]), declared=after or {})


def resumed(values: dict[str, np.ndarray], **declared: Mapping[str, Scalar]) -> RunView:
    return make_view("run", STEPS, values, segments(**declared))


def with_gaps(values: dict[str, np.ndarray], gone: Mapping[str, np.ndarray]) -> RunView:
    """`gone` says at which steps a series was not logged."""
    view = make_view("run", STEPS, {k: np.where(gone.get(k, False), np.nan, v) for k, v in values.items()})
    return replace(view, present={k: ~np.broadcast_to(gone.get(k, False), STEPS.shape) for k in values})


@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_logs_are_silent_with_and_without_a_resume(seed: int) -> None:
    assert [f.statement for f in findings(make_view("run", STEPS, log(seed)))] == []
    assert [f.statement for f in findings(resumed(log(seed)))] == []


def test_a_zero_that_hides_a_lost_value() -> None:
    """Shows R801-3.2: a trainer that writes 0.0 for a NaN loss must not look like the best run ever."""
    values = log(1)
    values["loss"] = np.where(STEPS >= 150, 0.0, values["loss"])
    found = findings(make_view("run", STEPS, values))
    assert (found[0].kind, found[0].onset) == ("masked_non_finite", (150, 150))


def test_a_loss_that_really_reaches_zero_is_no_lost_value() -> None:
    falling = {"loss": np.maximum(2.0 * np.exp(-STEPS / 8.0) - 1e-6, 0.0)}
    assert [f.kind for f in findings(make_view("run", STEPS, falling)) if f.kind == "masked_non_finite"] == []


def test_a_field_that_vanishes_while_the_others_go_on() -> None:
    found = findings(with_gaps(log(2), {"grad_norm": STEPS > 150}))
    assert [(f.kind, f.series, f.onset) for f in found] == [("vanished", ("grad_norm",), (150, 150))]


def test_what_is_logged_seldom_or_ends_with_the_run_does_not_vanish() -> None:
    values = log(2) | {"eval/loss": 2.5 + 0 * STEPS}
    seldom = STEPS % 20 != 0
    assert findings(with_gaps(values, {"eval/loss": seldom, "loss_scale": (STEPS % 10 != 0) | (STEPS > 225)})) == []


def _evaluations(rise: float) -> dict[str, np.ndarray]:
    turned = 2.6 + np.maximum(0.0, (STEPS - 100) / 140.0) * rise
    falling = log(3) | {"loss": 2.6 * np.exp(-STEPS / 60.0)}
    return falling | {name: turned + 1.5 * np.exp(-STEPS / 25.0) for name in ("eval/g0/loss", "eval/g1/loss")}


def test_over_fitting_in_every_evaluation() -> None:
    gaps = dict.fromkeys(("eval/g0/loss", "eval/g1/loss"), STEPS % 20 != 0)
    (found,) = findings(with_gaps(_evaluations(1.5), gaps))
    assert (found.kind, found.series) == ("over_fitting", ("eval/g0/loss", "eval/g1/loss"))
    assert 60 <= found.onset[0] <= found.onset[1] <= 140
    one_only = _evaluations(1.5) | {"eval/g1/loss": _evaluations(0.0)["eval/g1/loss"]}
    assert findings(with_gaps(one_only, gaps)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_jump_that_decays_after_a_resume(seed: int) -> None:
    """Shows R801-3.20: optimizer moments that were not restored cost some steps; the loss then comes back."""
    values = log(seed)
    age = STEPS - RESUME
    values["loss"] = values["loss"] * np.exp(np.where(age > 0, 0.15 * np.exp(-np.maximum(age, 0) / 8.0), 0.0))
    found = findings(resumed(values))
    assert ("resume", (RESUME + 1, RESUME + 1)) in [(f.kind, f.onset) for f in found]


def test_a_scaler_that_starts_anew() -> None:
    values = log(4)
    values["loss_scale"] = np.where(STEPS > RESUME, 2.0**32, values["loss_scale"])
    (found,) = findings(resumed(values))
    assert "scaler starts anew" in found.statement


def test_a_schedule_that_starts_anew_unless_somebody_changed_it() -> None:
    values = log(5)
    again = np.concatenate([values["learning_rate"][:RESUME], values["learning_rate"][: STEPS.size - RESUME]])
    (found,) = findings(resumed(values | {"learning_rate": again}))
    assert "as where the schedule is not restored" in found.statement
    changed = resumed(values | {"learning_rate": again}, before={"optim.lr": 1e-3}, after={"optim.lr": 5e-5})
    assert findings(changed) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_that_departs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = {f"step_time_s@rank={r}": 0.2 * np.exp(0.05 * rng.normal(size=STEPS.size)) for r in range(8)}
    assert findings(make_view("run", STEPS, ranks)) == []
    ranks["step_time_s@rank=3"] = ranks["step_time_s@rank=3"] * np.where(STEPS > 80, 1.3, 1.0)
    (found,) = findings(make_view("run", STEPS, ranks))
    assert (found.kind, found.series) == ("rank_departure", ("step_time_s@rank=3",))
    assert found.onset[0] <= 81 <= found.onset[1] + 2


def speed(seed: int, noise: float = 0.005) -> np.ndarray:
    return 9000.0 * np.exp(noise * np.random.default_rng(seed).normal(size=STEPS.size))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_steady_speed_and_one_that_only_scatters_are_silent(seed: int) -> None:
    for noise in (0.005, 0.1):
        assert findings(make_view("run", STEPS, {"tokens_per_second": speed(seed, noise)})) == []


def test_speed_that_steps_down_creeps_or_stalls() -> None:
    """Shows R801-3.2: infrastructure shows in the step times alone, long before anybody looks at a bill."""
    steady = speed(1)
    cases = {
        "falls by 6 %": steady * np.where(STEPS > 150, 0.94, 1.0),
        "creeps down by": steady * np.exp(-0.4 * STEPS / STEPS.size),
        "every 10 steps": steady * np.where(STEPS % 10 == 0, 0.4, 1.0),
    }
    cut = segments()[0]
    resumed_at_60 = (replace(cut, last_step=60), replace(cut, number=1, start_step=60, last_step=int(STEPS[-1])))
    for words, values in cases.items():
        (found,) = findings(make_view("run", STEPS, {"tokens_per_second": values}))
        assert (found.kind, words in found.statement) == ("throughput", True), found.statement
        (again,) = findings(make_view("run", STEPS, {"tokens_per_second": values}, resumed_at_60))
        assert (again.kind, words.split()[0] in again.statement) == ("throughput", True), again.statement
    fifth = {"tokens_per_second": steady * np.where(STEPS > 150, 0.8, 1.0)}
    (found,) = findings(make_view("run", STEPS, fifth, resumed_at_60))
    assert "falls by 20 %" in found.statement


def test_slow_steps_that_cost_little_and_a_design_that_slows_down_are_silent() -> None:
    """A new data shard every 60 steps, and an attention window that grows with the step."""
    seldom = speed(2) * np.where(STEPS % 60 == 0, 0.45, 1.0)
    by_design = speed(3) * np.exp(-0.13 * STEPS / STEPS.size)
    for values in (seldom, by_design):
        assert findings(make_view("run", STEPS, {"tokens_per_second": values})) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_that_improves_suspiciously(seed: int) -> None:
    """Shows R801-3.2: answers that leaked into the data look like progress."""
    values = log(seed)
    values["loss"] = values["loss"] * np.where(STEPS > RESUME, 0.6, 1.0)
    found = findings(resumed(values))
    assert (found[0].kind, found[0].onset[0] <= RESUME + 1 <= found[0].onset[1]) == ("sudden_gain", True)


@pytest.mark.parametrize("length", [5, 12, 30])
def test_a_loss_that_comes_back_from_a_burst_is_no_sudden_gain(length: int) -> None:
    """A wide spike ends as suddenly as an answer leaks in, but at the level that was there before it."""
    values, age = log(8), STEPS - 120
    values["loss"] = values["loss"] * np.where((age > 0) & (age <= length), 2.0, 1.0)
    found = findings(make_view("run", STEPS, values))
    assert "sudden_gain" not in {each.kind for each in found}
    assert length > 5 or [each.kind for each in found] == ["spike"]


def test_an_evaluation_of_an_empty_slice_is_no_end_of_the_training() -> None:
    """0/0 where a slice has no token is a measurement; an evaluation that breaks and stays broken is a finding."""
    every = STEPS % 10 != 0
    values = log(7) | {"eval_loss/quote": np.where(STEPS % 30 == 0, 2.5, np.nan)}
    view = make_view("run", STEPS, values)
    assert findings(replace(view, present={k: ~(every & (k == "eval_loss/quote")) for k in values})) == []
    values["eval_loss/quote"] = np.where(STEPS > 150, np.nan, 2.5)
    view = make_view("run", STEPS, values)
    (found,) = findings(replace(view, present={k: ~(every & (k == "eval_loss/quote")) for k in values}))
    assert (found.kind, found.onset) == ("non_finite", (160, 160))


def test_a_fast_start_that_is_logged_densely_is_no_sudden_gain() -> None:
    """Every step at first, every tenth later: by its steps the fall is the beginning of the training."""
    steps = np.concatenate([np.arange(0, 40), np.arange(40, 600, 10)])
    loss = 1.7 + 3.5 / (1.0 + np.exp((steps - 30.0) / 4.0))
    assert findings(make_view("run", steps, {"loss": loss})) == []
