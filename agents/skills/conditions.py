"""Inputs and conditions that several skills share."""

from __future__ import annotations

from typing import Any

from agents.skills.skill import Condition
from agents.tools import Arguments
from context_store import Store
from contracts.errors import NotFound


class OfRun(Arguments):
    run_id: str


class OneCase(Arguments):
    investigation_id: str


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


RUN_STORED = Condition(text="the run is stored", holds=_run_is_there)
ONSET_IN_RUN = Condition(text="the onset lies in the run", holds=_is_recorded)
FOUND = Condition(text="something was found", holds=lambda store, inputs, outputs: bool(outputs.facts))
CASE_OF_RUN = Condition(text="a case of the run is open", holds=_case_is_there)


def _anomaly(store: Store, inputs: Any, _: Any) -> bool:
    return _run_is_there(store, inputs, None) and bool(store.knowledge.anomalies(inputs.run_id))


def _case_is_stored(store: Store, inputs: Any, _: Any) -> bool:
    try:
        store.knowledge.investigation(inputs.investigation_id)
    except NotFound:
        return False
    return True


CASE_STORED = Condition(text="the case is stored", holds=_case_is_stored)
ANOMALY_STORED = Condition(text="an anomaly of the run is stored", holds=_anomaly)
