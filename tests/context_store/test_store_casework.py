"""Cases of any loop, about a run or about none, and what they asked and measured."""

from __future__ import annotations

import dataclasses

import pytest
from training_log import make_run

from context_store import Store
from contracts.enums import InvestigationState
from contracts.errors import NotFound


def test_a_case_may_be_about_no_run(store: Store) -> None:
    make_run(store)
    case = store.knowledge.open_case("c-1", project_id="p", loop="classifier", title="spam", at=3.0)
    assert (case.run_id, case.project_id, case.loop, case.anomaly_ids) == ("", "p", "classifier", ())
    assert (case.state, case.opened_at) == (InvestigationState.OPEN, 3.0)
    again = store.knowledge.open_case("c-1", project_id="p", loop="other", title="else", at=9.0)
    assert again == case
    found = store.search.find("spam")
    assert [str(hit.reference) for hit in found] == ["investigation:c-1"]
    assert store.why.of("investigation", "c-1").nodes[0].owner == case.owner != ""


def test_a_case_of_the_debug_loop_is_its_runs(store: Store) -> None:
    make_run(store)
    run = store.runs.get("run-1")
    case = store.knowledge.open_investigation("c-1", "run-1", [], "the loss rises", at=1.0)
    assert (case.loop, case.project_id, case.owner) == ("debug", run.project_id, run.owner)
    with pytest.raises(NotFound, match="unknown"):
        store.knowledge.open_case("c-2", project_id="unknown", loop="potential", title="t", at=1.0)


def test_what_a_loop_wrote_first_stays(store: Store) -> None:
    make_run(store)
    for name in ("c-1", "c-2"):
        store.knowledge.open_case(name, project_id="p", loop="classifier", title="spam", at=1.0)
    assert store.casework.put("c-1", "label", "b", {"class": "spam", "by": "ada"}, 1.0)
    assert store.casework.put("c-1", "label", "a", {"class": "ham"}, 2.0)
    assert not store.casework.put("c-1", "label", "b", {"class": "ham"}, 3.0)
    assert store.casework.put("c-2", "label", "b", {"class": "ham"}, 4.0)
    first = store.casework.get("c-1", "label", "b")
    assert dataclasses.astuple(first) == ("c-1", "label", "b", {"class": "spam", "by": "ada"}, 1.0)
    assert [each.key for each in store.casework.list("c-1", "label")] == ["b", "a"]
    assert [each.case_id for each in store.casework.of_loop("classifier", "label")] == ["c-1", "c-1", "c-2"]
    assert store.casework.of_loop("debug", "label") == []
    with pytest.raises(NotFound):
        store.casework.put("c-3", "label", "a", {}, 1.0)
    with pytest.raises(NotFound):
        store.casework.get("c-1", "label", "z")
