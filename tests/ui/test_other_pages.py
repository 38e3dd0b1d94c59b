"""Approvals and memory in a browser, over a real API and store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from case_file import NOW, StoredCase, store_case
from running import RunningLathe

from context_store.records import EffectRequest, EffectSize, NegativeResult
from contracts.enums import ProposalState, Role
from contracts.evidence import EvidenceRef

Page = Any


@pytest.fixture(scope="module")
def cases(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredCase]:
    folder = tmp_path_factory.mktemp("runs")
    names = ("first", "second", "asked", "edited", "two")
    return {name: store_case(lathe.store, folder, name) for name in names}


def test_the_inbox_shows_what_is_bound_and_the_history_what_was_decided(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    """Shows R801-2.13: who decided what, when, with which comment."""
    page.goto(f"{lathe.url}/approvals?token={lathe.reviewer}&proposal={cases['first'].proposal.id}")
    page.get_by_role("heading", name="Approvals").wait_for()
    page.get_by_role("heading", name=cases["first"].proposal.title).wait_for()
    page.get_by_text("All arguments, as they are bound").first.wait_for()
    page.get_by_label("Comment").first.fill("not today")
    page.get_by_label("Comment").first.press("Control+Enter")  # must not press the first button, which is Approve
    page.wait_for_timeout(500)
    assert lathe.store.proposals.get(cases["first"].proposal.id).state is ProposalState.OPEN
    page.get_by_role("button", name="Reject").first.click()
    page.get_by_role("heading", name="Decided").wait_for()
    page.locator(".lt-table", has_text="not today").wait_for()
    stored = lathe.store.proposals.get(cases["first"].proposal.id)
    assert (stored.state, stored.decided_by, stored.comment) == (ProposalState.REJECTED, "ada", "not today")
    assert lathe.store.proposals.get(cases["second"].proposal.id).state is ProposalState.OPEN


def test_changes_are_asked_for_with_a_comment_and_not_without(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    asked = cases["asked"].proposal
    page.goto(f"{lathe.url}/approvals?token={lathe.reviewer}&proposal={asked.id}")
    page.get_by_role("button", name="Ask for changes").click()
    page.get_by_role("alert").get_by_text("What you can do").wait_for()
    assert lathe.store.proposals.get(asked.id).state is ProposalState.OPEN
    page.get_by_label("Comment").fill("verify on layer 0 too")
    page.get_by_label("Comment").press("Tab")  # a field keeps its keys; what was typed is sent along
    page.keyboard.press("Alt+s")
    page.locator(".lt-decided", has_text="changes asked").get_by_text("verify on layer 0 too").wait_for()
    stored = lathe.store.proposals.get(asked.id)
    assert (stored.state, stored.comment) == (ProposalState.CHANGES_ASKED, "verify on layer 0 too")


def test_an_edit_makes_a_new_proposal_and_its_fate_is_told(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    """Shows R801-2.13: an edit needs an approval of its own; what was approved says what came of it."""
    old = cases["edited"].proposal
    page.goto(f"{lathe.url}/approvals?token={lathe.reviewer}&proposal={old.id}")
    page.get_by_text("Edit it first").click()
    page.get_by_label("Go on up to step").fill("200")
    page.get_by_role("textbox", name="Configuration that is set otherwise").fill("optim.head.lr = oops")
    page.get_by_role("button", name="Make the edited proposal").click()
    page.get_by_role("alert").get_by_text("optim.head.lr = oops").wait_for()
    page.get_by_role("textbox", name="Configuration that is set otherwise").fill("optim.head.lr = 0.001")
    page.get_by_role("button", name="Make the edited proposal").click()
    page.get_by_role("heading", name=f"{old.title} (edited)").wait_for()
    new = lathe.store.proposals.current(old.id)
    assert (new.payload["overrides"], new.payload["max_step"], new.replaces) == ({"optim.head.lr": 0.001}, 200, old.id)
    assert (new.diff, new.state) == (old.diff, ProposalState.OPEN)
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("waits for a worker").first.wait_for()
    key = "edited:resume"
    lathe.store.effects.request(
        EffectRequest(
            key=key, kind=new.kind, payload=new.payload, investigation_id="edited", actor="loop:debug",
            proposal_id=new.id,
        )
    )  # fmt: skip
    lathe.store.effects.refuse(key, "the base moved <i>on</i>", "propose it again")
    page.reload()
    page.locator(".lt-table", has_text="the base moved <i>on</i> propose it again").wait_for()


def test_with_four_eyes_the_page_says_what_is_done_and_that_one_more_reviewer_is_needed(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    """Shows R801-2.13: the first of two approvals allows nothing, and the page says so on both of its places."""
    proposal = cases["two"].proposal
    lathe.store.policies.require_four_eyes([proposal.kind], "root", Role.ADMIN, "costly", NOW)
    page.goto(f"{lathe.url}/approvals?token={lathe.reviewer}&proposal={proposal.id}")
    head = page.locator(".lt-proposal")
    head.get_by_text("2 different reviewers or admins needed; so far nobody").wait_for()
    head.get_by_text("optim.head.lr = 0.002").wait_for()
    head.get_by_role("link", name="run-two").wait_for()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("Approved by ada; one more reviewer is needed").wait_for()
    assert page.get_by_role("button", name="Approve").is_disabled()
    assert lathe.store.proposals.get(proposal.id).state is ProposalState.OPEN
    page.goto(f"{lathe.url}/?investigation=two&token={lathe.admin}")
    page.locator(".lt-proposal").get_by_text("so far 1 of 2: ada").wait_for()
    page.get_by_role("button", name="Approve").click()
    page.locator(".lt-decided.lt-approved", has_text="by ada, root").wait_for()
    assert lathe.store.proposals.get(proposal.id).state is ProposalState.APPROVED


def test_a_negative_result_is_found_and_added(page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]) -> None:
    """Shows R801-2.5: what was ruled out is found before it is tried again; nothing is stored without evidence."""
    page.goto(f"{lathe.url}/memory?token={lathe.reviewer}&q=library share")
    page.locator(".lt-card", has_text="library share").first.wait_for()
    page.get_by_text("Add one by hand").click()
    page.get_by_label("Claim: what was believed").fill("weight tying helps small models")
    page.get_by_label("What was tried").fill("tied embedding and head")
    page.get_by_label("What was seen").fill("loss 3.2 instead of 0.97")
    page.get_by_label("Why it does not hold").fill("the run was broken")
    page.get_by_role("button", name="Store it").click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("Evidence, one reference a line").fill("run:run-first")
    page.get_by_role("button", name="Store it").click()
    page.get_by_text("It will be found before anybody tries this again").wait_for()
    (found, _), *_ = lathe.store.negatives.search("weight tying", limit=1)
    assert (found.actor, found.observed) == ("ada", "loss 3.2 instead of 0.97")
    again = replace(found, id=0, claim="Weight tying helps SMALL models", actor="bob")
    other = lathe.store.negatives.add(again)
    page.goto(f"{lathe.url}/open?token={lathe.reviewer}&ref=negative:{found.id}")
    page.get_by_role("heading", name="Like it").wait_for()
    page.locator(f'a[href*="negative%3A{other.id}"]', has_text="SMALL models").wait_for()


def test_a_record_shows_what_was_measured_otherwise_elsewhere(
    page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]
) -> None:
    """Shows R801-2.5: a contradiction is shown on both records, with what differs, and nothing is merged."""
    small = lathe.store.negatives.add(_measured("30M", -0.10))
    large = lathe.store.negatives.add(_measured("1B", 0.05))
    for shown, other, scale in ((small, large, "1B"), (large, small, "30M")):
        page.goto(f"{lathe.url}/open?token={lathe.viewer}&ref=negative:{shown.id}")
        page.get_by_role("heading", name="Says otherwise; both stay").wait_for()
        entry = page.locator("li", has=page.locator(f'a[href*="negative%3A{other.id}"]'), has_text="measured").first
        assert f"scale: {scale}" in entry.inner_text()


def _measured(scale: str, value: float) -> NegativeResult:
    effect = EffectSize(what="loss", value=value, lo=value - 0.02, hi=value + 0.02, unit="nats")
    return NegativeResult(
        claim="a warm restart of the learning rate lowers the loss", intervention="learning rate restarted at half",
        context={}, expected="lower", observed="see the effect", reason_class="no_effect", reason="three seeds",
        reopen_if="another schedule", actor="ada", evidence=(EvidenceRef(kind="run", id="run-first"),),
        investigation_id=None, scale=scale, observed_effect=effect,
    )  # fmt: skip


def test_a_viewer_may_search_but_not_add(page: Page, lathe: RunningLathe, cases: dict[str, StoredCase]) -> None:
    page.goto(f"{lathe.url}/memory?token={lathe.viewer}&q=nothing like this at all")
    page.get_by_text("Nothing is stored about").wait_for()
    assert page.get_by_text("Add one by hand").count() == 0
