"""What several spikes, few lines, one odd batch and a fork without changes look like; healthy ones stay silent.

Shows R801-3.1 and R801-3.19 (a resume that restores too little) on foreign logs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contracts.events import Scalar
from loops.debug.detectors import eval_break, few_points, fork_departure, non_finite, spike
from loops.debug.view import ParentView, RunView, make_view


def _loss(size: int, seed: int, noise: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (2.0 + 2.0 * np.exp(-np.arange(size) / 80.0)) * np.exp(noise * rng.normal(size=size))


def test_each_spike_is_told_the_largest_first() -> None:
    loss = _loss(600, 1)
    loss[300:304] *= 1.35
    loss[450:453] *= 1.6
    found = spike.detect(make_view("run", np.arange(0, 3000, 5), {"loss": loss}))
    assert [(f.kind, f.onset[0]) for f in found] == [("spike", 2250), ("spike", 1500)]


def test_one_odd_batch_is_silent_unless_it_is_huge_or_its_neighbours_are_unknown() -> None:
    loss = _loss(600, 2)
    loss[300] *= 1.5
    every, seldom = np.arange(600), np.arange(0, 6000, 10)
    assert spike.detect(make_view("run", every, {"loss": loss})) == []
    assert [f.onset for f in spike.detect(make_view("run", seldom, {"loss": loss}))] == [(3000, 3000)]
    loss[300] *= 2.0
    assert [f.onset for f in spike.detect(make_view("run", every, {"loss": loss}))] == [(300, 300)]


def _excerpt(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Eighteen lines out of a long log, with large holes."""
    rng = np.random.default_rng(seed)
    steps = np.concatenate([[900], np.arange(2000, 2009), [2030], np.arange(4000, 4006), [5000]])
    values = {
        "lm_loss": 2.2 * np.exp(-steps / 1e5) * np.exp(0.01 * rng.normal(size=steps.size)),
        "grad_norm": 0.2 * np.exp(0.2 * rng.normal(size=steps.size)),
        "tflops": 148.0 * np.exp(0.004 * rng.normal(size=steps.size)),
    }
    return steps, values


def test_a_burst_in_few_lines_begins_where_the_gradients_rise() -> None:
    steps, values = _excerpt(3)
    values["grad_norm"][3:9] = [0.9, 2.4, 16.0, 150.0, 900.0, 300.0]
    values["lm_loss"][7:9] = [5.1, 3.2]
    found = few_points.detect(make_view("run", steps, values))
    assert [(f.kind, f.onset) for f in found] == [("spike", (2002, 2006))]
    assert "back by step 2008" in found[0].statement


def test_a_loss_that_jumps_with_quiet_gradients_is_not_judged_from_few_lines() -> None:
    steps, values = _excerpt(3)
    values["lm_loss"][7] = 5.1
    assert few_points.detect(make_view("run", steps, values)) == []


def test_a_speed_that_falls_in_few_lines_is_the_machine_only_while_the_loss_stays() -> None:
    steps, values = _excerpt(4)
    values["tflops"][14:] *= 0.95
    found = few_points.detect(make_view("run", steps, values))
    assert [(f.kind, f.onset) for f in found] == [("throughput", (4002, 4003))]
    values["lm_loss"][14:] *= 0.9
    assert few_points.detect(make_view("run", steps, values)) == []


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_few_healthy_lines_are_silent(first: int) -> None:
    found = [few_points.detect(make_view("run", *_excerpt(seed))) for seed in range(first, first + 100)]
    assert sum(map(len, found)) == 0


def _fork(seed: int, factor: float, *, declared: dict[str, Scalar] | None = None, noise: float = 0.004) -> RunView:
    """A run that goes on from step 300 of its parent on the same batches, its loss `factor` times the parent's."""
    steps = np.arange(300, 600, 10)
    batches = _loss(60, seed, 0.03)[30:]
    rng = np.random.default_rng(1000 + seed)
    parent = ParentView(step=299, steps=steps, values={"loss": batches}, setting=("", 0, declared or {}))
    mine = factor * batches * np.exp(noise * rng.normal(size=steps.size).cumsum() / 5.0)
    return replace(make_view("fork", steps, {"loss": mine}), parent=parent)


def test_a_fork_that_does_worse_without_any_change() -> None:
    (found,) = fork_departure.detect(_fork(5, 1.03))
    assert found.kind == "fork_departure"
    assert found.onset[0] == 310
    assert "29 of 29 common steps" in found.statement


def test_a_fork_whose_loss_scaler_began_anew_says_so() -> None:
    """The scaler's own search makes gradients infinite; that is no finding beside the one about the resume."""
    view = _fork(5, 1.03)
    assert view.parent is not None
    parent = replace(view.parent, values={**view.parent.values, "loss_scale": np.full(30, 2.0**19)}, step=320)
    scale = 2.0 ** np.maximum(32 - np.arange(30), 19)
    gradients = np.where(scale > 2.0**19, np.inf, 1.0)
    begun = {"loss": view.values["loss"], "loss_scale": scale, "grad_norm": gradients}
    fork = replace(make_view("fork", view.steps, begun), parent=parent)
    (found,) = fork_departure.detect(fork)
    assert "(at step 300 loss_scale is 4.29e+09, it had come to 5.24e+05)" in found.statement
    assert non_finite.detect(fork) == []


def test_forks_that_were_changed_or_only_repeat_are_silent() -> None:
    assert fork_departure.detect(_fork(5, 1.03, declared={"lr": 2})) == []
    assert [f for seed in range(200) for f in fork_departure.detect(_fork(seed, 1.0))] == []
    assert fork_departure.detect(_fork(5, 0.97)) == []


def _evaluated(seed: int) -> dict[str, np.ndarray]:
    """A training loss and an evaluation every 20 steps that follows it; NaN where it was not logged."""
    rng = np.random.default_rng(2000 + seed)
    train = _loss(600, seed, 0.02)
    evals = np.full(600, np.nan)
    evals[::20] = _loss(600, seed, 0.0)[::20] * 1.03 * np.exp(0.004 * rng.normal(size=30))
    return {"loss": train, "eval_loss": evals}


def _eval_view(values: dict[str, np.ndarray]) -> RunView:
    view = make_view("run", np.arange(600), values)
    return replace(view, present={name: np.isfinite(each) for name, each in values.items()})


def test_an_evaluation_that_steps_while_training_goes_on_is_measured_otherwise() -> None:
    values = _evaluated(6)
    values["eval_loss"][400:] *= 0.85
    (found,) = eval_break.detect(_eval_view(values))
    assert found.onset == (381, 400)
    assert "falls" in found.statement


def test_evaluations_that_follow_or_part_slowly_are_no_break() -> None:
    assert [f for seed in range(200) for f in eval_break.detect(_eval_view(_evaluated(seed)))] == []
    slowly, together = _evaluated(7), _evaluated(7)
    slowly["eval_loss"] *= np.exp(np.maximum(0.0, (np.arange(600) - 300) / 600.0))
    for name in together:
        together[name][400:] *= 1.3
    assert eval_break.detect(_eval_view(slowly)) == eval_break.detect(_eval_view(together)) == []
