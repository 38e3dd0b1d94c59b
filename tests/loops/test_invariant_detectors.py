"""What must hold whatever the recipe: each broken rule is found at its step, health is silent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import CUTS, HEALTHY, run_view

from loops.debug.case import group_findings
from loops.debug.detectors import balance_bound, gradient_cover, invariant, learning_rate, redone_steps
from loops.debug.view import Redone, RunView, SegmentView, make_view

STEPS = np.arange(1, 161)
SCHEDULE = {
    "schedule.kind": "cosine",
    "schedule.warmup_steps": 10,
    "schedule.decay_start": 0,
    "schedule.decay_steps": 200,
    "schedule.min_ratio": 0.1,
    "optim.router.lr": 1e-2,
    "optim.attention.lr": 3e-3,
    "optim.experts.lr": 2e-3,
    "optim.head.lr": 1e-3,
}
SEEDS = range(5)


def _noise(seed: int, sigma: float) -> np.ndarray:
    return np.exp(sigma * np.random.default_rng(seed).normal(size=STEPS.size))


def _segment(**declared: object) -> SegmentView:
    return SegmentView(number=0, start_step=0, last_step=160, code_version="a", declared=declared)  # type: ignore[arg-type]


# --- balance loss ---------------------------------------------------------------------------------------------------


def _balance(seed: int, after: float) -> RunView:
    late = STEPS > 90
    names = [f"balance_loss/layers.{i}" for i in range(4)]
    rows = {name: np.where(late, after, 1.0) * (1.0 + 0.05 * _noise(seed + i, 0.3)) for i, name in enumerate(names)}
    return make_view("run", STEPS, rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_balance_loss_below_its_least_value(seed: int) -> None:
    (found,) = balance_bound.detect(_balance(seed, 0.5))
    assert (found.kind, found.onset) == ("invariant", (91, 91))
    assert len(found.series) == 4
    assert "cannot lie below 1" in found.statement


@pytest.mark.parametrize("seed", SEEDS)
def test_a_balance_loss_in_its_range_or_scaled_otherwise_all_along_is_silent(seed: int) -> None:
    assert balance_bound.detect(_balance(seed, 0.95)) == []
    scaled = {name: 0.01 * values for name, values in _balance(seed, 0.5).values.items()}
    assert balance_bound.detect(make_view("scaled", STEPS, scaled)) == []


# --- gradient norm --------------------------------------------------------------------------------------------------


def _gradients(seed: int, *, left_out: str = "") -> RunView:
    names = ("embedding", "layers.0.attn", "layers.0.experts", "layers.1.attn", "layers.1.experts")
    parts = {f"grad_norm/{name}": _noise(seed + i, 0.3) for i, name in enumerate(names)}
    counted = [np.where((STEPS > 90) & (left_out in name) & bool(left_out), 0.0, row) for name, row in parts.items()]
    whole = np.sqrt(np.sum(np.square(counted), axis=0))
    inner = {"grad_norm/layers.0.attn.q_proj": 0.7 * parts["grad_norm/layers.0.attn"]}
    return make_view("run", STEPS, {"grad_norm": whole, **parts, **inner})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gradient_norm_that_no_longer_covers_all_parameters(seed: int) -> None:
    (found,) = gradient_cover.detect(_gradients(seed, left_out="experts"))
    assert (found.kind, found.onset, found.series) == ("invariant", (91, 91), ("grad_norm",))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gradient_norm_of_all_its_parts_or_of_more_than_is_logged_is_silent(seed: int) -> None:
    view = _gradients(seed)
    assert gradient_cover.detect(view) == []
    some = {name: row for name, row in view.values.items() if "embedding" not in name}
    assert gradient_cover.detect(make_view("some", STEPS, some)) == []


def test_a_norm_that_was_never_the_whole_is_silent() -> None:
    """A trainer that logs the norm after clipping shows less than the parts from its first step on."""
    view = _gradients(1)
    clipped = {**view.values, "grad_norm": np.minimum(view.values["grad_norm"], 1.0)}
    assert gradient_cover.detect(make_view("clipped", STEPS, clipped)) == []


# --- learning rate --------------------------------------------------------------------------------------------------


def _rates(**changes: np.ndarray) -> dict[str, np.ndarray]:
    warmup = np.minimum(1.0, STEPS / 11)
    multiplier = warmup * (1.0 - 0.9 * (0.5 - 0.5 * np.cos(np.pi * (STEPS - 1) / 200)))
    groups = {"router": 1e-2, "attention": 3e-3, "experts": 2e-3, "head": 1e-3}
    return {f"lr/group.{g}": rate * multiplier * changes.get(g, np.ones(STEPS.size)) for g, rate in groups.items()}


def test_a_rate_that_leaves_its_declared_schedule() -> None:
    held = np.where(STEPS > 100, 1.4, 1.0)
    rates = _rates(router=held, attention=held, experts=held, head=held)
    view = make_view("run", STEPS, rates, (_segment(**SCHEDULE),))
    (found,) = learning_rate.detect(view)
    assert found.onset == (101, 101)
    assert "leaves its declared schedule at step 101" in found.statement
    assert "1.4 times" in found.statement


def test_a_group_that_leaves_the_schedule_of_the_others() -> None:
    own = {key: value for key, value in SCHEDULE.items() if not key.startswith("schedule.")}
    view = make_view("run", STEPS, _rates(router=np.where(STEPS > 100, 0.1, 1.0)), (_segment(**own),))
    (found,) = learning_rate.detect(view)
    assert found.series == ("lr/group.router",)
    assert "the schedule of the other groups" in found.statement


def test_a_rate_as_declared_and_a_schedule_bent_from_the_beginning_are_silent() -> None:
    assert learning_rate.detect(make_view("run", STEPS, _rates(), (_segment(**SCHEDULE),))) == []
    other = np.linspace(1.2, 2.0, STEPS.size)
    bent = _rates(router=other, attention=other, experts=other, head=other)
    assert learning_rate.detect(make_view("bent", STEPS, bent, (_segment(**SCHEDULE),))) == []


# --- steps done again -----------------------------------------------------------------------------------------------


def _resumed(seed: int, gap: np.ndarray, *, code: str = "version-1") -> RunView:
    """A run whose third segment goes back twenty steps; `gap` in logarithms against what had been there."""
    view = run_view(seed, HEALTHY, HEALTHY, HEALTHY)
    second, third = view.segments[1], replace(view.segments[2], start_step=CUTS[1] - 20, code_version=code)
    steps = view.steps[CUTS[1] - 20 : CUTS[1]]
    before = view.values["lm_loss"][CUTS[1] - 20 : CUTS[1]]
    redone = Redone(
        name="lm_loss", segment=2, earlier=1, steps=steps, before=before, after=before * np.exp(gap * np.ones(20))
    )
    return replace(view, segments=(view.segments[0], second, third), redone=(redone,))


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_done_again_that_differ_at_once(seed: int) -> None:
    """Shows R801-3.20: the generator, the order or the optimizer was not restored, though no repeat shows it."""
    gap = 0.03 * np.random.default_rng(seed).normal(size=20) + 0.01
    (found,) = redone_steps.detect(_resumed(seed, gap))
    assert (found.kind, found.onset) == ("resume", (91, 91))


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_steps_slow_parting_and_changed_code_are_silent(seed: int) -> None:
    assert redone_steps.detect(_resumed(seed, np.zeros(20))) == []
    assert redone_steps.detect(_resumed(seed, np.linspace(0.0, 0.02, 20) ** 2)) == []
    assert redone_steps.detect(_resumed(seed, np.full(20, 0.1), code="another")) == []


# --- declared and used ----------------------------------------------------------------------------------------------


def _used(router_lr: float, *, moving: frozenset[str] = frozenset(), **more: object) -> RunView:
    """Three segments that all declare a router rate of 1e-3 and use `router_lr`."""
    view = run_view(1, HEALTHY, HEALTHY, HEALTHY)
    effective = {"optim.router_lr": router_lr, **more}
    segments = tuple(replace(s, effective={**s.effective, **effective}, moving=moving) for s in view.segments)
    return replace(view, segments=segments)


def test_a_rate_that_is_used_otherwise_than_declared_opens_a_case_by_itself() -> None:
    """Shows R801-3.4: the optimizer's settings as used, from the first step on or from a resume on, told once."""
    view = _used(9e-3)
    (found,) = invariant.detect(view)
    assert (found.onset, found.standalone) == ((1, 1), True)
    assert "optim.router_lr is 0.009 although 0.001 is declared" in found.statement
    assert group_findings(view, [found]) == [[found]]
    first, *later = view.segments
    healthy = replace(first, effective={**first.effective, "optim.router_lr": 1e-3})
    (found,) = invariant.detect(replace(view, segments=(healthy, *later)))
    assert (found.onset, found.standalone) == ((CUTS[0] + 1, CUTS[0] + 1), True)


def test_what_follows_a_schedule_or_a_stage_is_used_as_it_was_meant() -> None:
    assert invariant.detect(_used(1e-3)) == []
    assert invariant.detect(_used(9e-3, moving=frozenset({"optim.router_lr"}))) == []
    assert invariant.detect(_used(9e-3, **{"stage.name": "long"})) == []
