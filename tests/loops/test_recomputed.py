"""What the log alone says of an anomaly, before anything is run again. Shows R801-3.4, R801-3.18."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from world import ATTENTION, README, REPORT, SCALE, World

from contracts.enums import CauseKind
from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.ranking import pointed
from loops.debug.recomputed import Pointer, Recomputed, recomputed_of
from loops.debug.substance import Substance
from loops.debug.view import Floats, RunView, make_view
from loops.runner import Runner

STEPS, ONSET = 120, (81, 81)
AFTER = np.arange(1, STEPS + 1) >= ONSET[0]


def loads(num_experts: int = 4) -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.5, 1.5, (num_experts, STEPS))
    return {f"expert_load/layers.2/experts.{n}": row for n, row in enumerate(values)}


def view_of(values: dict[str, Floats]) -> RunView:
    return make_view("run", np.arange(1, STEPS + 1), values)


def test_a_number_that_still_follows_from_its_parts_is_made_as_before() -> None:
    parts = loads()
    whole = {"max_vio/layers.2": np.max(list(parts.values()), axis=0) - 1.0}
    (found,) = recomputed_of(view_of(parts | whole), ["max_vio/layers.2"], ONSET)
    assert found.pointer is Pointer.ITS_PARTS
    assert "the largest, less 1, of its 4 parts at all 80 steps before and at all 40 after" in found.sentence


def test_a_number_that_no_longer_follows_from_its_parts_is_made_otherwise() -> None:
    parts = {f"balance_loss/layers.{n}": 1.0 + row for n, row in enumerate(loads().values())}
    mean = np.mean(list(parts.values()), axis=0)
    whole = {"balance_loss": np.where(AFTER, 2.0 * mean, mean)}
    (found,) = recomputed_of(view_of(parts | whole), ["balance_loss"], ONSET)
    assert found.pointer is Pointer.HOW_IT_IS_MADE
    assert "is 50% off after" in found.sentence
    assert {ref.kind for ref in found.evidence} == {"series"}


def test_a_number_that_never_followed_from_its_parts_says_nothing() -> None:
    parts = loads()
    whole = {"max_vio/layers.2": np.linspace(0.1, 0.9, STEPS)}
    assert recomputed_of(view_of(parts | whole), ["max_vio/layers.2"], ONSET) == ()


def sources(shares_after: tuple[float, float], rise: float) -> dict[str, Floats]:
    """Two sources of losses 2 and 4; from the onset on other shares, and the first one's loss rises."""
    rng = np.random.default_rng(1)
    easy = 2.0 + rise * AFTER + 0.02 * rng.normal(size=STEPS)
    hard = 4.0 + 0.02 * rng.normal(size=STEPS)
    share = np.where(AFTER, shares_after[0], 0.8)
    return {
        "lm_loss": share * easy + (1.0 - share) * hard,
        "lm_loss/source.easy": easy, "lm_loss/source.hard": hard,
        "mixture/source.easy": share, "mixture/source.hard": 1.0 - share,
    }  # fmt: skip


def test_a_loss_that_moved_with_the_shares_of_its_sources_is_told_from_one_that_rose_in_them() -> None:
    (shifted,) = recomputed_of(view_of(sources((0.3, 0.7), 0.0)), ["lm_loss"], ONSET)
    assert shifted.pointer is Pointer.SHARES
    assert "of which +1.000 comes with their shares" in shifted.sentence
    (risen,) = recomputed_of(view_of(sources((0.8, 0.2), 1.0)), ["lm_loss"], ONSET)
    assert risen.pointer is Pointer.SOURCES
    assert recomputed_of(view_of(sources((0.8, 0.2), 0.0)), ["lm_loss"], ONSET) == ()


def test_the_log_goes_into_plan_and_report(world: World, new_runner: Callable[..., Runner]) -> None:
    heads = world.lay_out([REPORT], [README, ATTENTION, SCALE])
    world.train("first", heads)
    case_id = open_case(world.store, "first", detect(world.store, "first"), 1.0)
    assert case_id is not None
    (found,) = load_case(world.store, case_id).recomputed
    assert found.pointer is Pointer.ITS_PARTS
    new_runner().start("debug", case_id)
    report = world.store.knowledge.report(case_id)
    assert "## Recomputed from the log" in report
    assert found.sentence in report


def test_what_the_log_points_at_is_looked_at_earlier(world: World) -> None:
    heads = world.lay_out([REPORT], [README, ATTENTION, SCALE])
    world.train("first", heads)
    case_id = open_case(world.store, "first", detect(world.store, "first"), 1.0)
    assert case_id is not None
    some = load_case(world.store, case_id).ranked[-1]
    made = Recomputed(pointer=Pointer.HOW_IT_IS_MADE, sentence="", evidence=())
    signs = replace(some.signs, substance="logging")
    printed = replace(some, factor=replace(some.factor, substance=Substance.LOGGING), signs=signs)
    assert pointed(printed, [made]).score == pytest.approx(10.0 * printed.score)
    assert pointed(some, [made]).score == some.score
    shares = Recomputed(pointer=Pointer.SHARES, sentence="", evidence=())
    data = replace(some, factor=replace(some.factor, cause_kind=CauseKind.DATA))
    assert pointed(data, [shares]).score == pytest.approx(some.score + 0.3 * (1.0 - some.score))
