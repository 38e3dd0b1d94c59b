"""What other runs of the project say of a change orders the suspects, and excludes none (R801-3.4)."""

from __future__ import annotations

import pytest
from world import NOW, REPORT, SCALE, WARMUP, World

from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.ranking import Ranked


def ranked(world: World, case_id: str) -> dict[str, Ranked]:
    """By the subject of the commit."""
    found = load_case(world.store, case_id).ranked
    return {each.factor.commit.subject: each for each in found if each.factor.commit}


def test_a_change_that_did_no_harm_elsewhere_is_less_suspicious(world: World) -> None:
    """One other run had the decoy alone and is well; one more had both and shows the same."""
    heads = world.lay_out([REPORT], [WARMUP], [SCALE])
    world.train("run", [heads[0], heads[1], heads[3]])
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    before = ranked(world, case_id)
    world.train("well", heads[:3], seed=2)
    world.train("ill", [heads[0], heads[1], heads[3]], seed=3)
    after = ranked(world, case_id)
    decoy, culprit = after[WARMUP.subject], after[SCALE.subject]
    assert decoy.score == pytest.approx(0.5 * before[WARMUP.subject].score)
    assert "in force in well too, without this; in force in ill too, which shows it as well" in decoy.reason
    assert {"run:well", "run:ill"} <= {str(ref) for ref in decoy.evidence}
    assert culprit.score > before[SCALE.subject].score
    assert "in force in ill too, which shows it as well" in culprit.reason
    assert "without this" not in culprit.reason


def test_a_run_that_did_not_come_so_far_says_nothing(world: World) -> None:
    heads = world.lay_out([REPORT], [WARMUP], [SCALE])
    world.train("run", [heads[0], heads[1], heads[3]])
    world.train("short", heads[:3], seed=2, last=115)
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    assert all("in force in" not in each.reason for each in ranked(world, case_id).values())
