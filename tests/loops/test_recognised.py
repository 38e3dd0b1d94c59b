"""What an earlier case has proven opens the next one early; what only looks alike does not. Shows R801-2.11."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from synthetic import CUTS
from world import ATTENTION, NOW, OUTSIDE, README, REPORT, SCALE, SKIP, Edit, World

from benchmarks.recurrence import cut, first_steps
from contracts.enums import Verdict
from loops.debug import detect, open_case
from loops.debug.recognised import recognise
from loops.debug.view import view_run
from loops.runner import Runner


def proven_in_a_first_run(world: World, new_runner: Callable[..., Runner], fault: list[Edit]) -> list[str]:
    """Heads of a project whose last commits were proven to do harm in run `first`: before, base, others, faulty."""
    heads = world.lay_out([REPORT], [README, ATTENTION], fault)
    world.train("first", [heads[0], heads[1], heads[3]])
    case_id = open_case(world.store, "first", detect(world.store, "first"), NOW)
    assert case_id is not None
    new_runner().start("debug", case_id)
    assert world.store.knowledge.verdicts(case_id)[0].verdict is Verdict.PROVEN
    return heads


@pytest.fixture
def heads(world: World, new_runner: Callable[..., Runner]) -> list[str]:
    return proven_in_a_first_run(world, new_runner, [SCALE])


@pytest.mark.parametrize("fault", [[SCALE], [SKIP]], ids=["scale", "skip"])
def test_the_second_time_is_raised_no_later_and_names_the_first(
    world: World, new_runner: Callable[..., Runner], fault: list[Edit]
) -> None:
    """Two faults of different kinds: one moves a scale, one lets two layers depart. Not all are recognised: a jump of
    the loss and a fault of two commits were left to the detectors when this was written.
    """
    heads = proven_in_a_first_run(world, new_runner, fault)
    world.train("second", [heads[0], heads[1], heads[3]], seed=2)
    view = view_run(world.store, "second")
    steps = first_steps(world.store, view, CUTS[1])
    assert steps["memory"] is not None
    assert steps["detectors"] is not None
    assert steps["memory"] <= steps["detectors"]
    (found,) = recognise(world.store, cut(view, steps["memory"]))
    assert found.statement.startswith("second time, see case case-")
    assert all(edit.subject in found.statement for edit in fault)
    assert found.evidence[0].kind == "investigation"


def test_an_early_case_is_decided_by_its_own_re_runs(
    world: World, heads: list[str], new_runner: Callable[..., Runner]
) -> None:
    """Memory opens the case; what caused it here is proven here."""
    world.train("second", [heads[0], heads[1], heads[3]], seed=2, last=CUTS[1] + 12)
    case_id = open_case(world.store, "second", detect(world.store, "second"), NOW)
    assert case_id is not None
    new_runner().start("debug", case_id)
    verdict = world.store.knowledge.verdicts(case_id)[0]
    assert verdict.verdict is Verdict.PROVEN, verdict.statement
    assert verdict.suspect_keys == (f"commit:{world.commits[SCALE.subject]}",)


def said_early(world: World, run_id: str, heads: list[str], seed: int) -> str:
    """What memory says of a run twelve steps after its second resume."""
    world.train(run_id, heads, seed=seed)
    (found,) = recognise(world.store, cut(view_run(world.store, run_id), CUTS[1] + 12))
    return found.statement


def test_the_third_time_says_so_with_its_lead_though_the_change_came_again_as_another_commit(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """A change that was taken back and made again is the same change under another name."""
    back = Edit(subject="balance: as it was", path="balance.py", before=SCALE.after, after=SCALE.before)
    again = replace(SCALE, subject="balance: count in shares once more")
    heads = world.lay_out([REPORT], [README, ATTENTION], [SCALE], [back], [again])
    cases = []
    for seed, run_id in enumerate(("first", "second"), start=1):
        world.train(run_id, [heads[0], heads[1], heads[3]], seed=seed)
        cases.append(str(open_case(world.store, run_id, detect(world.store, run_id), NOW)))
        new_runner().start("debug", cases[-1])
        assert world.store.knowledge.verdicts(cases[-1])[0].verdict is Verdict.PROVEN
    said = said_early(world, "third", [heads[1], heads[4], heads[5]], 3)
    assert said.startswith("third time, see case case-")
    assert all(case_id in said for case_id in cases)
    assert "said 12 steps after the resume, 48 steps sooner than then" in said
    assert "This is the second time in such circumstances" in world.store.knowledge.report(cases[1])


def test_a_field_that_is_given_again_is_recognised(world: World, new_runner: Callable[..., Runner]) -> None:
    """No commit made it; with another value, or in force before already, it is not the same."""
    heads = world.lay_out([REPORT], [README, ATTENTION])
    world.given = {"data.mixture": -14.6}
    world.train("first", heads)
    case_id = open_case(world.store, "first", detect(world.store, "first"), NOW)
    assert case_id is not None
    new_runner().start("debug", case_id)
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == ("launch:data.mixture",)
    world.train("second", heads, seed=2)
    view = view_run(world.store, "second")
    (found,) = recognise(world.store, view)
    assert found.statement.startswith(f"second time, see case {case_id}")
    world.given = {"data.mixture": -12.0}
    world.train("other", heads, seed=3)
    assert recognise(world.store, view_run(world.store, "other")) == []


def test_a_look_alike_without_the_cause_and_a_healthy_run_are_left_to_the_detectors(
    world: World, heads: list[str]
) -> None:
    world.train("healthy", heads[:3], seed=3)
    world.unseen = OUTSIDE
    world.train("alike", heads[:3], seed=4)
    for run_id in ("healthy", "alike"):
        view = view_run(world.store, run_id)
        assert all(recognise(world.store, cut(view, last)) == [] for last in range(CUTS[1], CUTS[2] + 1, 5))
    assert detect(world.store, "healthy") == []
    assert detect(world.store, "alike")[0].kind == "over_balance"
