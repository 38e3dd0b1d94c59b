"""Decisions and policies over HTTP and on the command line. Shows R801-2.13 and RM2-7.10."""

from __future__ import annotations

import time
from typing import Any

import pytest
from case import RUN, approve, finish, payload, propose_fix, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject
from test_api import PROBLEM, header
from test_cli import Command, command  # noqa: F401 - a fixture

from context_store.records import Proposal
from contracts.enums import EffectKind, EffectState, ProposalState, Role
from control_plane.api.app import create_app
from control_plane.proposing import request_approved
from control_plane.trainings import follow
from control_plane.wiring import Lathe

POLICIES = "/api/v1/policies"
ACT = {
    "loop": "debug",
    "level": "act",
    "effects": ["patch_code"],
    "num_effects": 2,
    "cpu_s": 1.5,
    "reason": "nights",
}


@pytest.fixture
def client(lathe: Lathe) -> TestClient:
    return TestClient(create_app(lathe.store), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture
def proposal(lathe: Lathe, small_project: SmallProject) -> Proposal:
    train_bad_run(lathe, small_project)
    return propose_fix(lathe, small_project)


def post(client: TestClient, lathe: Lathe, path: str, body: dict[str, Any], role: Role = Role.ADMIN) -> Any:
    return client.post(path, json=body, headers=header(lathe.store, role))


def test_a_reviewer_edits_and_another_proposal_waits(client: TestClient, lathe: Lathe, proposal: Proposal) -> None:
    path, wish = f"/api/v1/proposals/{proposal.id}", {"bound_hash": proposal.bound_hash, "comment": "shorter"}
    refused = post(client, lathe, f"{path}/edit", {**wish, "changes": {"max_step": 20}}, Role.RESEARCHER)
    assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)
    unknown = post(client, lathe, f"{path}/edit", {**wish, "changes": {"branch": "main"}}, Role.REVIEWER)
    assert unknown.status_code == 422
    made = post(client, lathe, f"{path}/edit", {**wish, "changes": {"max_step": 20}}, Role.REVIEWER).json()
    assert (made["proposal"]["state"], made["proposal"]["replaces"]) == ("open", proposal.id)
    assert made["proposal"]["payload"]["max_step"] == 20
    assert (made["approvals"], made["reviewers_needed"]) == ([], 1)
    old = client.get(path, headers=header(lathe.store, Role.VIEWER)).json()["proposal"]
    assert (old["state"], old["replaced_by"], old["comment"]) == ("superseded", made["proposal"]["id"], "shorter")
    stale = post(client, lathe, f"{path}/approve", wish, Role.REVIEWER)
    assert stale.status_code == 409


def test_what_is_proposed_is_bound_whole(client: TestClient, lathe: Lathe, small_project: SmallProject) -> None:
    """Somebody resumes the run with other values before the effect: what was shown is carried out."""
    train_bad_run(lathe, small_project)
    wish = {
        "kind": "resume_with_patch", "payload": payload(lathe, small_project, branch="lathe/fix-1"),
        "title": "go on without the steeper slope", "risk": "low", "verification": "the loss falls",
    }  # fmt: skip
    made = post(client, lathe, "/api/v1/proposals", wish, Role.RESEARCHER).json()["proposal"]
    assert (made["payload"]["source_segment"], made["payload"]["overrides"]) == (0, {"step_s": 0.001})
    later = lathe.trainings.go_on(RUN, overrides={"slope": 9.0}, max_step=35)
    follow(lathe.backend, lathe.shipper, later)
    approve(lathe, lathe.store.proposals.get(made["id"]))
    request_approved(lathe.store, time.time())
    effect = finish(lathe, f"apply:{made['id']}")
    assert effect.state == EffectState.DONE, effect.message
    assert lathe.store.runs.declared(RUN, 2)["slope"] == -0.01


def test_changes_are_asked_for_with_a_comment(client: TestClient, lathe: Lathe, proposal: Proposal) -> None:
    path, seen = f"/api/v1/proposals/{proposal.id}/ask-changes", {"bound_hash": proposal.bound_hash}
    assert post(client, lathe, path, seen, Role.REVIEWER).status_code == 400
    asked = post(client, lathe, path, {**seen, "comment": "keep the note"}, Role.REVIEWER).json()
    assert asked["proposal"]["state"] == "changes_asked"


def test_two_reviewers_over_http(client: TestClient, lathe: Lathe, proposal: Proposal) -> None:
    wish = {"effects": ["resume_with_patch"], "reason": "costly"}
    assert post(client, lathe, f"{POLICIES}/four-eyes", wish).status_code == 201
    path, seen = f"/api/v1/proposals/{proposal.id}/approve", {"bound_hash": proposal.bound_hash}
    first = post(client, lathe, path, seen, Role.REVIEWER).json()
    assert (first["proposal"]["state"], first["reviewers_needed"], len(first["approvals"])) == ("open", 2, 1)
    assert post(client, lathe, path, seen, Role.REVIEWER).status_code == 409, "the same person"
    assert post(client, lathe, path, seen, Role.ADMIN).json()["proposal"]["state"] == "approved"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.REVIEWER])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("autonomy", ACT),
        ("four-eyes", {"effects": ["start_run"], "reason": "r"}),
        ("halt", {"reason": "r"}),
        ("resume", {"reason": "r"}),
        ("1/revoke", {"reason": "r"}),
    ],
)
def test_policies_are_an_admins(client: TestClient, lathe: Lathe, role: Role, path: str, body: dict[str, Any]) -> None:
    assert post(client, lathe, f"{POLICIES}/{path}", body, role).status_code == 403
    assert lathe.store.policies.list() == []


