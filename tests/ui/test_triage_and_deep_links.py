"""Triage, loops, data, the ask box and the page that opens any object, in a browser over a real API and store."""

from __future__ import annotations

from typing import Any

import pytest
from case_file import MARKUP, StoredCase, store_case
from running import RunningLathe

from context_store.records import Level, Pipeline, Stage, StageTrace, StageVersion, Subset
from contracts.enums import RunState, TriageKind

Page = Any


@pytest.fixture(scope="module", autouse=True)
def case(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> StoredCase:
    store = lathe.store
    made = store_case(store, tmp_path_factory.mktemp("runs"), "look")
    detail = {"step": "1.propose", "text": f"replay it {MARKUP}"}
    store.ledger.append("loop:debug", "propose", "investigation:look", detail, (), 5.0)
    stages = (
        Stage(key="crawl", level=Level.L0, title="Acquire the web"),
        Stage(key="rules", level=Level.L2, title=f"Rules {MARKUP}"),
    )
    store.data.put_pipeline(Pipeline(id="web", title="Web text", stages=stages, owner="ada"))
    for stage, code in (("crawl", "c1"), ("rules", "c2")):
        store.data.put_stage_version(StageVersion(pipeline_id="web", stage=stage, code_version=code))
    trace = (
        StageTrace(stage="crawl", code_version="c1", num_in=None, num_out=1000),
        StageTrace(stage="rules", code_version="c2", num_in=1000, num_out=250),
    )
    subset = Subset(id="web-en", pipeline_id="web", source="crawl 2025", owner="ada", trace=trace, num_documents=250)
    store.data.put_subsets([subset])
    return made


def test_a_person_calls_a_finding_a_false_alarm_and_its_proposal_still_waits(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/?investigation=look&token={lathe.reviewer}")
    page.get_by_text("Needs you: 1").wait_for()
    page.get_by_role("button", name="Acknowledge, snooze, mute").click()
    page.get_by_text("False alarm: nothing was wrong").click()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").get_by_text("a false alarm needs its reason").wait_for()
    page.get_by_label("Why (needed for a false alarm)").fill("a <i>planned</i> restart")
    page.get_by_label("Why (needed for a false alarm)").press("Enter")
    page.get_by_role("button", name="Save").click()
    page.locator(".lt-triage", has_text="false alarm").wait_for()
    page.get_by_text("Needs you: 1").wait_for()  # a reviewer is not silenced by what a researcher says
    mark = lathe.store.triage.last()["investigation:look"]
    assert (mark.kind, mark.actor, mark.comment) == (TriageKind.FALSE_ALARM, "ada", "a <i>planned</i> restart")
    page.goto(f"{lathe.url}/system")
    page.get_by_role("tab", name="Detectors").click()
    page.locator(".lt-table", has_text="layer departure").get_by_text("100 %").wait_for()
    page.goto(f"{lathe.url}/?investigation=look&token={lathe.viewer}")
    page.locator(".lt-triage", has_text="false alarm").wait_for()
    assert page.get_by_role("button", name="Change what was said").count() == 0


def test_any_object_is_found_by_its_reference(page: Page, lathe: RunningLathe, case: StoredCase) -> None:
    (verdict,) = lathe.store.knowledge.verdicts("look")
    page.goto(f"{lathe.url}/open?ref=verdict:{verdict.id}&token={lathe.viewer}")
    page.get_by_role("heading", name=f"verdict {verdict.id}").wait_for()
    page.locator(".lt-table").get_by_role("link", name="rr-look").first.wait_for()
    assert page.locator("#injected").count() == 0
    for reference, address in (
        ("run:run-look", "**/run?run=run-look**"),
        (f"proposal:{case.proposal.id}", f"**/approvals?proposal={case.proposal.id}"),
        ("investigation:look", "**/?investigation=look"),
    ):
        page.goto(f"{lathe.url}/open?ref={reference}")
        page.wait_for_url(address)
    page.goto(f"{lathe.url}/open?ref=verdict:999999")
    page.get_by_role("alert").get_by_text("no verdict '999999'").wait_for()


def test_loops_and_data_show_their_records_as_text(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/loops?token={lathe.viewer}")
    page.locator(".lt-rounds", has_text="replay it <b").wait_for()
    page.get_by_role("tab", name="Scores and gates").click()
    page.locator(".lt-table", has_text="proven (this_run), 4 re-runs").get_by_text("0.9 to 1.05").wait_for()
    page.goto(f"{lathe.url}/data?token={lathe.viewer}")
    page.locator(".lt-pipeline", has_text="250 of 1,000 (25 %)").wait_for()
    assert "<script>" in page.locator(".lt-pipeline").inner_text()
    page.get_by_role("tab", name="Mixture of a run").click()
    page.get_by_text("The mixture of this run is not on record").wait_for()
    assert page.locator("#injected").count() == 0


def test_a_question_on_today_opens_a_thread_with_its_answer(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/?token={lathe.reviewer}")
    page.get_by_placeholder("Ask: what changed").fill("What is the status?")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_url("**/chat?thread=**")
    page.get_by_text("answered by rules, without a model").wait_for()


def test_a_log_line_of_a_failed_run_is_shown_as_text(page: Page, lathe: RunningLathe) -> None:
    lathe.store.runs.set_state("rr-look", RunState.FAILED, f"CUDA error {MARKUP}")
    page.goto(f"{lathe.url}/run?run=rr-look&view=layers&token={lathe.viewer}")
    page.get_by_text("CUDA error <b").first.wait_for()  # its head, and what was found in it
    page.locator(".js-plotly-plot .heatmaplayer").wait_for()
    assert page.locator("#injected").count() == 0
    page.goto(f"{lathe.url}/runs?token={lathe.viewer}")
    page.get_by_text("Re-runs of investigations").click()
    page.locator(".lt-table", has_text="CUDA error <b").wait_for()
