"""Chat over HTTP: threads, exchanges as server-sent events, stopping. Server, store and model's server are real."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from doors import openai_model
from langgraph.checkpoint.memory import InMemorySaver
from scripted_server import Call, ScriptedServer, Turn

from benchmarks.agent_parts.stored_case import CASE, RUN, Stored
from context_store import Store
from context_store.records import Amount
from contracts.enums import Role
from control_plane.api.app import ApiOptions, create_app
from control_plane.chat import RULES_ALONE, Mind

LOOK = Call(name="case_file", arguments=json.dumps({"investigation_id": CASE}))
PLENTY = Amount(tokens=1_000_000, usd=100.0, wall_s=3600.0)
Event = tuple[str, dict[str, Any]]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def api(
    store: Store, mind: Mind = RULES_ALONE, role: Role = Role.RESEARCHER, chats: Path | None = None
) -> Iterator[httpx.Client]:
    """A client of a real server on a free port, with a token of `role`. `chats`: what several servers share."""
    app = create_app(store, options=ApiOptions(mind=mind, chats=chats))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/api/v1/chat"
    with httpx.Client(base_url=base, headers=header(store, role), timeout=30) as client:
        yield client
    server.should_exit = True
    thread.join(timeout=10)


def header(store: Store, role: Role, name: str = "ada") -> dict[str, str]:
    return {"Authorization": f"Bearer {store.tokens.create(name, role)}"}


@pytest.fixture
def new_mind() -> Callable[..., Mind]:
    saver = InMemorySaver()
    return lambda server, budget=PLENTY: Mind(models=(openai_model(server),), checkpointer=lambda: saver, budget=budget)


def new_thread(client: httpx.Client, **about: str) -> str:
    answer = client.post("/threads", json=about or {"investigation_id": CASE})
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["thread"]["id"]
    return found


def events(lines: Iterator[str]) -> Iterator[Event]:
    kind = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def ask(client: httpx.Client, thread_id: str, question: str) -> list[Event]:
    with client.stream("POST", f"/threads/{thread_id}/exchanges", json={"question": question}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events(response.iter_lines()))


def test_the_report_is_served_with_its_plots(still_store: Store, stored: Stored) -> None:
    with api(still_store, role=Role.VIEWER) as client:
        path = f"{str(client.base_url).removesuffix('chat/')}investigations/{CASE}/report"
        assert client.get(path).status_code == 404  # the loop has not concluded
        still_store.knowledge.put_report(CASE, f"Found. `investigation:{CASE}`\n\nMade up. `verdict:999`")
        found = client.get(path).json()
    assert "<svg" in found["html"]
    assert (found["brain"], found["removed"]) == ("rules", 1)
    assert "Made up" not in found["markdown"] + found["html"]


def test_an_exchange_without_a_model_is_kept_in_its_thread(still_store: Store, stored: Stored) -> None:
    with api(still_store) as client:
        thread_id = new_thread(client)
        assert thread_id.startswith(f"{CASE}:")
        ((kind, answer),) = ask(client, thread_id, "why?")
        assert kind == "answer"
        assert f"verdict:{stored.verdict_id}" in answer["citations"]
        assert {"case", "proposal", "series"} <= {card["kind"] for card in answer["cards"]}
        whole = client.get(f"/threads/{thread_id}").json()
        assert [each["answer"] for each in whole["exchanges"]] == [answer]
        assert whole["thread"]["num_exchanges"] == 1
        other = new_thread(client, run_id=RUN)
        listed = client.get("/threads", params={"investigation_id": CASE}).json()["threads"]
        assert [each["id"] for each in listed] == [thread_id]
        assert len(client.get("/threads").json()["threads"]) == 2
        assert client.delete(f"/threads/{other}").status_code == 200
        assert client.get(f"/threads/{other}").status_code == 404
        flows = client.get("/providers").json()["flows"]
        assert {each["text"] for each in flows} == {"nothing"}
    (entry,) = still_store.ledger.list(subject=f"thread:{other}")
    assert (entry.actor, entry.action) == ("ada", "thread_deleted")


def test_words_of_a_model_arrive_as_drafts_and_the_answer_is_checked(
    still_store: Store, stored: Stored, new_mind: Callable[..., Mind]
) -> None:
    text = f"The balance commit causes it [verdict:{stored.verdict_id}]. All is fine with the optimizer."
    with ScriptedServer([Turn(calls=(LOOK,)), Turn(text=text)]) as server, api(still_store, new_mind(server)) as client:
        got = ask(client, new_thread(client), "why?")
    assert "".join(data["text"] for kind, data in got if kind == "draft") == text
    kind, answer = got[-1]
    assert (kind, answer["brain"], answer["removed_share"]) == ("answer", "openai/scripted", 0.5)
    assert [each["text"] for each in answer["statements"]] == ["The balance commit causes it."]


def test_a_client_that_goes_away_cancels_the_answer(
    still_store: Store, stored: Stored, new_mind: Callable[..., Mind]
) -> None:
    """The model's server sees its connection closed, the budget is settled, and the thread stands as before."""
    slow = Turn(text="word " * 400, pace_s=0.05)
    with ScriptedServer([slow, Turn(text="again")]) as server, api(still_store, new_mind(server)) as client:
        thread_id = new_thread(client)
        with client.stream("POST", f"/threads/{thread_id}/exchanges", json={"question": "why?"}) as response:
            assert next(events(response.iter_lines()))[0] == "draft"
        assert server.given_up.wait(10)
        until(lambda: still_store.budgets.state(f"chat:{thread_id}").left.tokens > 900_000)
        assert client.get(f"/threads/{thread_id}").json()["exchanges"] == []
        until(lambda: not client.post(f"/threads/{thread_id}/stop").json()["stopped"])
        assert ask(client, thread_id, "why?")[-1][0] == "answer"


