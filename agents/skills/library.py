"""The skills there are. Atomic ones read one thing; composite ones explain an onset and read a whole case; workflows
start an investigation and walk the steps of the debug loop (debugging). The rules of chat and the roles of the loops
work through them, as models and MCP clients do.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import unquote

from pydantic import Field

from agents.skills.conditions import (
    ANOMALY_STORED,
    CASE_OF_RUN,
    CASE_STORED,
    FOUND,
    ONSET_IN_RUN,
    RUN_STORED,
    OfRun,
    OneCase,
)
from agents.skills.debugging import DEBUGGING
from agents.skills.skill import ConditionFailed, Fact, Facts, Level, Skill, Use
from agents.tools import Arguments, Toolbox
from contracts.errors import RepositoryError


class BeforeStep(Arguments):
    run_id: str
    step: int = Field(ge=0)


class InWords(Arguments):
    text: str = Field(min_length=1)


class OfCase(Arguments):
    """`title`: in whose words earlier failures are looked for."""

    investigation_id: str
    project_id: str
    title: str = Field(min_length=1)


class OfCommit(Arguments):
    project_id: str
    commit: str


class OfProject(Arguments):
    project_id: str


class Onset(Facts):
    """`step`: where the first anomaly began."""

    step: int


class Explanation(Facts):
    """What was seen, what had changed before, and what was tried against the like; at most so many of each."""

    step: int
    num_changes: int


class Opened(Explanation):
    investigation_id: str


_MAX_EACH = 5
_MAX_COMMITS, _MAX_HUNKS = 4, 6  # of the first suspects of a case
_SUSPECTED = re.compile(r"^suspect:[^/]+/commit:([0-9a-f]{7,40})$")
_ONSET = re.compile(r", steps? (\d+)")


def _onset(use: Use, inputs: OfRun) -> Onset:
    facts = use.tool("anomalies", run_id=inputs.run_id)
    step = _ONSET.search(facts[0].text)
    assert step is not None, "an anomaly says where it began"
    return Onset(facts=facts, step=int(step[1]))


def _changes(use: Use, inputs: BeforeStep) -> Facts:
    return Facts(facts=use.tool("timeline", run_id=inputs.run_id, hi=inputs.step))


def _failures(use: Use, inputs: InWords) -> Facts:
    return Facts(facts=use.tool("negative_results", text=inputs.text))


def _explain(use: Use, inputs: OfRun) -> Explanation:
    onset = use.skill("find_onset", run_id=inputs.run_id)
    changes = use.skill("changes_before", run_id=inputs.run_id, step=onset.step).facts[:_MAX_EACH]
    failures = use.skill("past_failures", text=onset.facts[0].text).facts[:_MAX_EACH]
    facts: tuple[Fact, ...] = (onset.facts[0], *changes, *failures)
    return Explanation(facts=facts, step=onset.step, num_changes=len(changes))


def _case_facts(use: Use, inputs: OneCase) -> Facts:
    return Facts(facts=use.tool("case_file", investigation_id=inputs.investigation_id))


def _reruns(use: Use, inputs: OneCase) -> Facts:
    return Facts(facts=use.tool("diagnostics", investigation_id=inputs.investigation_id))


def _changed_lines(use: Use, inputs: OfCommit) -> Facts:
    return Facts(facts=use.tool("hunks", project_id=inputs.project_id, commit=inputs.commit))


def _kept_in_mind(use: Use, inputs: OfProject) -> Facts:
    return Facts(facts=use.tool("remembered", project_id=inputs.project_id))


def _read_case(use: Use, inputs: OfCase) -> Facts:
    """Of a commit whose history is not stored any more there are no lines."""
    known = use.skill("case_facts", investigation_id=inputs.investigation_id).facts
    facts: list[Fact] = [*known, *use.skill("reruns", investigation_id=inputs.investigation_id).facts]
    named = [_SUSPECTED.match(unquote(ref)) for fact in known for ref in fact.evidence[:1]]
    for commit in [each[1] for each in named if each][:_MAX_COMMITS]:
        with suppress(RepositoryError):
            lines = use.skill("changed_lines", project_id=inputs.project_id, commit=commit).facts
            facts += lines[:_MAX_HUNKS]
    facts += use.skill("past_failures", text=inputs.title).facts
    return Facts(facts=(*facts, *use.skill("kept_in_mind", project_id=inputs.project_id).facts))


def _look_into(use: Use, inputs: OfRun) -> Opened:
    opened = use.tool("start_investigation", run_id=inputs.run_id)
    if not opened:
        raise ConditionFailed(f"run {inputs.run_id} shows nothing wrong, so no case was opened", remedy="name another")
    case_id = opened[0].evidence[0].partition(":")[2]
    found = use.skill("explain_onset", run_id=inputs.run_id)
    return Opened(
        facts=(*opened, *found.facts), step=found.step, num_changes=found.num_changes, investigation_id=case_id
    )


LIBRARY = (
    Skill(
        name="find_onset", version=1, level=Level.ATOMIC, about="Where a run's first anomaly began.",
        inputs=OfRun, outputs=Onset, run=_onset, tools=("anomalies",), before=(RUN_STORED, ANOMALY_STORED),
        after=(FOUND, ONSET_IN_RUN),
    ),
    Skill(
        name="changes_before", version=1, level=Level.ATOMIC, about="What had changed in a run up to a step.",
        inputs=BeforeStep, outputs=Facts, run=_changes, tools=("timeline",), before=(RUN_STORED,),
    ),
    Skill(
        name="past_failures", version=1, level=Level.ATOMIC, about="What was tried before and did not hold.",
        inputs=InWords, outputs=Facts, run=_failures, tools=("negative_results",),
    ),
    Skill(
        name="case_facts", version=1, level=Level.ATOMIC, about="What is known of a case.",
        inputs=OneCase, outputs=Facts, run=_case_facts, tools=("case_file",), before=(CASE_STORED,), after=(FOUND,),
    ),
    Skill(
        name="reruns", version=1, level=Level.ATOMIC, about="Re-runs of a case and what they measured.",
        inputs=OneCase, outputs=Facts, run=_reruns, tools=("diagnostics",), before=(CASE_STORED,),
    ),
    Skill(
        name="changed_lines", version=1, level=Level.ATOMIC, about="What a commit changed.",
        inputs=OfCommit, outputs=Facts, run=_changed_lines, tools=("hunks",),
    ),
    Skill(
        name="kept_in_mind", version=1, level=Level.ATOMIC, about="What is remembered for a project.",
        inputs=OfProject, outputs=Facts, run=_kept_in_mind, tools=("remembered",),
    ),
    Skill(
        name="read_case", version=1, level=Level.COMPOSITE,
        about="A whole case: its file, re-runs, what its suspects changed, what was tried against the like, memory.",
        inputs=OfCase, outputs=Facts, run=_read_case,
        parts=("case_facts", "reruns", "changed_lines", "past_failures", "kept_in_mind"),
        before=(CASE_STORED,), after=(FOUND,),
    ),
    Skill(
        name="explain_onset", version=1, level=Level.COMPOSITE,
        about="Where a run went wrong, what had changed before, and what was tried against the like.",
        inputs=OfRun, outputs=Explanation, run=_explain, parts=("find_onset", "changes_before", "past_failures"),
        before=(RUN_STORED, ANOMALY_STORED), after=(FOUND, ONSET_IN_RUN),
    ),
    Skill(
        name="look_into_run", version=1, level=Level.WORKFLOW,
        about="Ask for an investigation of a run and say at once what is known of its onset.",
        inputs=OfRun, outputs=Opened, run=_look_into, parts=("explain_onset",), tools=("start_investigation",),
        before=(RUN_STORED,), after=(FOUND, CASE_OF_RUN),
    ),
    *DEBUGGING,
)  # fmt: skip


def skills_for(toolbox: Toolbox) -> tuple[Skill, ...]:
    """Those whose tools and parts are there."""
    names = {spec.name for spec in toolbox.specs}
    found: dict[str, Skill] = {}
    for each in LIBRARY:  # parts stand before what they are part of
        if set(each.tools) <= names and set(each.parts) <= found.keys():
            found[each.name] = each
    return tuple(found.values())
