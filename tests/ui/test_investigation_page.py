"""A person in a browser, a real API and store: read a case, decide on it, and be kept from what a token may not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from case_file import DIFF, MARKUP, StoredCase, store_case
from running import RunningLathe, watched_page

from contracts.enums import ProposalState

Page = Any


@pytest.fixture(scope="module")
def cases(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredCase]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: store_case(lathe.store, folder, name) for name in ("approve", "reject", "look")}


def open_case(page: Page, lathe: RunningLathe, case: StoredCase, token: str) -> None:
    page.goto(f"{lathe.url}/?investigation={case.id}&token={token}")
    page.get_by_text("What Lathe found in").wait_for()


def test_a_reviewer_reads_the_case_and_approves_exactly_what_was_shown(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    """Shows R801-2.13: who, when, on which evidence, with which comment; and R801-2.5: exclusions with reasons."""
    case = cases["approve"]
    open_case(page, lathe, case, lathe.reviewer)
    page.get_by_role("heading", name="Layers 1 and 3 depart at steps 20-24").wait_for()
    assert page.locator(".lt-needs b").inner_text() == "Needs you: 3"
    assert page.locator(".lt-finding .lt-verdict").inner_text().split() == ["✔", "proven", "this", "run"]
    assert page.locator(".lt-suspects s").all_inner_texts() == ["library share 0.5 to 0.6"]
    assert "departs all the same" in page.locator(".lt-row-refuted").inner_text()
    page.locator(".lt-panel", has_text="without c41d07e").wait_for()
    assert "a replay without it that departs all the same" in page.locator(".lt-verdict-card").inner_text()
    assert "every layer is balanced" in page.locator(".lt-diff td.lt-new").last.inner_text()
    assert "the library share passes 0.8" in page.locator(".lt-cards").inner_text()
    page.get_by_label("Comment").fill("agreed & <b>done</b>")
    page.get_by_role("button", name="Approve").click()
    page.locator(".lt-decided.lt-approved", has_text="agreed & <b>done</b>").wait_for()
    stored = lathe.store.proposals.get(case.proposal.id)
    assert (stored.state, stored.decided_by, stored.comment) == (ProposalState.APPROVED, "ada", "agreed & <b>done</b>")
    approvals = lathe.store.proposals.approvals(case.proposal.id)
    assert [(a.actor, a.bound_hash, a.used_by) for a in approvals] == [("ada", case.proposal.bound_hash, "")]


def test_a_reviewer_rejects_after_one_click_from_the_headline(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    case = cases["reject"]
    page.goto(f"{lathe.url}/?token={lathe.reviewer}")
    page.locator(".lt-needs a", has_text="Resume reject").click()
    page.get_by_label("Comment").fill("not on a Friday")
    page.get_by_role("button", name="Reject").click()
    page.locator(".lt-decided.lt-rejected", has_text="not on a Friday").wait_for()
    stored = lathe.store.proposals.get(case.proposal.id)
    assert (stored.state, stored.decided_by, stored.comment) == (ProposalState.REJECTED, "ada", "not on a Friday")
    assert lathe.store.proposals.approvals(case.proposal.id) == []


@pytest.fixture(scope="module")
def reading(browser: object, lathe: RunningLathe, cases: dict[str, StoredCase]) -> Iterator[Page]:
    """A viewer's page with the case that nobody decides, shared by the tests that only look."""
    with watched_page(browser) as page:
        open_case(page, lathe, cases["look"], lathe.viewer)
        page.get_by_text("You can read this, but not decide it").wait_for()
        yield page


def test_a_viewer_is_told_why_there_are_no_buttons(
    reading: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    reading.get_by_text("Your token belongs to vera, whose role is viewer").wait_for()
    assert reading.get_by_role("button", name="Approve").count() == 0
    assert reading.get_by_role("button", name="Reject").count() == 0
    assert lathe.store.proposals.get(cases["look"].proposal.id).state is ProposalState.OPEN


def test_markup_in_names_reasons_and_diffs_is_shown_as_text(reading: Page) -> None:
    """The page fixture also fails on any dialog and any request to a foreign address."""
    reading.get_by_text("Report", exact=True).first.click()
    reading.get_by_text("(picture: picture)").wait_for()
    reading.get_by_role("button", name="Write it as one page with plots").click()
    with reading.expect_download() as begun:
        reading.get_by_role("button", name="Download the page").click()
    written = Path(begun.value.path()).read_text()
    assert "<svg" in written
    assert "<script" not in written
    assert reading.locator("#injected").count() == 0
    assert reading.locator("img[src='x']").count() == 0
    assert reading.title() not in ("1", "2")
    assert MARKUP in reading.locator(".lt-diff").inner_text()
    for place in (".lt-finding h2", ".lt-row-refuted", ".lt-panel", ".lt-verdict-card", ".lt-side", ".lt-proposal"):
        assert "<script>" in reading.locator(place).first.inner_text(), place
    reading.get_by_text("The same diff as plain text").click()
    assert DIFF.strip() in reading.locator("[data-testid=stCode] code").first.inner_text()


def test_a_box_on_the_curve_zooms_by_asking_again(reading: Page) -> None:
    plot = reading.locator(".js-plotly-plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    reading.mouse.move(box["x"] + box["width"] * 0.4, middle)
    reading.mouse.down()
    reading.mouse.move(box["x"] + box["width"] * 0.6, middle + 20, steps=6)
    reading.mouse.up()
    reading.get_by_role("button", name="show all steps").click()
    reading.get_by_role("button", name="show all steps").wait_for(state="detached")


def test_the_token_leaves_the_address_and_survives_a_reload(reading: Page, lathe: RunningLathe) -> None:
    reading.wait_for_url(f"{lathe.url}/?investigation=look")
    reading.reload()
    reading.get_by_text("What Lathe found in").wait_for()


def test_a_wrong_token_is_refused_a_right_one_signs_in_and_evidence_links_lead_to_the_points(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    page.goto(f"{lathe.url}/?investigation=look&token=';document.title='2")
    page.get_by_role("alert").get_by_text("What you can do").wait_for()
    page.get_by_label("Access token").fill(lathe.viewer)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".lt-suspects a.lt-evidence").first.click()
    page.wait_for_url("**/run?run=run-look&series=max_vio**")
    page.get_by_role("heading", name="pretrain look").wait_for()
    page.locator(".js-plotly-plot text", has_text="layer 1").first.wait_for()
    assert page.title() != "2"
