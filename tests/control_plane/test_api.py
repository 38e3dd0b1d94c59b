"""The HTTP API over a real store and a real training's data, through a real server where streaming matters."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from case import CASE, RUN, propose_fix, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject, commit, until

from context_store import Store
from context_store.records import Anomaly, NewRun, Project, Proposal, Suspect
from contracts.enums import CauseKind, ProposalState, Role, RunRole
from contracts.evidence import EvidenceRef
from control_plane.api.app import create_app
from control_plane.api.guards import MAX_BODY_BYTES
from control_plane.projects import register_project
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

PROBLEM = "application/problem+json"
NEGATIVE = {
    "claim": "the note caused it",
    "intervention": "reverted the note",
    "observed": "the loss still rose",
    "reason": "the loss does not read notes",
    "evidence": ["run:rr-1#10..40"],
}


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(create_app(store), base_url="http://127.0.0.1", raise_server_exceptions=False)


def header(store: Store, role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {store.tokens.create(f'a {role}', role)}"}


@pytest.fixture
def proposal(lathe: Lathe, small_project: SmallProject) -> Proposal:
    train_bad_run(lathe, small_project)
    return propose_fix(lathe, small_project)


def paths(client: TestClient) -> list[tuple[str, str]]:
    document = client.get("/api/v1/openapi.json").json()
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


def test_every_endpoint_needs_a_token(client: TestClient) -> None:
    endpoints = paths(client)
    assert len(endpoints) >= 40
    for method, path in endpoints:
        for headers in ({}, {"Authorization": "Bearer lathe_wrong"}):
            answer = client.request(method, re.sub(r"{\w+}", "1", path), headers=headers)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == PROBLEM
            assert answer.headers["www-authenticate"] == "Bearer"


def test_health_is_one_sentence_with_who_asks(client: TestClient, store: Store) -> None:
    answer = client.get("/api/v1/health", headers=header(store, Role.VIEWER)).json()
    assert answer["ok"] is True
    assert "lathe train" in answer["sentence"]
    assert answer["principal"] == {"name": "a viewer", "role": "viewer"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/runs/nothing", 404),
        ("/api/v1/runs/nothing/points?name=loss", 404),
        ("/api/v1/investigations/nothing", 404),
        ("/api/v1/proposals/nothing", 404),
        ("/api/v1/nowhere", 404),
        ("/api/v1/runs?limit=0", 422),
        ("/api/v1/runs?role=king", 422),
        ("/api/v1/runs/r/points", 422),
        ("/api/v1/runs/r/points?name=loss&view=half", 422),
        ("/api/v1/activity?after=x", 422),
    ],
)
def test_every_error_is_a_problem_with_a_remedy(client: TestClient, store: Store, path: str, status: int) -> None:
    answer = client.get(path, headers=header(store, Role.VIEWER))
    assert answer.status_code == status
    assert answer.headers["content-type"] == PROBLEM
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "remedy"}
    assert body["status"] == status
    assert body["remedy"]


def test_unknown_fields_and_methods_are_problems(client: TestClient, store: Store) -> None:
    reviewer = header(store, Role.REVIEWER)
    surprise = client.post("/api/v1/proposals/p/approve", json={"bound_hash": "h", "force": True}, headers=reviewer)
    assert (surprise.status_code, surprise.headers["content-type"]) == (422, PROBLEM)
    assert "force" in surprise.json()["detail"]
    deletion = client.delete("/api/v1/runs", headers=reviewer)
    assert (deletion.status_code, deletion.headers["content-type"]) == (405, PROBLEM)


def test_a_defect_shows_nothing_of_the_inside(store: Store) -> None:
    app = create_app(store, clock=lambda: 1 / 0)
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    body = {"bound_hash": "h"}
    answer = client.post("/api/v1/proposals/p/approve", json=body, headers=header(store, Role.REVIEWER))
    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM)
    assert "division" not in answer.text


def test_large_bodies_and_foreign_hosts_are_turned_away(client: TestClient, store: Store) -> None:
    researcher = header(store, Role.RESEARCHER)
    large = client.post("/api/v1/negatives", content=b" " * (MAX_BODY_BYTES + 1), headers=researcher)
    assert (large.status_code, large.headers["content-type"]) == (413, PROBLEM)

    def drip() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1024 + 2):
            yield b" " * 1024

    unannounced = client.post("/api/v1/negatives", content=drip(), headers=researcher)
    assert unannounced.status_code == 413
    foreign = client.get("/api/v1/health", headers={**researcher, "Host": "evil.example"})
    assert (foreign.status_code, foreign.headers["content-type"]) == (421, PROBLEM)


def test_no_other_origin_may_call(client: TestClient, store: Store) -> None:
    answer = client.get("/api/v1/health", headers={**header(store, Role.VIEWER), "Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_only_a_reviewer_decides(client: TestClient, lathe: Lathe, proposal: Proposal, verb: str) -> None:
    body = {"bound_hash": proposal.bound_hash, "comment": "because"}
    for role in (Role.VIEWER, Role.RESEARCHER):
        refused = client.post(f"/api/v1/proposals/{proposal.id}/{verb}", json=body, headers=header(lathe.store, role))
        assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)
        assert lathe.store.proposals.get(proposal.id).state == ProposalState.OPEN
    reviewer = header(lathe.store, Role.REVIEWER)
    decided = client.post(f"/api/v1/proposals/{proposal.id}/{verb}", json=body, headers=reviewer)
    assert decided.status_code == 200
    stored = lathe.store.proposals.get(proposal.id)
    assert stored.state == (ProposalState.APPROVED if verb == "approve" else ProposalState.REJECTED)
    assert (stored.decided_by, stored.comment) == ("a reviewer", "because")
    again = client.post(f"/api/v1/proposals/{proposal.id}/{verb}", json=body, headers=reviewer)
    assert again.status_code == 409


def test_a_reviewer_approves_exactly_what_they_saw(client: TestClient, lathe: Lathe, proposal: Proposal) -> None:
    body = {"bound_hash": "of something else", "comment": ""}
    answer = client.post(
        f"/api/v1/proposals/{proposal.id}/approve", json=body, headers=header(lathe.store, Role.REVIEWER)
    )
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:lathe:ApprovalInvalid")
    assert lathe.store.proposals.get(proposal.id).state == ProposalState.OPEN


def test_runs_points_and_the_case_file(client: TestClient, lathe: Lathe, proposal: Proposal) -> None:
    viewer = header(lathe.store, Role.VIEWER)

    def get(path: str) -> dict[str, Any]:
        answer = client.get(f"/api/v1{path}", headers=viewer)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    assert [run["id"] for run in get("/runs?role=training")["runs"]] == [RUN]
    detail = get(f"/runs/{RUN}")
    assert detail["latest"] == {"loss": 19.0}
    assert len(detail["checkpoints"]) == 3
    assert get(f"/runs/{RUN}/series") == {"names": ["loss"], "next": None}
    (series,) = get(f"/runs/{RUN}/points?name=loss&buckets=5&lo=5")["series"]
    assert series["steps"][0] >= 5
    assert series["steps"][-1] == 30
    several = get(f"/runs/{RUN}/points?name=none&name=loss&buckets=5&lo=5")["series"]
    assert [(each["name"], len(each["steps"])) for each in several] == [("none", 0), ("loss", len(series["steps"]))]
    assert several[1] == series
    assert get(f"/runs/{RUN}/points?name=loss&view=full")["series"][0]["steps"][-1] == 30
    assert get(f"/runs/{RUN}/timeline")["events"]
    case = get(f"/investigations/{CASE}")
    assert case["proposals"][0]["diff"] == proposal.diff
    assert case["proposals"][0]["evidence"] == [f"run:{RUN}"]
    assert case["run"]["id"] == RUN
    assert case["verification_run"] is None
    health = get("/health")
    assert health["needs_you"] == 1
    assert health["sentence"] == "One proposal waits for you: the loss rises"


def test_each_role_sees_what_it_supplied(client: TestClient, lathe: Lathe, small_project: SmallProject) -> None:
    """Shows R801-3.9: findings and suspects name the role of the team that supplied them; a view takes one role's."""
    train_bad_run(lathe, small_project)
    run, knowledge = (EvidenceRef(kind="run", id=RUN),), lathe.store.knowledge
    blank: dict[str, Any] = {"run_id": RUN, "series": (), "onset": (10, 12), "severity": 0.5, "evidence": run}
    seen = [
        knowledge.put_anomaly(Anomaly(kind="level_shift", statement="the loss rises", **blank)),
        knowledge.put_anomaly(
            Anomaly(
                kind="mixture_shift", statement="web takes over", probe={"supplied_by": "pipeline_developer"}, **blank
            )
        ),
    ]
    knowledge.open_investigation("case-2", RUN, [each.id for each in seen], "both", time.time())
    for rank, (key, kind) in enumerate({"commit:a": CauseKind.CODE, "launch:lr": CauseKind.CONFIG}.items(), start=1):
        about: dict[str, Any] = {"investigation_id": "case-2", "key": key, "cause_kind": kind, "title": key}
        knowledge.put_suspect(Suspect(**about, commits=(), evidence=run, score=0.5, rank=rank))
    viewer = header(lathe.store, Role.VIEWER)

    def get(path: str) -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/api/v1{path}", headers=viewer).json()
        return found

    every = [(each["statement"], each["supplied_by"]) for each in get(f"/runs/{RUN}/findings")["findings"]]
    assert every == [("the loss rises", "metric_inspector"), ("web takes over", "pipeline_developer")]
    of_data = get(f"/runs/{RUN}/findings?role=pipeline_developer")
    assert [each["statement"] for each in of_data["findings"]] == ["web takes over"]
    nobody = get(f"/runs/{RUN}/findings?role=output_inspector")
    assert nobody["findings"] == []
    assert "2 found by other roles" in nobody["sentence"]
    assert get("/investigations/case-2")["supplied_by"] == {
        "anomalies": {str(seen[0].id): "metric_inspector", str(seen[1].id): "pipeline_developer"},
        "suspects": {"commit:a": "infrastructure_coder", "launch:lr": "model_trainer"},
    }
    coder = get("/investigations/case-2?role=infrastructure_coder")
    assert ([each["key"] for each in coder["suspects"]], coder["anomalies"]) == (["commit:a"], [])
    assert client.get(f"/api/v1/runs/{RUN}/findings?role=nobody", headers=viewer).status_code == 422


