"""Schedules: set and revoked by admins, visible, done by one of several workers; runs are watched as they arrive."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from case import RUN, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject, until
from test_api import header
from test_cli import Command, command  # noqa: F401 - a fixture

from context_store import Store
from context_store.records import Schedule
from contracts.enums import InvestigationState, Role, ScheduleAction
from contracts.errors import NotFound, RoleRequired, UserInputError
from control_plane.api.app import create_app
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.timekeeper import Timekeeper
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from control_plane.worker import Worker


def set_one(store: Store, action: ScheduleAction = ScheduleAction.WATCH, **wish: Any) -> Schedule:
    given = {"target": "", "every_s": 60.0, "actor": "root", "role": Role.ADMIN, "reason": "r", "at": 1000.0, **wish}
    return store.schedules.set(action, **given)


def once(lathe: Lathe, now: float) -> Schedule:
    """What is due, done to its end."""
    keeper = Timekeeper(lathe, lambda: now)
    keeper.look()
    until(lambda: not keeper.busy)
    keeper.stop()
    return lathe.store.schedules.list()[0]


def test_a_schedule_is_due_at_once_and_then_at_intervals_for_one_worker(store: Store) -> None:
    made = set_one(store)
    assert store.schedules.claim(999.0) is None
    assert [store.schedules.claim(1000.0), store.schedules.claim(1000.0)] == [made, None]
    assert store.schedules.claim(1059.0) is None
    claimed = store.schedules.claim(1060.0)
    assert claimed is not None
    store.schedules.revoke(made.id, "root", Role.ADMIN, "enough", 1061.0)
    assert store.schedules.claim(9999.0) is None
    with pytest.raises(NotFound):
        store.schedules.revoke(made.id, "root", Role.ADMIN, "enough", 1062.0)
    assert [each.action for each in store.ledger.list(f"schedule:{made.id}")] == ["schedule_revoked", "schedule_set"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.REVIEWER])
def test_only_an_admin_sets_or_revokes(store: Store, role: Role) -> None:
    with pytest.raises(RoleRequired):
        set_one(store, role=role)
    made = set_one(store)
    with pytest.raises(RoleRequired):
        store.schedules.revoke(made.id, "x", role, "r", 1.0)


@pytest.mark.parametrize(
    "wish",
    [
        {"every_s": 0.0},
        {"every_s": float("nan")},
        {"reason": " "},
        {"older_than_s": 5.0},
        {"action": ScheduleAction.BACKUP, "target": "relative"},
        {"action": ScheduleAction.EXPIRE},
        {"action": ScheduleAction.EXPIRE, "older_than_s": float("inf")},
    ],
)
def test_an_impossible_schedule_is_refused(store: Store, wish: dict[str, Any]) -> None:
    with pytest.raises(UserInputError):
        set_one(store, **wish)


def test_a_bad_run_is_found_as_it_arrives(lathe: Lathe, small_project: SmallProject) -> None:
    """A run from before the schedule is left alone; one that arrives gets its case, once."""
    store = lathe.store
    train_bad_run(lathe, small_project)
    store.knowledge.set_investigation("case-1", state=InvestigationState.CLOSED)
    set_one(store, at=time.time())
    assert once(lathe, time.time()).last_message == "looked at 0 runs, opened 0 cases"
    project = register_project(store, small_project.folder)
    wish = TrainingRequest(
        run_id="run-2", project=project, commit=small_project.bad, max_step=300, overrides={"step_s": 0.0, "slope": 1.0}
    )
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    looked = once(lathe, time.time() + 61)
    assert looked.last_message.startswith("looked at 1 runs"), looked.last_message
    assert store.schedules.marks()["run-2"][0] == 300
    again = once(lathe, time.time() + 122)
    assert again.last_message == "looked at 0 runs, opened 0 cases"
    assert RUN not in store.schedules.marks()


def test_a_backup_is_a_new_folder_and_a_failure_is_told(lathe: Lathe, tmp_path: Path) -> None:
    set_one(lathe.store, ScheduleAction.BACKUP, target=str(tmp_path / "backups"))
    done = once(lathe, 2000.0)
    assert done.last_ok, done.last_message
    (folder,) = (tmp_path / "backups").iterdir()
    assert json.loads((folder / "manifest.json").read_text())["content_sha256"] in done.last_message
    (tmp_path / "file").touch()
    set_one(lathe.store, ScheduleAction.BACKUP, target=str(tmp_path / "file"), at=3000.0)
    lathe.store.schedules.revoke(1, "root", Role.ADMIN, "r", 3000.0)
    failed = once(lathe, 3001.0)
    assert not failed.last_ok
    assert "failed" in lathe.store.activity.newest(1)[0].text


def test_nothing_is_done_while_everything_is_halted(lathe: Lathe) -> None:
    set_one(lathe.store)
    lathe.store.policies.halt("root", Role.ADMIN, "smoke", 1.0)
    assert once(lathe, 2000.0).last_at is None
    lathe.store.policies.resume("root", Role.ADMIN, "over", 2.0)
    assert once(lathe, 2000.0).last_at == 2000.0


def test_old_points_expire(lathe: Lathe, small_project: SmallProject) -> None:
    train_bad_run(lathe, small_project)
    lathe.store.series.seal(RUN)
    set_one(lathe.store, ScheduleAction.EXPIRE, older_than_s=3600.0)
    assert once(lathe, time.time()).last_message == "deleted 0 points of 0 runs"
    later = once(lathe, time.time() + 7200.0)
    assert later.last_message == "deleted 30 points of 1 runs"
    assert len(lathe.store.series.read(RUN, "loss").steps) == 0


def test_two_workers_do_it_once(lathe: Lathe, settings: Settings) -> None:
    set_one(lathe.store, every_s=3600.0, at=time.time())
    with Lathe.open(settings) as other, Worker(lathe, name="a") as a, Worker(other, name="b") as b:

        def step() -> bool:
            a.step()
            b.step()
            return lathe.store.schedules.list()[0].last_at is not None

        until(step)
        (made,) = lathe.store.schedules.list()
        assert made.next_at > time.time() + 3500.0


def test_schedules_over_http_and_on_the_command_line(command: Command, lathe: Lathe, tmp_path: Path) -> None:  # noqa: F811
    client = TestClient(create_app(lathe.store), base_url="http://127.0.0.1")
    admin = header(lathe.store, Role.ADMIN)
    body = {"action": "watch", "every_s": 5, "reason": "nights"}
    made = client.post("/api/v1/schedules", json=body, headers=admin)
    assert (made.status_code, made.json()["schedule"]["set_by"]) == (201, "a admin")
    assert client.post("/api/v1/schedules", json={**body, "action": "expire"}, headers=admin).status_code == 400
    assert command("schedule", "backup", tmp_path / "b", "--every", 12, "--json").json["every_s"] == 43200
    assert command("schedule", "expire", "--older-than", 30, "--reason", "space").status == 0
    assert command("schedule", "watch").status == 0
    listed = " ".join(command("schedule", "list").out.split())  # a long path breaks its line
    for words in ("watch, every 5 s", "nights", "older than 30 days", "every 43200 s"):
        assert words in listed
    assert command("schedule", "revoke", 1, "--reason", "enough").status == 0
    seen = client.get("/api/v1/schedules?in_force=true", headers=header(lathe.store, Role.VIEWER)).json()["schedules"]
    assert 1 not in [each["id"] for each in seen]
    assert len(seen) == 3
