"""What one team sees of a fault that needs two causes, and what both see together. Shows R801-2.9.

A setting of the optimizer (training team) does harm only with a change of the parameter groups (infrastructure team).
A team alone has the metrics and its own history; what the other did is in force, but it is in no record it can read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from world import ATTENTION, FAST_BIAS, NOW, README, REPORT, TO_BIAS, Edit, World

from contracts.enums import CauseKind, Verdict
from loops.debug import detect, open_case
from loops.runner import Runner

NewRunner = Callable[..., Runner]
TRAINING = ([ATTENTION, FAST_BIAS], {"router_group": "bias"})
INFRASTRUCTURE = ([README, TO_BIAS], {"bias_lr": 6e-2})


def blamed(world: World, runner: Runner, edits: Sequence[Edit]) -> tuple[CauseKind | None, set[str]]:
    """Kind of cause, and the subjects of the commits that are proven."""
    world.train("run", world.lay_out([REPORT], edits))
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    runner.start("debug", case_id)
    proven = [s for s in world.store.knowledge.suspects(case_id) if s.status is Verdict.PROVEN]
    subjects = {commit: subject for subject, commit in world.commits.items()}
    kind = world.store.knowledge.investigation(case_id).cause_kind
    return kind, {subjects[commit] for suspect in proven for commit in suspect.commits}


def test_both_causes_are_found_where_the_evidence_of_both_teams_is_joined(world: World, new_runner: NewRunner) -> None:
    kind, causes = blamed(world, new_runner(), [FAST_BIAS, README, ATTENTION, TO_BIAS])
    assert (kind, causes) == (CauseKind.INTERACTION, {FAST_BIAS.subject, TO_BIAS.subject})


@pytest.mark.parametrize(("edits", "of_the_others"), [TRAINING, INFRASTRUCTURE], ids=["training", "infrastructure"])
def test_a_team_alone_misses_one_of_the_two(
    world: World, new_runner: NewRunner, edits: list[Edit], of_the_others: Mapping[str, Any]
) -> None:
    """It finds half of it: its own change, without what that needs to do harm."""
    world.unseen = of_the_others
    kind, causes = blamed(world, new_runner(), edits)
    assert kind is not CauseKind.INTERACTION
    assert causes <= {edits[-1].subject}
    assert len(causes & {FAST_BIAS.subject, TO_BIAS.subject}) < 2


def test_without_the_metrics_of_the_training_nothing_is_noticed(world: World) -> None:
    """The infrastructure team reads history; that a layer departs stands in no commit."""
    world.lay_out([REPORT], [FAST_BIAS, TO_BIAS])
    world.train("run", [], seed=1)
    assert detect(world.store, "run") == []
