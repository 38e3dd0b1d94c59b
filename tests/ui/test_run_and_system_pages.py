"""Comparison, timeline, system and chat without a model, in a browser over a real API and store."""

from __future__ import annotations

from typing import Any

import pytest
from case_file import StoredCase, store_case
from running import RunningLathe, wait_until

Page = Any


@pytest.fixture(scope="module", autouse=True)
def case(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> StoredCase:
    return store_case(lathe.store, tmp_path_factory.mktemp("runs"), "look")


def test_runs_are_compared_on_one_axis_and_what_was_not_recorded_is_not_called_the_same(
    page: Page, lathe: RunningLathe
) -> None:
    page.goto(f"{lathe.url}/compare?runs=run-look,rr-look&token={lathe.viewer}")
    page.locator(".js-plotly-plot text", has_text="without c41d07e").first.wait_for()
    page.get_by_text("Data mixture").wait_for()
    text = page.locator(".stMain").inner_text()
    assert "Not recorded on both sides, so nothing can be said." in text
    assert "No difference." in text  # of the declared configuration, which both have
    assert "the same code, c41d07e" in text


def test_a_timeline_leads_from_the_project_to_the_run_and_shows_markup_as_text(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/timeline?token={lathe.viewer}")
    page.locator(".lt-table", has_text="skip layers").get_by_role("link", name="pretrain look").first.click()
    page.wait_for_url("**/timeline?run=run-look")
    page.get_by_role("heading", name="Timeline of pretrain look").wait_for()
    page.locator(".js-plotly-plot").wait_for()
    assert page.locator("#injected").count() == 0
    assert "<script>" in page.locator(".lt-table").first.inner_text()


def test_an_admin_halts_everything_and_makes_a_token_and_a_viewer_can_do_neither(
    page: Page, lathe: RunningLathe
) -> None:
    page.goto(f"{lathe.url}/system?token={lathe.admin}")
    page.locator(".lt-table", has_text="0.1 GiB free <b>").get_by_text("free some space").wait_for()
    page.get_by_text("start it with").wait_for()  # no worker runs here, and that is said once
    assert page.locator("tr", has_text="worker").count() == 1
    page.get_by_role("tab", name="Policies").click()
    page.get_by_role("button", name="Halt everything").click()
    page.get_by_role("alert").get_by_text("What you can do").wait_for()  # a reason is needed
    page.get_by_label("Why (kept in the ledger)").fill("power cut at noon")
    page.get_by_role("button", name="Halt everything").click()
    page.get_by_role("alert").get_by_text("power cut at noon").wait_for()
    halted = lathe.store.policies.halted()
    assert halted is not None
    assert (halted.set_by, halted.reason) == ("root", "power cut at noon")
    page.get_by_label("Why (kept in the ledger)").fill("power is back")
    page.get_by_role("button", name="Let everything go on").click()
    page.get_by_role("button", name="Halt everything").wait_for()
    assert lathe.store.policies.halted() is None
    page.get_by_role("tab", name="People").click()
    page.get_by_label("For whom").fill("grace")
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator("[data-testid=stCode] code").inner_text().strip()
    principal = lathe.store.tokens.check(secret)
    assert principal is not None
    assert (principal.name, principal.role) == ("grace", "viewer")
    page.goto(f"{lathe.url}/system?token={secret}")
    page.get_by_role("tab", name="Policies").click()
    page.get_by_text("You can see this, but not change it").wait_for()
    assert page.get_by_role("button", name="Halt everything").count() == 0


def test_an_admin_lets_a_loop_act_within_a_list_and_a_budget_and_takes_it_back(page: Page, lathe: RunningLathe) -> None:
    """Shows RM2-7.9: how far a loop may go by itself is set, seen and revoked where its work is seen."""
    page.goto(f"{lathe.url}/system?token={lathe.admin}")
    page.get_by_role("tab", name="Policies").click()
    page.get_by_role("combobox", name="May").click()
    page.get_by_role("option", name="act: carries out what you list").click()
    page.get_by_label("Why", exact=True).first.fill("nobody is here at night")
    page.get_by_role("button", name="Set it").click()
    page.get_by_role("alert").get_by_text("What you can do").wait_for()  # nothing is listed
    assert not [each for each in lathe.store.policies.list() if each.kind == "autonomy"]
    page.get_by_role("combobox", name="Without asking").click()
    page.get_by_role("option", name="pause run").first.click()
    page.keyboard.press("Escape")
    page.get_by_label("At most so many").fill("3")
    page.keyboard.press("Tab")
    page.wait_for_timeout(1500)  # the page is drawn again with it
    page.get_by_role("button", name="Set it").click()
    page.locator(".lt-table", has_text="act: pause run, at most 3").get_by_text("nobody is here at night").wait_for()
    (stored,) = [each for each in lathe.store.policies.list() if each.kind == "autonomy"]
    assert (stored.loop, stored.level, stored.effects, stored.num_effects, stored.cpu_s) == (
        "debug", "act", ("pause_run",), 3, 600.0,
    )  # fmt: skip
    revoking = page.get_by_test_id("stForm").filter(has=page.get_by_role("button", name="Revoke it")).first
    revoking.get_by_label("Why").fill("somebody is here")
    revoking.get_by_role("button", name="Revoke it").click()
    wait_until(lambda: lathe.store.policies.level("debug") == "propose")
    page.locator(".lt-table tr", has_text="nobody is here at night").get_by_text("until").wait_for()


def test_which_text_goes_to_whom_is_shown_with_what_is_never_sent(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/system?token={lathe.viewer}")
    page.get_by_role("tab", name="Providers").click()
    page.get_by_text("labels of a classifier").wait_for()
    page.locator("tr", has_text="proposals of an evolution run").get_by_text("nobody: no model is set").wait_for()
    page.get_by_text("Never sent:").wait_for()
    page.get_by_text("checkpoints and weights").wait_for()


def test_the_chat_answers_without_a_model_and_its_cards_open_the_objects(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/chat?investigation=look&token={lathe.reviewer}")
    page.get_by_role("button", name="Why did it happen?").click()
    page.get_by_text("answered by rules, without a model").wait_for()
    assert page.locator("#injected").count() == 0
    page.locator(".lt-answer .lt-evidence").first.wait_for()
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()
    page.locator(".js-plotly-plot .annotation", has_text="A").first.wait_for()
    page.get_by_text("A, step").first.wait_for()
    page.get_by_role("link", name="Read and decide the proposal").first.click()
    page.get_by_role("heading", name="Resume look without c41d07e").wait_for()
