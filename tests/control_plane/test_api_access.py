"""Who may call what: every route without a token, and with every role below the one it needs. Tokens and limits."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from case import CASE, train_bad_run
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from small_project import SmallProject
from test_api import PROBLEM, header
from test_cli import Command, command  # noqa: F401 - a fixture

from context_store import Store
from contracts.enums import Role
from control_plane.api.access import AtLeast
from control_plane.api.app import ApiOptions, create_app
from control_plane.api.auditing import UNAUDITED
from control_plane.api.limits import BURST_S, Allowance, Limiter
from control_plane.given_up import give_up
from control_plane.wiring import Lathe

# What each role may do that those before it may not. Everything else is a viewer's.
NEEDS = {
    Role.RESEARCHER: {
        "DELETE /chat/threads/ID",
        "GET /system",
        "POST /chat/threads",
        "POST /chat/threads/ID/exchanges",
        "POST /chat/threads/ID/stop",
        "POST /experiments",
        "POST /classifiers/ID/labels",
        "POST /evolution/ID/promotion",
        "POST /evolution/ID/seal",
        "POST /experiments/ID/stop",
        "POST /ingest/streams",
        "POST /ingest/streams/ID",
        "POST /investigations",
        "POST /investigations/ID/ask-again",
        "POST /negatives",
        "POST /potential",
        "POST /proposals",
        "POST /runs/ID/detect",
        "POST /triage",
    },
    Role.REVIEWER: {
        "POST /proposals/ID/approve",
        "POST /proposals/ID/ask-changes",
        "POST /proposals/ID/edit",
        "POST /proposals/ID/reject",
    },
    Role.ADMIN: {
        "GET /audit",
        "GET /tokens",
        "POST /budgets",
        "POST /policies/ID/revoke",
        "POST /policies/autonomy",
        "POST /policies/four-eyes",
        "POST /policies/halt",
        "POST /policies/resume",
        "POST /schedules",
        "POST /schedules/ID/revoke",
        "POST /tokens",
        "POST /tokens/ID/revoke",
    },
}
NOBODY = "987654"  # no id of anything


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(create_app(store), base_url="http://127.0.0.1", raise_server_exceptions=False)


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) with the names of parameters cut to ID."""
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            yield method.upper(), re.sub(r"{\w+}", "ID", path)


def test_every_route_refuses_no_token_and_a_role_that_is_too_low(client: TestClient, store: Store) -> None:
    """Shows that the table above is whole: what a role may not do, and that nothing else is refused to a viewer."""
    app: Any = client.app
    headers = {role: header(store, role) for role in Role}
    needed = {name: role for role, names in NEEDS.items() for name in names}
    seen = set()
    for method, path in routes(app):
        name = f"{method} {path.removeprefix('/api/v1')}"
        seen.add(name)
        if name == "GET /events":  # never ends; it has no role of its own
            continue
        assert client.request(method, path.replace("ID", NOBODY)).status_code == 401, name
        for role in Role:
            if role is not Role.ADMIN or needed.get(name) is Role.ADMIN:
                answer = client.request(method, path.replace("ID", NOBODY), headers=headers[role])
                refused = needed.get(name) is not None and not role.includes(needed[name])
                assert (answer.status_code == 403) is refused, (name, role, answer.text)
                assert answer.status_code < 500, (name, answer.text)
    assert needed.keys() <= seen


def test_whatever_changes_something_names_a_role(store: Store) -> None:
    """A POST route that forgot its role would be open to every viewer."""

    def roles(dependant: Dependant) -> set[Role]:
        own = {dependant.call.role} if isinstance(dependant.call, AtLeast) else set()
        return own.union(*(roles(each) for each in dependant.dependencies))

    posts = [each for each in api_routes(create_app(store)) if each.methods != {"GET"}]
    assert len(posts) >= 18
    assert [each.path for each in posts if not roles(each.dependant)] == []