def test_numbers_that_json_lacks_are_words(client: TestClient, lathe: Lathe, small_project: SmallProject) -> None:
    (small_project.folder / "recipe.py").write_text("SLOPE = float('nan')\n")
    project = register_project(lathe.store, small_project.folder)
    wish = TrainingRequest(run_id=RUN, project=project, commit=commit(small_project.folder, "nan"), max_step=3)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    answer = client.get(f"/api/v1/runs/{RUN}/points?name=loss", headers=header(lathe.store, Role.VIEWER))
    assert answer.json()["series"][0]["values"] == ["NaN", "NaN", "NaN"]


def test_a_researcher_has_a_run_looked_at(client: TestClient, lathe: Lathe, small_project: SmallProject) -> None:
    project = register_project(lathe.store, small_project.folder)
    wish = TrainingRequest(run_id=RUN, project=project, commit=small_project.good, max_step=30)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    body = {"run_id": RUN}
    refused = client.post("/api/v1/investigations", json=body, headers=header(lathe.store, Role.VIEWER))
    assert refused.status_code == 403
    answer = client.post("/api/v1/investigations", json=body, headers=header(lathe.store, Role.RESEARCHER))
    assert answer.status_code == 200
    assert answer.json() == {"investigation": None, "sentence": f"nothing wrong found in run {RUN}"}


