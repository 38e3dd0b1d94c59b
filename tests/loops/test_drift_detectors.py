"""What moves slowly, and who departs from its peers: found with an interval for the onset; health is silent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loops.debug.detectors import drift, expert_departure, mixture_shift, module_divergence
from loops.debug.view import RunView, SegmentView, make_view

STEPS = np.arange(1, 401)
SEEDS = range(12)


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def _noisy(seed: int, name: str, course: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(course * np.exp(sigma * _rng(seed, name).normal(size=STEPS.size)))


def _loss(seed: int, rise: float = 0.0, since: int = 220) -> np.ndarray:
    ramp = rise * np.maximum(0, STEPS - since) / (400 - since)
    return _noisy(seed, "loss", (2.2 + 3.0 * np.exp(-STEPS / 40.0)) * np.exp(ramp), 0.03)


def _logits(seed: int, speed: float) -> dict[str, np.ndarray]:
    """Logits that grow as in health (ever more slowly), and from step 250 on exponentially with `speed` a step."""
    course = 0.3 * np.log1p(STEPS / 20.0) * np.exp(speed * np.maximum(0, STEPS - 250))
    return {f"router_logit_std/layers.{i}": _noisy(seed, f"std{i}", course, 0.05) for i in range(6)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_that_creeps_up_without_a_jump(seed: int) -> None:
    (found,) = drift.detect(make_view("run", STEPS, {"lm_loss": _loss(seed, 0.15)}))
    assert (found.kind, found.series) == ("drift", ("lm_loss",))
    assert found.onset[0] <= 240
    assert found.onset[1] >= 190
    assert "creeps up again slowly" in found.statement


@pytest.mark.parametrize("seed", SEEDS)
def test_logits_that_grow_ever_faster(seed: int) -> None:
    """Shows R801-3.19: an abnormal trend of the router's logits, without any resume."""
    (found,) = drift.detect(make_view("run", STEPS, _logits(seed, 0.012)))
    assert len(found.layers) == 6
    assert found.onset[0] <= 290
    assert found.onset[1] >= 230


@pytest.mark.parametrize("seed", SEEDS)
def test_health_does_not_drift(seed: int) -> None:
    """A loss that falls or stays, logits that grow ever more slowly, a gradient norm that wanders."""
    walk = np.exp(np.cumsum(0.02 * _rng(seed, "walk").normal(size=STEPS.size)))
    view = make_view("run", STEPS, {"lm_loss": _loss(seed), "grad_norm": walk, **_logits(seed, 0.0)})
    assert drift.detect(view) == []


def _modules(seed: int, runaway: float, statistic: str = "weight_norm") -> RunView:
    """Four kinds of modules in four layers; the router grows by `runaway` a step, without slowing down."""
    values = {}
    for kind, speed in (("attn", 0.05), ("experts", 0.1), ("norm", 0.01), ("router", 0.15)):
        course = 1.0 + speed * np.log1p(STEPS / 30.0)
        course = course * np.exp(runaway * STEPS * (kind == "router"))
        for layer in range(4):
            name = f"{statistic}/layers.{layer}.{kind}"
            values[name] = _noisy(seed, name, course, 0.005 if statistic == "weight_norm" else 0.1)
    return make_view("run", STEPS, values)


def _resumed_at_60(view: RunView) -> RunView:
    spans = ((0, 0, 60), (1, 60, 400))
    segments = [SegmentView(number=n, start_step=lo, last_step=hi, code_version="a") for n, lo, hi in spans]
    return replace(view, segments=tuple(segments))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kind_of_module_that_runs_away_from_the_others(seed: int) -> None:
    """Shows R801-3.17: trends of weight and gradient norms that diverge between modules, from the beginning on."""
    (weights,) = module_divergence.detect(_modules(seed, 0.005))
    assert weights.kind == "module_divergence"
    assert all(name.endswith(".router") for name in weights.series)
    (gradients,) = module_divergence.detect(_modules(seed, 0.01, "grad_norm"))
    assert "grad_norm of router runs away" in gradients.statement
    (later,) = module_divergence.detect(_resumed_at_60(_modules(seed, 0.005)))
    assert (later.series, "over the last half of steps 61-400" in later.statement) == (weights.series, True)


@pytest.mark.parametrize("seed", SEEDS)
def test_modules_that_grow_at_their_own_speeds_and_slow_down_are_silent(seed: int) -> None:
    assert module_divergence.detect(_modules(seed, 0.0)) == []
    assert module_divergence.detect(_resumed_at_60(_modules(seed, 0.0))) == []


def _experts(seed: int, *, starved: int = 0, swamped: bool = False) -> RunView:
    values = {}
    for layer in range(3):
        weights = _rng(seed, f"w{layer}").uniform(0.6, 1.4, size=8)[:, None] * np.ones(STEPS.size)
        late = 1.0 / (1.0 + np.exp((STEPS - 150) / 10.0))
        if layer == 1:
            weights[:starved] *= late
            weights[7] *= np.where(swamped, 1.0 + 30.0 * (1.0 - late), 1.0)
        loads = weights * np.exp(0.2 * _rng(seed, f"n{layer}").normal(size=weights.shape))
        loads = 8.0 * loads / loads.sum(axis=0)
        values |= {f"expert_load/layers.{layer}/experts.{e}": row for e, row in enumerate(loads)}
    return make_view("run", STEPS, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_experts_that_starve_while_the_mean_load_cannot_show_it(seed: int) -> None:
    (found,) = expert_departure.detect(_experts(seed, starved=2))
    assert (found.kind, found.layers) == ("expert_departure", (1,))
    assert found.series == ("expert_load/layers.1/experts.0", "expert_load/layers.1/experts.1")
    assert found.statement.startswith("experts 0 and 1 of layer 1 get almost no token since")
    assert found.onset[0] <= 175
    assert found.onset[1] >= 125


@pytest.mark.parametrize("seed", SEEDS)
def test_an_expert_that_takes_most_of_the_tokens(seed: int) -> None:
    found = expert_departure.detect(_experts(seed, swamped=True))
    assert "7 of layer 1 take most of the tokens" in found[-1].statement


@pytest.mark.parametrize("seed", SEEDS)
def test_experts_of_unequal_size_are_silent(seed: int) -> None:
    assert expert_departure.detect(_experts(seed)) == []


def _mixture(seed: int, share: float) -> RunView:
    """Shares of eight samples a step; one source has `share` from the resume at step 200 on."""
    late = STEPS > 200
    rate = np.where(late, share, 0.1)
    pages = _rng(seed, "pages").binomial(8, rate) / 8.0
    first = SegmentView(number=0, start_step=0, last_step=200, code_version="a")
    segments = (first, SegmentView(number=1, start_step=200, last_step=400, code_version="b"))
    values = {"mixture/source.pages": pages, "mixture/source.books": 1.0 - pages}
    return make_view("run", STEPS, values, segments)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_source_that_takes_over_at_a_resume(seed: int) -> None:
    """Shows R801-3.18: pages of low quality are seen in what is read before they are seen in what is written."""
    (found,) = mixture_shift.detect(_mixture(seed, 0.75))
    assert (found.kind, found.onset, found.series) == ("mixture_shift", (201, 201), ("mixture/source.pages",))
    assert mixture_shift.detect(_mixture(seed, 0.15)) == []
