"""The finest statistics come at their own cadence, agree with the coarse ones, and change nothing."""

from __future__ import annotations

import itertools

import pytest
from small_training import small_config

from contracts.events import Scalar
from contracts.names import SeriesName
from trainer import Recipe
from trainer.corpus import Corpus
from trainer.training import StepRecord, Training

LAPS = {f"step_time_s/{part}" for part in ("data", "forward", "backward", "optimizer", "statistics")}


def steps(corpus: Corpus, num_steps: int, **overrides: Scalar) -> list[StepRecord]:
    config = small_config(moe__choice_bias=True, mtp__num_modules=1, **overrides)
    training = Training(Recipe(config=config), corpus, None, itertools.count(0.0, 0.25).__next__)
    return [training.advance() for _ in range(num_steps)]


def test_detail_comes_at_its_cadence_and_changes_nothing(corpus: Corpus) -> None:
    """Shows R801-2.3: the wider series are there in every second step only; all others are equal, clock aside."""
    plain, detailed = steps(corpus, 4), steps(corpus, 4, diagnostics__detail_every=2)
    for number, (one, two) in enumerate(zip(plain, detailed, strict=True), start=1):
        more = set(two.values) - set(one.values)
        assert bool(more) == (number % 2 == 0)
        clock = {"step_time_s", "tokens_per_second"}
        assert {k: v for k, v in one.values.items() if k not in clock} == {
            k: v for k, v in two.values.items() if k not in clock | more
        }
    for name in detailed[1].values:
        assert str(SeriesName.parse(name)) == name


def test_detail_adds_up(corpus: Corpus) -> None:
    """Experts and matrices give the module's norm; probabilities sum to one; the biases have moved by their rate."""
    values = steps(corpus, 1, diagnostics__detail_every=1, moe__router_bias=True)[0].values
    for statistic in ("grad_norm", "weight_norm"):
        for block in ("layers.0", "layers.1", "mtp.0"):
            experts = [values[f"{statistic}/{block}/experts.{e}"] for e in range(4)]
            assert sum(v * v for v in experts) == pytest.approx(values[f"{statistic}/{block}.experts"] ** 2, rel=1e-5)
            heads = [values[f"{statistic}/{block}.attn.{p}_proj"] for p in "qkvo"]
            assert sum(v * v for v in heads) == pytest.approx(values[f"{statistic}/{block}.attn"] ** 2, rel=1e-5)
            assert sum(values[f"router_prob/{block}/experts.{e}"] for e in range(4)) == pytest.approx(1.0, rel=1e-5)
    assert values["grad_norm/layers.0.router.bias"] > 0.0
    assert values["grad_norm/layers.0.router.weight"] < values["grad_norm/layers.0.router"]
    biases = {round(abs(values[f"choice_bias/layers.0/experts.{e}"]), 9) for e in range(4)}
    assert {1e-3} <= biases <= {0.0, 1e-3}


def test_parts_of_a_step_add_up(corpus: Corpus) -> None:
    """With accumulation forward and backward are met several times: a clock of quarters counts each reading."""
    values = steps(corpus, 1, diagnostics__detail_every=1, parallel__accumulation=2)[0].values
    assert set(values) >= LAPS
    assert sum(values[name] for name in LAPS) == values["step_time_s"] - 0.25
    assert values["step_time_s/forward"] == values["step_time_s/backward"] == 0.5
