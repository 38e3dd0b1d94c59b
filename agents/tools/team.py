"""Which tools each role of a team has (R801-3.9): what was found and learned is everybody's, raw material and deeds are
not. A tool that is named for no role is nobody's but of an agent without a role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.tools.protocol import Tool
from contracts.errors import NotPermitted
from contracts.team import TeamRole

SHARED = frozenset(
    {
        "runs", "anomalies", "investigations", "case_file", "diagnostics", "negative_results", "similar_incidents",
        "proposals", "timeline", "remembered", "remember",
    }
)  # fmt: skip
OWN: Mapping[TeamRole, frozenset[str]] = {
    TeamRole.INFRASTRUCTURE_CODER: frozenset({"commits", "find_commits", "hunks", "config_diff", "configuration"}),
    TeamRole.MODEL_TRAINER: frozenset(
        {"config_diff", "configuration", "list_series", "series_window", "scores", "start_investigation",
         "propose_run_control"}
    ),
    TeamRole.METRIC_INSPECTOR: frozenset({"list_series", "series_window", "statistic_across", "start_investigation"}),
    TeamRole.PIPELINE_DEVELOPER: frozenset({"samples", "document", "commits", "find_commits", "hunks"}),
    TeamRole.OUTPUT_INSPECTOR: frozenset({"scores", "samples", "document", "start_investigation"}),
}  # fmt: skip


def tools_of(role: TeamRole, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of the tools that the role may use."""
    return tuple(each for each in tools if each.name in SHARED | OWN[role])


def refuse_foreign(role: TeamRole, name: str) -> None:
    """Raises NotPermitted for a tool that is another role's."""
    owners = [other.words for other in TeamRole if name in OWN[other]]
    if owners and name not in OWN[role]:
        raise NotPermitted(f"the {role.words} has no tool {name}", remedy=f"ask the {' or the '.join(owners)}")
