"""What becomes of a loss that is not finite: it is recorded as it is, and the policy says what happens next."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_training import SMALL, Trainings, equal_bits, small_config
from torch import Tensor

from contracts.events import CheckpointSaved, DataRead, Effective, Scalar
from trainer import BalanceConfig, Parts, ScheduleConfig, TrainConfig
from trainer.checkpoint import load_checkpoint
from trainer.parts import balance_loss, learning_rate

NUM_LAYERS = SMALL["model.num_layers"]


def bad_batch(step: int, value: float) -> Callable[[], Parts]:
    """Parts whose balance loss is `value` at one step (1-based), for instance because that step's data are broken."""

    def make() -> Parts:
        calls = 0

        def loss(layer: int, probs_RNE: Tensor, load_RE: Tensor, config: BalanceConfig) -> Tensor:
            nonlocal calls
            calls += 1
            usual = balance_loss(layer, probs_RNE, load_RE, config)
            return usual * value if (calls - 1) // NUM_LAYERS == step - 1 else usual

        return Parts(balance_loss=loss)

    return make


def leap(step: int, schedule: ScheduleConfig) -> float:
    """A schedule with one absurd step, the fifth, which breaks the weights."""
    return math.inf if step == 4 else learning_rate(step, schedule)


def policy(name: str, **overrides: Scalar) -> TrainConfig:
    return small_config(numerics__on_nonfinite=name, clip__max_norm=0.0, **overrides)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_skip_leaves_the_step_out(trainings: Trainings, new_trainings, value: float) -> None:
    """The value is recorded exactly, weights and optimizer keep their bits, and the data go on."""
    trace = trainings.here(policy("skip", checkpoint__every=1), bad_batch(3, value)())
    assert list(trace.metrics) == [1, 2, 3, 4, 5, 6]
    recorded = trace.metrics[3]["loss"]
    assert math.isnan(recorded) if math.isnan(value) else recorded == value
    assert [values["skipped_update"] for values in trace.metrics.values()] == [0, 0, 1, 0, 0, 0]
    assert all(math.isfinite(values["loss"]) for step, values in trace.metrics.items() if step != 3)
    assert all(trace.metrics[3][name] == 0 for name in trace.metrics[3] if name.startswith("update_norm/"))
    before, after = (load_checkpoint(trainings.run_folder / f"checkpoints/step-00000{step}") for step in (2, 3))
    for name, weight in before.weights.items():
        assert equal_bits(weight, after.weights[name])
        ours, theirs = before.optimizer[name], after.optimizer[name]
        assert ours.age == theirs.age
        assert all(equal_bits(tensor, theirs.tensors[key]) for key, tensor in ours.tensors.items())
    assert after.loader.consumed == before.loader.consumed + 8
    healthy = new_trainings().here(policy("skip"))
    assert trace.of(DataRead) == healthy.of(DataRead)
    assert trace.finished.reason == "completed"


def test_stop_says_what_and_when(trainings: Trainings) -> None:
    trace = trainings.here(policy("stop", checkpoint__every=1), bad_batch(3, math.inf)())
    assert (trace.finished.step, trace.finished.reason) == (3, "failed")
    assert trace.finished.message == "the loss became inf at step 3"
    assert [event.step for event in trace.of(CheckpointSaved)] == [1, 2]


def test_rewind_returns_to_the_last_checkpoint(trainings: Trainings) -> None:
    """The fifth step breaks the weights; after the sixth they are those of step 4 again. Steps and data go on."""
    trace = trainings.here(policy("rewind", steps=8), Parts(learning_rate=leap))
    assert list(trace.metrics) == list(range(1, 9))
    assert not math.isfinite(trace.metrics[6]["loss"])
    assert [step for step, values in trace.metrics.items() if values["skipped_update"]] == [6]
    assert all(math.isfinite(trace.metrics[step]["loss"]) for step in (7, 8))
    assert Effective(step=7, values={"numerics.rewound_to": 4}) in trace.of(Effective)
    assert any("return to those of step 4" in line for line in trace.console)
    four, six = (load_checkpoint(trainings.run_folder / f"checkpoints/step-00000{step}") for step in (4, 6))
    assert all(equal_bits(weight, six.weights[name]) for name, weight in four.weights.items())
    assert six.loader.consumed == 48
    assert [event.position for event in trace.of(DataRead)] == [8 * step for step in range(1, 9)]


def test_rewind_without_a_checkpoint_returns_to_the_start(trainings: Trainings) -> None:
    trace = trainings.here(policy("rewind", checkpoint__every=100), Parts(learning_rate=leap))
    assert Effective(step=7, values={"numerics.rewound_to": 0}) not in trace.of(Effective)  # the sixth step is the last
    state = load_checkpoint(trainings.run_folder / "checkpoints/step-000006")
    assert all(torch.isfinite(weight).all() for weight in state.weights.values())
    assert all(parameter.age == 0 for parameter in state.optimizer.values())


def test_rewind_gives_up(trainings: Trainings) -> None:
    """A checkpoint that holds the broken weights does not help: after three returns the training fails."""
    trace = trainings.here(policy("rewind", steps=20, checkpoint__every=5), Parts(learning_rate=leap))
    assert (trace.finished.step, trace.finished.reason) == (9, "failed")
    assert "after 3 returns to step 5" in trace.finished.message
    assert [Path(event.path).name for event in trace.of(CheckpointSaved)] == ["step-000005"]