@pytest.mark.parametrize("several", [False, True])
def test_stop_ends_an_answer_and_meanwhile_nobody_else_asks(
    several: bool, still_store: Store, stored: Stored, new_mind: Callable[..., Mind], tmp_path: Path
) -> None:
    """Also where another process of the same API is asked to stop it."""
    slow, chats = Turn(text="word " * 400, pace_s=0.05), tmp_path if several else None
    with ExitStack() as opened:
        server = opened.enter_context(ScriptedServer([slow]))
        client = opened.enter_context(api(still_store, new_mind(server), chats=chats))
        second = opened.enter_context(api(still_store, new_mind(server), chats=chats)) if several else client
        thread_id = new_thread(client)
        url, body = f"/threads/{thread_id}/exchanges", {"question": "why?"}
        with client.stream("POST", url, json=body) as response:
            arriving = events(response.iter_lines())
            assert next(arriving)[0] == "draft"
            with httpx.Client(base_url=second.base_url, headers=client.headers) as other:
                busy = other.post(url, json=body)
                assert (busy.status_code, busy.json()["type"]) == (400, "urn:lathe:UserInputError")
                assert other.post(f"/threads/{thread_id}/stop").json() == {"stopped": True}
            assert list(arriving)[-1] == ("stopped", {})
        assert server.given_up.wait(10)


def test_what_a_thread_may_spend_is_reserved_in_the_store(
    still_store: Store, stored: Stored, new_mind: Callable[..., Mind]
) -> None:
    small = Amount(tokens=100, usd=1.0, wall_s=60.0)
    with ScriptedServer([]) as server, api(still_store, new_mind(server, small)) as client:
        thread_id = new_thread(client)
        ((kind, answer),) = ask(client, thread_id, "why?")
    assert (kind, answer["brain"]) == ("answer", "rules")
    assert "answered without a model: budget" in answer["notes"][0]
    assert server.requests == []
    assert still_store.budgets.state(f"chat:{thread_id}").tokens == 100


def test_a_thread_spends_what_its_project_may_spend(
    still_store: Store, stored: Stored, new_mind: Callable[..., Mind]
) -> None:
    project = still_store.runs.get(RUN).project_id
    budget = still_store.budgets.allow_project(project, Amount(tokens=50), "ada", Role.ADMIN, "a small project", 0.0)
    with ScriptedServer([]) as server, api(still_store, new_mind(server)) as client:
        thread_id = new_thread(client)
        ((_, answer),) = ask(client, thread_id, "why?")
    assert "answered without a model: budget" in answer["notes"][0]
    state = still_store.budgets.state(f"chat:{thread_id}")
    assert (state.parent_id, state.tokens) == (budget, 50)


def test_who_may_do_what(still_store: Store, stored: Stored) -> None:
    with api(still_store) as client:
        thread_id = new_thread(client)
        viewer = header(still_store, Role.VIEWER, "eve")
        assert client.get(f"/threads/{thread_id}", headers=viewer).status_code == 200
        for path, body in (
            ("/threads", {}),
            (f"/threads/{thread_id}/exchanges", {"question": "stop"}),
            (f"/threads/{thread_id}/stop", None),
        ):
            assert client.post(path, json=body, headers=viewer).status_code == 403
        bob = header(still_store, Role.REVIEWER, "bob")
        assert client.delete(f"/threads/{thread_id}", headers=bob).status_code == 403
        assert (
            client.delete(f"/threads/{thread_id}", headers=header(still_store, Role.ADMIN, "root")).status_code == 200
        )
        assert client.post("/threads", json={"run_id": "run-99"}).status_code == 404
        assert client.post("/threads/nothing/exchanges", json={"question": "why?"}).status_code == 404
        other = new_thread(client)
        ((kind, problem),) = ask(client, other, "x" * 5000)
        assert (kind, problem["type"]) == ("error", "urn:lathe:UserInputError")
