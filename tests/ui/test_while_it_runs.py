"""A run that goes on under the reader's eyes: nothing goes stale, nothing jumps, nothing that departs is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case_file import CODE, LAST_STEP, NOW, store_case, store_run
from running import RunningLathe

from context_store import Store
from context_store.records import NegativeResult, NewRun, Project, TimelineEvent
from contracts.enums import Role, RunRole, RunState, TimelineKind
from contracts.events import Event, Metrics, SegmentStarted, encode, segment_folder
from contracts.evidence import EvidenceRef
from ui.case import curve
from ui.client import Client
from ui.transport import connect

Page = Any


@pytest.fixture(scope="module", autouse=True)
def home(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    store_case(lathe.store, folder, "look")
    return folder


def test_a_run_that_goes_on_is_followed_without_a_reload(page: Page, lathe: RunningLathe, home: Path) -> None:
    run = NewRun(id="goes-on", project_id="demo", name="goes on", role=RunRole.TRAINING, folder=str(home / "goes-on"))
    store_run(lathe.store, home / "goes-on", run, departs=False)
    lathe.store.runs.set_state("goes-on", RunState.RUNNING)
    page.goto(f"{lathe.url}/run?run=goes-on&token={lathe.viewer}")
    page.locator(".lt-facts", has_text=f"last step {LAST_STEP}").wait_for()
    page.locator(".js-plotly-plot").wait_for()
    _append(lathe.store, "goes-on", home / "goes-on", Metrics(step=LAST_STEP + 7, values={"lm_loss": 2.0}))
    event = TimelineEvent(run_id="goes-on", segment=0, step=61, kind=TimelineKind.CODE, title="a late change", at=NOW)
    lathe.store.timeline.add(event)
    page.locator(".lt-facts", has_text=f"last step {LAST_STEP + 7}").wait_for()
    page.locator(".lt-side", has_text="What changed").get_by_text("a late change").wait_for()


def test_the_first_point_of_a_run_appears_by_itself(page: Page, lathe: RunningLathe, home: Path) -> None:
    folder = home / "begins"
    lathe.store.runs.create(
        NewRun(id="begins", project_id="demo", name="begins", role=RunRole.TRAINING, folder=str(folder))
    )
    page.goto(f"{lathe.url}/run?run=begins&token={lathe.viewer}")
    page.get_by_text("This run has not made a step yet").wait_for()
    start = SegmentStarted(
        run_id="begins", segment=0, start_step=0, code_version=CODE, seed=1, dp_size=1, start_checkpoint="", config={},
        environment={}, wall_time=NOW,
    )  # fmt: skip
    segment_folder(folder, 0).mkdir(parents=True)
    _append(lathe.store, "begins", folder, start, Metrics(step=1, values={"lm_loss": 3.0}))
    page.locator(".js-plotly-plot").wait_for()


def test_what_lathe_does_moves_nothing_that_is_read(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/?investigation=look&token={lathe.viewer}")
    finding = page.locator("section.lt-finding").first
    finding.wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    page.wait_for_timeout(1000)
    before = finding.bounding_box()["y"]
    for number in range(5):
        text = f"re-run {number} ends: without the change the anomaly is gone, and the measure falls to nearly nothing"
        lathe.store.activity.publish("progress", text, investigation_id="look")
    page.locator(".lt-feed", has_text="re-run 4 ends").wait_for()
    assert finding.bounding_box()["y"] == before


def test_a_steps_link_opens_on_those_steps(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/run?run=run-look&series=lm_loss&lo=20&hi=24&token={lathe.viewer}")
    page.get_by_role("button", name="Steps 0–74 · show all steps").wait_for()


def test_every_layer_that_departs_is_on_the_picture(served_store: Store, api_url: str, tmp_path: Path) -> None:
    served_store.projects.put(Project(id="demo", path="/nowhere"))
    run = NewRun(id="wide", project_id="demo", name="wide", role=RunRole.TRAINING, folder=str(tmp_path / "wide"))
    store_run(served_store, tmp_path / "wide", run, departs=False)
    layers = [f"grad_norm/layers.{n}" for n in range(9)]
    _append(served_store, "wide", tmp_path / "wide", Metrics(step=LAST_STEP + 1, values=dict.fromkeys(layers, 1.0)))
    client = Client(http=connect(api_url), token=served_store.tokens.create("vera", Role.VIEWER))
    names = curve.names_around(client, "wide", layers[:8])
    assert set(layers) == {*names.focus, *names.peers}
    assert names.title.endswith("layer 5 and 2 more")
    assert "2 that depart too, 1 peers" in curve.legend(names, faulty=True, fixed=False)
    many = [f"grad_norm/layers.{n}" for n in range(60)]
    assert curve.names_around(client, "wide", many).peers == tuple(many[curve.MAX_FOCUS :])


def test_a_reason_that_a_person_wrote_is_text_and_no_markdown(page: Page, lathe: RunningLathe) -> None:
    """The page fixture fails on any request to a foreign address."""
    reason = "![seen](http://foreign.test/x.png)"
    lathe.store.negatives.add(
        NegativeResult(
            claim="a picture helps",
            intervention="looked at it",
            context={},
            expected="more",
            observed="nothing",
            reason_class=reason,
            reason="it does not",
            reopen_if="never",
            actor="ada",
            evidence=(EvidenceRef(kind="run", id="run-look"),),
            investigation_id=None,
        )
    )
    page.goto(f"{lathe.url}/memory?token={lathe.viewer}")
    page.locator(".lt-card", has_text="a picture helps").wait_for()
    page.get_by_role("combobox", name="Why").click()
    page.get_by_role("option", name=reason).click()
    page.locator(".lt-card").nth(1).wait_for(state="detached")
    assert "a picture helps" in page.locator(".lt-card").inner_text()


def _append(store: Store, run_id: str, folder: Path, *events: Event) -> None:
    with (segment_folder(folder, 0) / "events.log").open("ab") as log:
        log.write(b"".join(encode(event) for event in events))
    store.ingest.ship(run_id, folder)