def test_whatever_changes_something_is_audited(client: TestClient, store: Store) -> None:
    """Who, what and which object, for every route that is not GET; refusals too, with their reason."""
    app: Any = client.app
    admin, viewer = header(store, Role.ADMIN), header(store, Role.VIEWER)
    changing = [(method, path) for method, path in routes(app) if method != "GET"]
    assert len(changing) >= 25
    for method, path in changing:
        name = path.replace("ID", NOBODY)
        client.request(method, name, headers=admin)
        client.request(method, name, headers=viewer)
        entries = store.ledger.list(subject=f"request:{name}")
        if path.removeprefix("/api/v1").replace("ID", "{stream_id}") in UNAUDITED:
            assert entries == []
            continue
        said = [(each.actor, each.action, each.detail["role"], "refused" in each.detail) for each in reversed(entries)]
        asked = ("a admin", method, "admin", False)
        assert said[:1] == [asked], path
        assert ("a viewer", method, "viewer", True) in said, path
    before = len(store.ledger.list(limit=10_000))
    client.get("/api/v1/runs", headers=admin)
    assert len(store.ledger.list(limit=10_000)) == before


def api_routes(app: FastAPI) -> list[APIRoute]:
    from control_plane.api import app as module

    return [each for routes in module._ROUTES for each in routes.router.routes if isinstance(each, APIRoute)]


def test_an_admin_makes_and_revokes_tokens(client: TestClient, store: Store) -> None:
    admin = header(store, Role.ADMIN)
    wish = {"name": "gpu-7", "role": "researcher", "expires_in_s": 3600}
    made = client.post("/api/v1/tokens", json=wish, headers=admin)
    assert made.status_code == 201
    token, secret = made.json()["token"], made.json()["secret"]
    assert (token["name"], token["role"], token["created_by"]) == ("gpu-7", "researcher", "a admin")
    its = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/health", headers=its).json()["principal"] == {"name": "gpu-7", "role": "researcher"}
    listed = client.get("/api/v1/tokens", headers=admin).text
    assert "gpu-7" in listed
    assert secret not in listed
    revoked = client.post(f"/api/v1/tokens/{token['id']}/revoke", headers=admin).json()["token"]
    assert revoked["revoked_by"] == "a admin"
    assert client.get("/api/v1/health", headers=its).status_code == 401
    said = client.get("/api/v1/audit", params={"subject": f"token:{token['id']}"}, headers=admin).json()["entries"]
    assert [each["action"] for each in said] == ["token_revoked", "token_created"]
    assert secret not in client.get("/api/v1/audit", headers=admin).text


def test_a_token_that_was_revoked_elsewhere_changes_nothing_any_more(client: TestClient, store: Store) -> None:
    secret = store.tokens.create("gpu-8", Role.RESEARCHER)
    its = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/health", headers=its).status_code == 200
    store.tokens.revoke(store.tokens.find(secret).id, "root", time.time())
    assert client.post("/api/v1/negatives", json={}, headers=its).status_code == 401
    assert client.get("/api/v1/health", headers=its).status_code == 401


def test_the_ledger_names_who_asked_for_a_case_again(
    client: TestClient, lathe: Lathe, small_project: SmallProject
) -> None:
    train_bad_run(lathe, small_project)
    give_up(lathe.store, CASE, ValueError("earlier"), now=0.0)
    asked = client.post(f"/api/v1/investigations/{CASE}/ask-again", headers=header(lathe.store, Role.RESEARCHER))
    assert asked.status_code == 200
    newest = lathe.store.ledger.list(subject=f"investigation:{CASE}")[0]
    assert (newest.action, newest.actor) == ("case_asked_again", "a researcher")


def test_a_token_ends_when_it_was_said_to(store: Store, lathe: Lathe) -> None:
    secret = lathe.store.tokens.create("short", Role.VIEWER, expires_at=time.time() + 0.05)
    time.sleep(0.1)
    assert lathe.store.tokens.check(secret) is None
    assert lathe.store.tokens.find(secret).name == "short"


def test_tokens_on_the_command_line(command: Command, lathe: Lathe) -> None:  # noqa: F811
    made = command("tokens", "create", "gpu-7", "--role", "researcher", "--json").json
    principal = lathe.store.tokens.check(made["secret"])
    assert principal is not None
    assert (principal.name, principal.role) == ("gpu-7", Role.RESEARCHER)
    plain = command("tokens", "create", "other", "--days", 1)
    assert lathe.store.tokens.check(plain.out.strip()) is not None
    assert "LATHE_TOKEN" in plain.err
    listed = command("tokens", "list").out
    assert "gpu-7" in listed
    assert made["secret"] not in listed
    assert command("tokens", "revoke", made["token"]["id"]).status == 0
    assert lathe.store.tokens.check(made["secret"]) is None
    unknown = command("tokens", "revoke", 999)
    assert (unknown.status, "no token 999" in unknown.err) == (2, True)