def test_negative_results_are_added_by_researchers_and_found(client: TestClient, store: Store) -> None:
    refused = client.post("/api/v1/negatives", json=NEGATIVE, headers=header(store, Role.VIEWER))
    assert refused.status_code == 403
    researcher = header(store, Role.RESEARCHER)
    unfounded = client.post("/api/v1/negatives", json=NEGATIVE, headers=researcher)
    assert (unfounded.status_code, "run:rr-1#10..40" in unfounded.json()["detail"]) == (400, True)
    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id="rr-1", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere"))
    added = client.post("/api/v1/negatives", json=NEGATIVE, headers=researcher)
    assert added.status_code == 201
    assert added.json()["negative"]["actor"] == "a researcher"
    found = client.get("/api/v1/negatives?q=note", headers=researcher).json()["negatives"]
    assert [each["claim"] for each in found] == [NEGATIVE["claim"]]
    louder = {**NEGATIVE, "claim": str(NEGATIVE["claim"]).upper()}
    client.post("/api/v1/negatives", json=louder, headers=researcher)
    whole = client.get(f"/api/v1/negatives/{added.json()['negative']['id']}", headers=researcher).json()
    assert [(each["negative"]["claim"], each["why"]) for each in whole["duplicates"]] == [
        (louder["claim"], "the same words and numbers")
    ]
    assert (whole["negative"]["claim"], whole["contradictions"]) == (NEGATIVE["claim"], [])
    assert client.get("/api/v1/negatives/999", headers=researcher).status_code == 404
    unsupported = client.post("/api/v1/negatives", json={**NEGATIVE, "evidence": []}, headers=researcher)
    assert unsupported.status_code == 422
    unreadable = client.post("/api/v1/negatives", json={**NEGATIVE, "evidence": ["trust me"]}, headers=researcher)
    assert (unreadable.status_code, unreadable.headers["content-type"]) == (400, PROBLEM)