def test_policies_are_seen_and_revoked(client: TestClient, lathe: Lathe) -> None:
    made = post(client, lathe, f"{POLICIES}/autonomy", ACT).json()["policy"]
    seen = client.get(POLICIES, headers=header(lathe.store, Role.VIEWER)).json()
    assert [(p["level"], p["effects"], p["set_by"]) for p in seen["policies"]] == [("act", ["patch_code"], "a admin")]
    assert seen["default_level"] == "propose"
    assert set(seen["major"]) >= {"start_run", "resume_with_patch", "patch_code"}
    revoked = post(client, lathe, f"{POLICIES}/{made['id']}/revoke", {"reason": "enough"}).json()["policy"]
    assert revoked["revoked_by"] == "a admin"
    assert post(client, lathe, f"{POLICIES}/{made['id']}/revoke", {"reason": "enough"}).status_code == 404
    for wrong in ({**ACT, "num_effects": 0}, {**ACT, "effects": ["undo"]}, {**ACT, "level": "propose"}):
        answer = post(client, lathe, f"{POLICIES}/autonomy", wrong)
        assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM)
    assert post(client, lathe, f"{POLICIES}/halt", {"reason": ""}).status_code == 422
    assert post(client, lathe, f"{POLICIES}/99999999999999999999/revoke", {"reason": "r"}).status_code == 422


def test_health_says_that_everything_is_halted(client: TestClient, lathe: Lathe) -> None:
    viewer = header(lathe.store, Role.VIEWER)
    assert client.get("/api/v1/health", headers=viewer).json()["halted"] is None
    post(client, lathe, f"{POLICIES}/halt", {"reason": "smoke"})
    health = client.get("/api/v1/health", headers=viewer).json()
    assert (health["ok"], health["halted"]["reason"], health["halted"]["set_by"]) == (False, "smoke", "a admin")
    assert health["sentence"].startswith("Halted by a admin: smoke")
    post(client, lathe, f"{POLICIES}/resume", {"reason": "gone"})
    assert client.get("/api/v1/health", headers=viewer).json()["halted"] is None


# --- the command line


def test_policies_on_the_command_line(command: Command, lathe: Lathe) -> None:  # noqa: F811
    done = command(
        "policy", "set", "debug", "act", "--effect", "patch_code", "--max-effects", 2, "--reason", "nights", "--json"
    )
    assert (done.status, done.json["level"], done.json["effects"]) == (0, "act", ["patch_code"])
    assert command("policy", "four-eyes", "start_run", "--reason", "costly").status == 0
    assert command("policy", "halt", "--reason", "smoke", "--json").json["kind"] == "halt"
    listed = command("policy", "list").out
    for words in ("debug: act: patch_code; at most 2", "two reviewers for start_run", "nothing is begun", ": smoke"):
        assert words in listed
    assert command("policy", "resume", "--json").json == {"halted": None}
    assert command("policy", "revoke", 1, "--reason", "enough").status == 0
    assert [each["kind"] for each in command("policy", "list", "--json").json] == ["four_eyes"]
    again = command("policy", "revoke", 1, "--reason", "enough")
    assert (again.status, "no policy 1 is in force" in again.err) == (2, True)
    assert lathe.store.policies.list()[-1].kind == "autonomy"


def test_a_proposal_is_edited_and_sent_back(command: Command, lathe: Lathe, proposal: Proposal) -> None:  # noqa: F811
    options = ("--set", "slope=0.0", "--max-step", 20, "--revert", proposal.payload["code"]["base"])
    made = command("proposals", "edit", proposal.id, *options, "--comment", "flat", "--json").json
    assert made["replaces"] == proposal.id
    assert (made["payload"]["overrides"], made["payload"]["max_step"]) == ({"slope": 0.0}, 20)
    wrong = command("proposals", "edit", made["id"], "--base", "0" * 40)
    assert (wrong.status, "has no commit" in wrong.err) == (2, True)
    asked = command("proposals", "ask-changes", made["id"], "--comment", "not flat", "--yes", "--json").json
    assert asked["state"] == "changes_asked"
    assert lathe.store.proposals.get(proposal.id).state is ProposalState.SUPERSEDED


def test_a_first_of_two_approvals_says_so(command: Command, lathe: Lathe, proposal: Proposal) -> None:  # noqa: F811
    kinds = [EffectKind.RESUME_WITH_PATCH]
    lathe.store.policies.require_four_eyes(kinds, "root", Role.ADMIN, "costly", time.time())
    done = command("proposals", "approve", proposal.id, "--yes")
    assert (done.status, "another reviewer" in done.err) == (0, True)
    assert lathe.store.runs.get(RUN).id == RUN
