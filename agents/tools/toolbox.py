"""All tools, and the one way to call them: checked arguments in, bounded rows out, evidence remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from agents.llm import ToolSpec
from agents.tools import changes, configuration, evals, knowledge, memory, series
from agents.tools.protocol import Tool, ToolResult
from context_store import Store
from contracts.errors import LatheError, UserInputError

READING = (
    Tool(name="runs", description="Trainings and their state.", arguments=knowledge.Runs, run=knowledge.runs),
    Tool(
        name="list_series",
        description="Names of what was measured.",
        arguments=series.ListSeries,
        run=series.list_series,
    ),
    Tool(
        name="series_window",
        description="Values of one series between two steps, downsampled without hiding extremes.",
        arguments=series.SeriesWindow,
        run=series.series_window,
    ),
    Tool(
        name="statistic_across",
        description="Which layers, experts or ranks of a statistic depart at a step, most first.",
        arguments=series.StatisticAcross,
        run=series.statistic_across,
    ),
    Tool(
        name="timeline",
        description="What changed or happened in a run: config, code, data, resume; newest first.",
        arguments=changes.Timeline,
        run=changes.timeline,
    ),
    Tool(
        name="config_diff",
        description="Configuration, environment and code of two runs or segments compared.",
        arguments=changes.ConfigDiff,
        run=changes.config_diff,
    ),
    Tool(
        name="commits",
        description="Commits that came into force in a run.",
        arguments=changes.Commits,
        run=changes.commits,
    ),
    Tool(
        name="configuration",
        description="Fields of a run's configuration and environment, named in words.",
        arguments=configuration.Configuration,
        run=configuration.configuration,
    ),
    Tool(
        name="find_commits",
        description="Commits by author, path or words of their message.",
        arguments=changes.FindCommits,
        run=changes.find_commits,
    ),
    Tool(name="hunks", description="What a commit changed.", arguments=changes.Hunks, run=changes.hunks),
    Tool(
        name="anomalies",
        description="What detectors found in a run.",
        arguments=knowledge.Anomalies,
        run=knowledge.anomalies,
    ),
    Tool(
        name="investigations",
        description="Cases and their verdicts.",
        arguments=knowledge.Investigations,
        run=knowledge.investigations,
    ),
    Tool(
        name="case_file",
        description="One case: verdicts, anomalies, suspects with reasons.",
        arguments=knowledge.CaseFile,
        run=knowledge.case_file,
    ),
    Tool(
        name="diagnostics",
        description="Re-runs of a case: what they measured, what is still under way.",
        arguments=knowledge.Diagnostics,
        run=knowledge.diagnostics,
    ),
    Tool(
        name="negative_results",
        description="What was tried before and did not hold.",
        arguments=knowledge.NegativeResults,
        run=knowledge.negative_results,
    ),
    Tool(
        name="similar_incidents",
        description="Earlier cases with a similar symptom.",
        arguments=knowledge.SimilarIncidents,
        run=knowledge.similar_incidents,
    ),
    Tool(
        name="proposals",
        description="Proposed changes and who decided on them.",
        arguments=knowledge.Proposals,
        run=knowledge.proposals,
    ),
    Tool(
        name="scores",
        description="Scores of evaluations, with what they were measured by.",
        arguments=evals.Scores,
        run=evals.scores,
    ),
    Tool(
        name="samples",
        description="Which samples a run read between two steps, and the mixture in force.",
        arguments=evals.Samples,
        run=evals.samples,
    ),
    Tool(
        name="document",
        description="One stored sample: its text after each stage of its pipeline, or why it was dropped.",
        arguments=evals.Document,
        run=evals.document,
    ),
    Tool(
        name="remembered",
        description="Conventions, facts, decisions and failures remembered across runs, each with its source.",
        arguments=memory.Remembered,
        run=memory.remembered,
    ),
)


class Toolbox:
    """Tools bound to a store."""

    def __init__(self, store: Store, tools: Sequence[Tool] = READING) -> None:
        self._store = store
        self._tools = {each.name: each for each in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(each.spec for each in self._tools.values())

    def acts(self, name: str) -> bool:
        return name in self._tools and self._tools[name].acts

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Raises UserInputError for an unknown tool or wrong arguments, and what the tool raises (LatheError)."""
        tool = self._tools.get(name)
        if tool is None:
            raise UserInputError(f"there is no tool '{name}'", remedy=f"use one of: {', '.join(self._tools)}")
        try:
            checked = tool.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            raise UserInputError(f"{name}: {where}: {first['msg']}", remedy="correct the argument") from error
        return tool.run(self._store, checked)

    def try_call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `call`; what it refuses becomes a result without rows, for a model to read."""
        try:
            return self.call(name, arguments)
        except LatheError as error:
            return ToolResult(rows=(), nothing=f"{error.message} ({error.remedy})")
