"""Triage of findings through the API; what nobody wants to be told of counts nowhere and opens no case again."""

from __future__ import annotations

import time
from pathlib import Path

from case import CASE, RUN, propose_fix, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject, until
from test_api import client, header  # noqa: F401 - client is a fixture
from test_schedules import once, set_one

from context_store import Store
from context_store.records import NewRun, Project
from contracts.enums import Role, RunRole, TriageKind
from contracts.events import Event, Metrics, SegmentStarted, encode, segment_folder
from contracts.evidence import EvidenceRef
from control_plane.timekeeper import Timekeeper
from control_plane.wiring import Lathe
from loops.debug import detect

URL = "/api/v1/triage"
SUBJECT = f"investigation:{CASE}"


def say(client: TestClient, store: Store, kind: str, role: Role = Role.RESEARCHER, **more: object) -> int:  # noqa: F811
    body = {"subject": SUBJECT, "kind": kind, **more}
    return client.post(URL, json=body, headers=header(store, role)).status_code


def test_a_snoozed_case_is_not_told_of_until_it_ends_but_its_proposal_is(
    client: TestClient,  # noqa: F811
    lathe: Lathe,
    small_project: SmallProject,
) -> None:
    store = lathe.store
    train_bad_run(lathe, small_project)
    viewer = header(store, Role.VIEWER)
    assert say(client, store, "acknowledged") == 201
    assert client.get("/api/v1/health", headers=viewer).json()["ok"] is False
    assert say(client, store, "snoozed", for_s=3600.0) == 201
    quiet = client.get("/api/v1/health", headers=viewer).json()
    assert (quiet["needs_you"], quiet["quiet_cases"], quiet["ok"]) == (0, [CASE], True)
    assert "the loss rises" not in quiet["sentence"]
    propose_fix(lathe, small_project)
    waiting = client.get("/api/v1/health", headers=viewer).json()
    assert (waiting["needs_you"], waiting["quiet_cases"], waiting["ok"]) == (1, [CASE], False)
    assert waiting["sentence"] == "One proposal waits for you: the loss rises"
    assert say(client, store, "reopened", comment="look again") == 201
    assert client.get("/api/v1/health", headers=viewer).json()["quiet_cases"] == []
    marks = client.get(URL, params={"subject": SUBJECT}, headers=viewer).json()["marks"]
    assert [(mark["kind"], mark["actor"]) for mark in marks] == [
        ("acknowledged", "a researcher"), ("snoozed", "a researcher"), ("reopened", "a researcher"),
    ]  # fmt: skip


def test_a_viewer_may_not_mark_and_nonsense_is_refused(client: TestClient, lathe: Lathe) -> None:  # noqa: F811
    store = lathe.store
    assert say(client, store, "muted", Role.VIEWER) == 403
    assert say(client, store, "muted") == 404
    assert say(client, store, "hidden") == 422
    assert say(client, store, "snoozed", for_s=-1.0) == 422
    assert client.get(URL, headers=header(store, Role.VIEWER)).status_code == 422


def train(store: Store, folder: Path, run_id: str) -> None:
    """A recorded training whose loss is NaN from step 120 on."""
    log = segment_folder(folder / run_id, 0)
    log.mkdir(parents=True)
    start = SegmentStarted(
        run_id=run_id, segment=0, start_step=0, code_version="a" * 40, seed=1, dp_size=1, start_checkpoint="",
        config={}, environment={}, wall_time=time.time(),
    )  # fmt: skip
    steps = [Metrics(step=n, values={"loss": 3.0 - n / 100 if n < 120 else float("nan")}) for n in range(1, 161)]
    events: list[Event] = [start, *steps]
    (log / "events.log").write_bytes(b"".join(map(encode, events)))
    store.projects.put(Project(id="p", path="/p", entry="recipe:recipe", backend="embedded"))
    store.runs.create(
        NewRun(id=run_id, project_id="p", name=run_id, role=RunRole.TRAINING, folder=str(folder / run_id))
    )
    store.ingest.ship(run_id, folder / run_id)


def test_the_monitor_opens_no_case_for_what_was_muted(lathe: Lathe, tmp_path: Path) -> None:
    store = lathe.store
    set_one(store, at=time.time() - 60.0)
    for run_id in ("run-muted", "run-plain"):
        train(store, tmp_path, run_id)
    detect(store, "run-muted")
    anomalies = store.knowledge.anomalies(run_id="run-muted")
    assert anomalies
    for anomaly in anomalies:
        store.triage.mark(EvidenceRef(kind="anomaly", id=str(anomaly.id)), TriageKind.MUTED, "ada", time.time())
    assert once(lathe, time.time()).last_message == "looked at 2 runs, opened 1 cases"
    assert [case.run_id for case in store.knowledge.investigations()] == ["run-plain"]


def test_what_was_snoozed_opens_its_case_when_the_snooze_ends(lathe: Lathe, tmp_path: Path) -> None:
    """Although nothing new came of the run since."""
    store, now = lathe.store, time.time()
    set_one(store, at=now - 60.0)
    train(store, tmp_path, "run-snoozed")
    detect(store, "run-snoozed")
    for anomaly in store.knowledge.anomalies(run_id="run-snoozed"):
        subject = EvidenceRef(kind="anomaly", id=str(anomaly.id))
        store.triage.mark(subject, TriageKind.SNOOZED, "ada", now, until=now + 600.0)
    moments = [now, now + 61.0, now + 700.0, now + 761.0]
    keeper = Timekeeper(lathe, lambda: moments[len(said)])
    said: list[str] = []
    while len(said) < len(moments):
        keeper.look()
        until(lambda: not keeper.busy)
        said.append(store.schedules.list()[0].last_message)
    assert said == [
        "looked at 1 runs, opened 0 cases", "looked at 0 runs, opened 0 cases",
        "looked at 1 runs, opened 1 cases", "looked at 0 runs, opened 0 cases",
    ]  # fmt: skip


def test_loops_tell_what_they_are_for_and_what_their_scores_are_held_against(
    client: TestClient,  # noqa: F811
    lathe: Lathe,
    small_project: SmallProject,
) -> None:
    store = lathe.store
    train_bad_run(lathe, small_project)
    store.ledger.append("loop:debug", "propose", SUBJECT, {"step": "1.propose", "text": "replay it"}, (), 5.0)
    store.ledger.append("ada", "note", SUBJECT, {}, (), 6.0)
    viewer = header(store, Role.VIEWER)
    loops = {each["name"]: each for each in client.get("/api/v1/loops", headers=viewer).json()["loops"]}
    assert loops.keys() == {"debug", "classifier", "potential", "recipe", "evolve"}
    loop = loops["debug"]
    assert (loop["level"], loop["cases"]["open"]) == ("propose", 1)
    assert loop["charter"]["broken_links"] == ["execute"]
    entries = client.get("/api/v1/loops/debug/ledger", headers=viewer).json()["entries"]
    assert [entry["detail"]["text"] for entry in entries] == ["replay it"]
    assert len(client.get("/api/v1/loops/debug/scores", headers=viewer).json()["gates"]) == 2
    assert client.get("/api/v1/loops/other/ledger", headers=viewer).status_code == 404
    assert client.get("/api/v1/data/mixture", params={"run_id": RUN}, headers=viewer).json()["events"] == []
