"""Roles of a team: each has its tools, all share what was found and learned (R801-3.9)."""

from __future__ import annotations

import pytest

from agents.skills import with_skills
from agents.tools import READING, Desk, Toolbox, refuse_foreign, tools_of
from agents.tools.team import OWN, SHARED
from benchmarks.agent_parts.stored_case import CASE, NOW, RUN, Stored
from context_store import Store
from contracts.enums import CauseKind
from contracts.errors import NotPermitted, UserInputError
from contracts.team import SUPPLIER, Side, TeamRole

DESK = Desk(open_case=lambda run_id: CASE, actor="bot", clock=lambda: NOW)
EVERY = (*READING, *DESK.tools())


def test_every_tool_is_somebodys_and_every_cause_has_a_supplier() -> None:
    named = SHARED.union(*OWN.values())
    assert named == {each.name for each in EVERY}
    assert set(SUPPLIER) == set(CauseKind)
    sides = {side: [role for role in TeamRole if side in role.sides] for side in Side}
    assert all(len(roles) == 3 for roles in sides.values())
    assert set(sides[Side.INFRASTRUCTURE]) & set(sides[Side.DATA]) == {TeamRole.MODEL_TRAINER}


@pytest.mark.parametrize(
    ("role", "has", "lacks", "owner"),
    [
        (TeamRole.INFRASTRUCTURE_CODER, "hunks", "samples", "pipeline developer or the output inspector"),
        (TeamRole.MODEL_TRAINER, "propose_run_control", "hunks", "infrastructure coder or the pipeline developer"),
        (TeamRole.METRIC_INSPECTOR, "statistic_across", "propose_run_control", "model trainer"),
        (TeamRole.PIPELINE_DEVELOPER, "document", "statistic_across", "metric inspector"),
        (TeamRole.OUTPUT_INSPECTOR, "scores", "configuration", "infrastructure coder or the model trainer"),
    ],
)
def test_a_role_has_its_tools_and_no_others(
    still_store: Store, stored: Stored, role: TeamRole, has: str, lacks: str, owner: str
) -> None:
    """Shows R801-3.9: both sides read the cases; deeds and raw material are the role's own."""
    toolbox = Toolbox(still_store, tools_of(role, EVERY))
    assert toolbox.call("case_file", {"investigation_id": CASE}).rows
    names = {each.name for each in toolbox.specs}
    assert has in names
    assert lacks not in names
    with pytest.raises(UserInputError, match=f"no tool '{lacks}'"):
        toolbox.call(lacks, {"run_id": RUN})
    refuse_foreign(role, has)
    with pytest.raises(NotPermitted, match=f"the {role.words} has no tool {lacks}") as refused:
        refuse_foreign(role, lacks)
    assert owner in refused.value.remedy


def test_skills_shrink_with_the_tools(still_store: Store, stored: Stored) -> None:
    """A skill would be a way round: one that uses a tool of another role is not there."""

    def names(role: TeamRole) -> set[str]:
        tools = with_skills(still_store, tools_of(role, EVERY), actor="bot", clock=lambda: NOW)
        return {each.name for each in tools}

    assert "explain_onset" in names(TeamRole.METRIC_INSPECTOR)
    assert {"read_case", "look_into_run"} & names(TeamRole.METRIC_INSPECTOR) == {"look_into_run"}
    assert {"read_case", "look_into_run"} & names(TeamRole.INFRASTRUCTURE_CODER) == {"read_case"}
