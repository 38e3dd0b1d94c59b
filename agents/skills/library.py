"""The skills there are. Atomic ones read one thing; the composite one explains an onset; the workflow starts a case."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from agents.skills.skill import Condition, Fact, Facts, Level, Skill, Use
from agents.tools import Arguments
from context_store import Store
from contracts.errors import NotFound


class OfRun(Arguments):
    run_id: str


class BeforeStep(Arguments):
    run_id: str
    step: int = Field(ge=0)


class InWords(Arguments):
    text: str = Field(min_length=1)


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
_ONSET = re.compile(r", steps? (\d+)")


def _run_is_there(store: Store, inputs: Any, _: Any) -> bool:
    try:
        store.runs.get(inputs.run_id)
    except NotFound:
        return False
    return True


def _is_recorded(store: Store, inputs: Any, outputs: Any) -> bool:
    return 0 <= int(outputs.step) <= store.runs.get(inputs.run_id).last_step


def _case_is_there(store: Store, inputs: Any, outputs: Any) -> bool:
    return bool(store.knowledge.investigation(outputs.investigation_id).run_id == inputs.run_id)


_RUN = Condition(text="the run is stored", holds=_run_is_there)
_SEEN = Condition(text="the onset lies in the run", holds=_is_recorded)
_FOUND = Condition(text="something was found", holds=lambda store, inputs, outputs: bool(outputs.facts))
_CASE = Condition(text="a case of the run is open", holds=_case_is_there)


def _anomaly(store: Store, inputs: Any, _: Any) -> bool:
    return _run_is_there(store, inputs, None) and bool(store.knowledge.anomalies(inputs.run_id))


_WRONG = Condition(text="an anomaly of the run is stored", holds=_anomaly)


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


def _look_into(use: Use, inputs: OfRun) -> Opened:
    opened = use.tool("start_investigation", run_id=inputs.run_id)
    case_id = opened[0].evidence[0].partition(":")[2]
    found = use.skill("explain_onset", run_id=inputs.run_id)
    return Opened(
        facts=(*opened, *found.facts), step=found.step, num_changes=found.num_changes, investigation_id=case_id
    )


LIBRARY = (
    Skill(
        name="find_onset", version=1, level=Level.ATOMIC, about="Where a run's first anomaly began.",
        inputs=OfRun, outputs=Onset, run=_onset, tools=("anomalies",), before=(_RUN, _WRONG), after=(_FOUND, _SEEN),
    ),
    Skill(
        name="changes_before", version=1, level=Level.ATOMIC, about="What had changed in a run up to a step.",
        inputs=BeforeStep, outputs=Facts, run=_changes, tools=("timeline",), before=(_RUN,),
    ),
    Skill(
        name="past_failures", version=1, level=Level.ATOMIC, about="What was tried before and did not hold.",
        inputs=InWords, outputs=Facts, run=_failures, tools=("negative_results",),
    ),
    Skill(
        name="explain_onset", version=1, level=Level.COMPOSITE,
        about="Where a run went wrong, what had changed before, and what was tried against the like.",
        inputs=OfRun, outputs=Explanation, run=_explain, parts=("find_onset", "changes_before", "past_failures"),
        before=(_RUN, _WRONG), after=(_FOUND, _SEEN),
    ),
    Skill(
        name="look_into_run", version=1, level=Level.WORKFLOW,
        about="Ask for an investigation of a run and say at once what is known of its onset.",
        inputs=OfRun, outputs=Opened, run=_look_into, parts=("explain_onset",), tools=("start_investigation",),
        before=(_RUN, _WRONG), after=(_FOUND, _CASE),
    ),
)  # fmt: skip
