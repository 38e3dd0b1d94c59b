"""The same pages for other eyes: time zone, dark, phone and tablet; several runs at once; findings without a case."""

from __future__ import annotations

import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from case_file import LAST_STEP, MARKUP, NOW, StoredCase, store_case, store_run
from running import RunningLathe, watched_page

from context_store.records import Anomaly, NewRun, Project
from contracts.enums import InvestigationState, RunRole, RunState, TriageKind
from contracts.evidence import EvidenceRef

Page = Any
RUN = "run-look"
STILL = ".stApp[data-test-script-state=notRunning]"
PLOT, HEAD = ".js-plotly-plot", "h1"
PAGES = {
    "/": PLOT, "/?investigation=look": PLOT, f"/run?run={RUN}": PLOT, "/approvals": HEAD, "/memory": HEAD,
    f"/compare?runs={RUN},rr-look": PLOT,
}  # fmt: skip
GIT = ("git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
_WIDER = "Math.max(document.scrollingElement.scrollWidth, document.querySelector('.stMain').scrollWidth) - innerWidth"


@pytest.fixture(scope="module", autouse=True)
def case(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> StoredCase:
    return store_case(lathe.store, tmp_path_factory.mktemp("runs"), "look")


def looking(browser: Any, **viewer: object) -> AbstractContextManager[Page]:
    """A page of a browser of its own."""
    return watched_page(browser.browser.new_context(**viewer))


def test_times_are_those_of_the_viewers_zone(browser: object, lathe: RunningLathe) -> None:
    shown = {"Asia/Tokyo": "16 Jun 2025, 00:06", "America/New_York": "15 Jun 2025, 11:06"}
    assert NOW == 1_750_000_000.0
    for zone, moment in shown.items():
        with looking(browser, timezone_id=zone) as page:
            page.goto(f"{lathe.url}/run?run={RUN}&token={lathe.viewer}")
            page.locator(".lt-table", has_text=moment).first.wait_for()


def test_dark_and_narrow_screens_show_everything_without_scrolling_sideways(
    browser: object, lathe: RunningLathe
) -> None:
    with looking(browser, color_scheme="dark", viewport={"width": 390, "height": 844}) as page:
        for address, last in PAGES.items():
            page.goto(f"{lathe.url}{address}{'&' if '?' in address else '?'}token={lathe.viewer}")
            page.locator(last).first.wait_for()
            page.locator(STILL).wait_for()
            for width in (390, 820):
                page.set_viewport_size({"width": width, "height": 844})
                page.wait_for_timeout(300)
                assert page.evaluate(_WIDER) <= 0, (address, width)
        ground = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert ground == "rgb(20, 24, 27)"
        ink = page.evaluate("document.querySelector('.js-plotly-plot').layout.font.color")
        assert ink == "#c8d0d4"


def test_a_finding_without_a_case_is_listed_with_its_run_and_snoozed_there(page: Page, lathe: RunningLathe) -> None:
    points = EvidenceRef(kind="series", id=f"{RUN}/lm_loss", slice="40..41")
    alone = lathe.store.knowledge.put_anomaly(
        Anomaly(
            run_id=RUN, kind="spike", series=("lm_loss",), onset=(40, 41), severity=0.4, evidence=(points,),
            statement=f"The loss jumps at step 40 {MARKUP}",
        )
    )  # fmt: skip
    page.goto(f"{lathe.url}/run?run={RUN}&token={lathe.reviewer}")
    page.get_by_text("no case was opened for it").wait_for()
    page.locator(".lt-found", has_text="Layers 1 and 3 depart").get_by_role("link", name="its case").wait_for()
    page.locator(f".st-key-triage-anomaly-{alone.id} button").first.click()
    page.get_by_text("Snooze: not before later").click()
    page.get_by_label("For how many hours").fill("3")
    page.get_by_label("For how many hours").press("Enter")
    page.get_by_role("button", name="Save").click()
    page.locator(".lt-found .lt-triage", has_text="snoozed until").wait_for()
    mark = lathe.store.triage.last()[f"anomaly:{alone.id}"]
    assert (mark.kind, mark.actor) == (TriageKind.SNOOZED, "ada")
    assert mark.until is not None
    assert 0 < mark.until - time.time() <= 3 * 3600
    page.goto(f"{lathe.url}/open?ref=anomaly:{alone.id}")
    page.locator(".lt-triage", has_text="snoozed until").wait_for()
    page.locator(f".st-key-triage-anomaly-{alone.id} button").first.wait_for()
    assert page.locator("#injected").count() == 0


def test_a_box_on_one_plot_of_a_run_is_the_window_of_all(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/run?run={RUN}&series=lm_loss&token={lathe.viewer}")
    page.get_by_role("combobox", name="Series").fill("tokens_per")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")  # closes the list, which would take the first click
    page.locator(".js-plotly-plot").nth(1).wait_for()
    page.locator(STILL).wait_for()
    plot = page.locator(".js-plotly-plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle + 20, steps=6)
    page.mouse.up()
    page.get_by_role("button", name="show all steps").nth(1).wait_for()
    lasts = page.evaluate("[...document.querySelectorAll('.js-plotly-plot')].map(p => p.data[0].x.at(-1))")
    assert len(lasts) == 2
    assert lasts[0] == lasts[1] < LAST_STEP
    page.get_by_role("button", name="show all steps").nth(1).click()
    page.get_by_role("button", name="show all steps").first.wait_for(state="detached")


def test_a_comparison_opens_the_diff_of_a_commit_that_one_side_lacks(
    page: Page, lathe: RunningLathe, tmp_path: Path
) -> None:
    repository, versions = tmp_path / "code", []
    subprocess.run([*GIT, "init", "-q", str(repository)], check=True)
    for text in ("rate = 1\n", f"rate = 2  # {MARKUP}\n"):
        (repository / "a.py").write_text(text)
        subprocess.run([*GIT, "-C", str(repository), "add", "."], check=True)
        subprocess.run([*GIT, "-C", str(repository), "commit", "-qm", f"set the {text}"], check=True)
        head = subprocess.run([*GIT, "-C", str(repository), "rev-parse", "HEAD"], check=True, capture_output=True)
        versions.append(head.stdout.decode().strip())
    lathe.store.projects.put(Project(id="code", path=str(repository)))
    lathe.store.code.ingest("code", repository)
    for name, version in zip(("old", "new"), versions, strict=True):
        run = NewRun(id=name, project_id="code", name=name, role=RunRole.TRAINING, folder=str(tmp_path / name))
        store_run(lathe.store, tmp_path / name, run, departs=False, code_version=version)
    page.goto(f"{lathe.url}/compare?runs=old,new&token={lathe.viewer}")
    page.get_by_text(f"What {versions[1][:10]} changes").click()
    page.locator(".lt-diff td.lt-new", has_text="rate = 2  # <b").wait_for()
    assert page.locator(".lt-diff td.lt-old").last.inner_text().endswith("rate = 1")
    assert page.locator("#injected").count() == 0


def test_today_has_a_curve_of_every_running_training_and_calls_no_fresh_finding_earlier(
    page: Page, lathe: RunningLathe, tmp_path: Path
) -> None:
    for number in range(3):
        name = f"live-{number}"
        run = NewRun(id=name, project_id="demo", name=name, role=RunRole.TRAINING, folder=str(tmp_path / name))
        store_run(lathe.store, tmp_path / name, run, departs=False)
        lathe.store.runs.set_state(name, RunState.RUNNING)
    (anomaly, *_) = lathe.store.knowledge.anomalies(run_id=RUN)
    now = time.time()
    for number in range(7):
        opened = now - 2 * 86_400 if number == 0 else now
        lathe.store.knowledge.open_investigation(f"more-{number}", RUN, [anomaly.id], f"more {number}", opened)
    lathe.store.knowledge.set_investigation("more-0", state=InvestigationState.CLOSED)
    page.goto(f"{lathe.url}/?token={lathe.viewer}")
    page.get_by_role("heading", name="Also running").wait_for()
    for number in range(3):
        page.locator(".stMain").get_by_role("link", name=f"live-{number}", exact=True).wait_for()
    page.get_by_text("1 more that are open or were found since yesterday").wait_for()
    page.get_by_text("1 earlier cases").wait_for()


def test_findings_of_one_role_of_the_team(page: Page, lathe: RunningLathe) -> None:
    """Shows R801-3.9: each names who supplied it, and a reader may look at one role's."""
    lathe.store.knowledge.put_anomaly(
        Anomaly(
            run_id=RUN, kind="eval_break", series=("eval/loss",), onset=(50, 52), severity=0.3,
            statement="An evaluation parts from the loss", evidence=(EvidenceRef(kind="run", id=RUN),),
            probe={"supplied_by": "output_inspector"},
        )
    )  # fmt: skip
    page.goto(f"{lathe.url}/run?run={RUN}&token={lathe.viewer}")
    found = page.locator(".lt-found")
    found.filter(has_text="from the metric inspector").first.wait_for()
    page.get_by_test_id("stButtonGroup").get_by_text("output inspector").click()
    found.nth(1).wait_for(state="detached")
    assert "An evaluation parts from the loss" in found.first.inner_text()