def test_a_token_that_asks_for_too_much_waits_and_others_go_on(store: Store) -> None:
    app = create_app(store, options=ApiOptions(allowance=Allowance(requests_per_s=0.5, bytes_per_s=1000.0)))
    client = TestClient(app, base_url="http://127.0.0.1")
    busy, other = header(store, Role.RESEARCHER), header(store, Role.RESEARCHER)
    answers = [client.get("/api/v1/health", headers=busy) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    refused = answers[-1]
    assert refused.headers["content-type"] == PROBLEM
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    assert refused.json()["type"] == "urn:lathe:TooManyRequests"
    large = client.post("/api/v1/negatives", content=b" " * 9000, headers=other)
    assert large.status_code == 422
    assert client.get("/api/v1/health", headers=other).status_code == 429, "the body used up its bytes"
    assert client.get("/api/v1/health", headers=header(store, Role.VIEWER)).status_code == 200


def test_wrong_tokens_share_one_allowance(store: Store) -> None:
    app = create_app(store, options=ApiOptions(allowance=Allowance(requests_per_s=1.0)))
    client = TestClient(app, base_url="http://127.0.0.1")
    guesses = [client.get("/api/v1/health", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(8)]
    assert guesses[0] == 401
    assert guesses[-1] == 429
    assert client.get("/api/v1/health", headers=header(store, Role.VIEWER)).status_code == 200


def test_an_allowance_comes_back_with_time() -> None:
    limiter = Limiter(Allowance(requests_per_s=10.0, bytes_per_s=100.0))
    taken = [limiter.take("a", 0, 0.0) for _ in range(int(10 * BURST_S) + 1)]
    assert taken[:-1] == [0.0] * int(10 * BURST_S)
    assert taken[-1] == pytest.approx(0.1)
    assert limiter.take("a", 0, 0.1) == 0.0
    assert limiter.take("a", 0, 0.1) > 0.0
    assert limiter.take("b", 600, 0.0) == 0.0, "a body is never split: it may overdraw"
    assert limiter.take("b", 0, 0.0) == pytest.approx(2.0)
    assert limiter.take("b", 0, 2.0) == 0.0


def test_only_named_hosts_pass(store: Store) -> None:
    app = create_app(store, options=ApiOptions(hosts=("lathe.example.org",)))
    viewer = header(store, Role.VIEWER)
    for host, status in (("lathe.example.org", 200), ("Lathe.Example.org:443", 200), ("evil.example", 421)):
        answer = TestClient(app, base_url="http://127.0.0.1").get("/api/v1/health", headers={**viewer, "Host": host})
        assert answer.status_code == status, host


def test_lists_come_in_pages(client: TestClient, store: Store) -> None:
    admin = header(store, Role.ADMIN)
    for number in range(4):
        client.post("/api/v1/schedules", json=watch(f"for {number}"), headers=admin)
    for path, part in (("/schedules", "schedules"), ("/audit?actor=a admin", "entries"), ("/tokens", "tokens")):
        whole = client.get(f"/api/v1{path}", headers=admin).json()
        assert whole["next"] is None
        found: list[Any] = []
        after: str | None = None
        while not found or after is not None:
            query = {"limit": 1} if after is None else {"limit": 1, "after": after}
            answer = client.get(f"/api/v1{path.partition('?')[0]}", params={**ask(path), **query}, headers=admin).json()
            found, after = found + answer[part], answer["next"]
        assert found == whole[part]
        assert len({str(each) for each in found}) == len(found)
        wrong = client.get(f"/api/v1{path.partition('?')[0]}", params={"after": "nobody"}, headers=admin)
        assert (wrong.status_code, wrong.headers["content-type"]) == (400, PROBLEM)


def ask(path: str) -> dict[str, str]:
    return {"actor": "a admin"} if "actor" in path else {}


def watch(reason: str) -> dict[str, Any]:
    return {"action": "watch", "every_s": 60, "reason": reason}