def test_measured_effects_that_exclude_each_other_stand_against_each_other(client: TestClient, store: Store) -> None:
    """Shows R801-2.5: an effect with its uncertainty, its scale and its data come in through the API."""
    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id="rr-1", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere"))
    researcher = header(store, Role.RESEARCHER)
    numbers = []
    for scale, value in (("d12", 0.001), ("d20", -0.004)):
        effect = {"what": "val_bpb", "value": value, "lo": value - 0.001, "hi": value + 0.001, "unit": "bits per byte"}
        expected = {"what": "val_bpb", "value": -0.002}
        known = {"scale": scale, "data": "FineWeb", "code_version": "7d047e4"}
        body = {**NEGATIVE, **known, "observed_effect": effect, "expected_effect": expected}
        stored = client.post("/api/v1/negatives", json=body, headers=researcher).json()["negative"]
        assert (stored["observed_effect"], stored["expected_effect"]["value"]) == (effect, -0.002)
        assert {name: stored[name] for name in known} == known
        numbers.append(stored["id"])
    (against,) = store.likeness.contradictions(store.negatives.get(numbers[0]))
    assert against.reference == EvidenceRef(kind="negative", id=str(numbers[1]))
    assert "measured val_bpb -0.004 (-0.005 to -0.003) bits per byte, here val_bpb +0.001" in against.statement
    assert against.differs == ("scale: d20, here d12",)
    for wrong in ({"lo": 1.0}, {"lo": 2.0, "hi": 1.0}):
        body = {**NEGATIVE, "observed_effect": {"what": "val_bpb", "value": 1.0, **wrong}}
        assert client.post("/api/v1/negatives", json=body, headers=researcher).status_code == 400


def test_a_database_that_is_gone_is_a_problem_too(client: TestClient, store: Store, postgres_url: str) -> None:
    viewer = header(store, Role.VIEWER)
    name = store.url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        connection.execute(f"ALTER DATABASE {name} RENAME TO {name}_gone")
        answer = client.get("/api/v1/health", headers=viewer)
        connection.execute(f"ALTER DATABASE {name}_gone RENAME TO {name}")
    assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM)
    assert "lathe up" in answer.json()["remedy"]
    assert client.get("/api/v1/health", headers=viewer).status_code == 200, "and it goes on by itself"


@pytest.fixture
def server(store: Store) -> Iterator[str]:
    """A real server on a free port."""
    config = uvicorn.Config(create_app(store), host="127.0.0.1", port=0, log_level="warning")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until(lambda: running.started)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/api/v1"
    running.should_exit = True
    thread.join(timeout=10)


def test_the_newest_messages_of_the_feed(client: TestClient, store: Store) -> None:
    for text in ("one", "two", "three"):
        store.activity.publish("progress", text)
    found = client.get("/api/v1/activity?newest=true&limit=2", headers=header(store, Role.VIEWER)).json()["activity"]
    assert [each["text"] for each in found] == ["two", "three"]


def test_events_stream_from_where_the_reader_was(server: str, store: Store) -> None:
    first = store.activity.publish("progress", "first")
    store.activity.publish("finding", "second")

    def later() -> None:
        time.sleep(0.5)
        store.activity.publish("approval", "third")

    threading.Thread(target=later, daemon=True).start()
    headers = {**header(store, Role.VIEWER), "Last-Event-ID": str(first.id)}
    events: list[tuple[str, str]] = []
    kind = ""
    with httpx.stream("GET", f"{server}/events", headers=headers, timeout=15) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                events.append((kind, json.loads(value)["text"]))
            if len(events) == 2:
                break
    assert events == [("finding", "second"), ("approval", "third")]


def test_a_stream_ends_when_its_token_is_revoked(server: str, store: Store) -> None:
    secret = store.tokens.create("gpu-9", Role.VIEWER)
    store.activity.publish("finding", "seen")
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.stream("GET", f"{server}/events", headers=headers, timeout=15) as response:
        lines = response.iter_lines()
        assert any("seen" in line for line in lines)
        store.tokens.revoke(store.tokens.find(secret).id, "root", time.time())
        assert not any(line.startswith("data") for line in lines), "and it ends"
