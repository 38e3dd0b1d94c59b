"""Chat in a browser over a real API, with a model behind a real HTTP server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from case_file import StoredCase, store_case
from langgraph.checkpoint.memory import InMemorySaver
from running import RunningLathe

from context_store import Store
from context_store.records import Amount
from control_plane.chat import Mind

sys.path.append(str(Path(__file__).parents[1] / "agents"))

from doors import openai_model
from scripted_server import Call, ScriptedServer, Turn

Page = Any
CASE = "asked"
_LOOK = Call(name="case_file", arguments=json.dumps({"investigation_id": CASE}))


@pytest.fixture(scope="module")
def case(served_store: Store, tmp_path_factory: pytest.TempPathFactory) -> StoredCase:
    return store_case(served_store, tmp_path_factory.mktemp("runs"), CASE)


@pytest.fixture(scope="module")
def server(served_store: Store, case: StoredCase) -> Iterator[ScriptedServer]:
    """Looks the case up and says what it holds; a question for a long answer gets one, slowly."""
    verdict = served_store.knowledge.verdicts(CASE)[0].id

    def answer(body: dict[str, Any]) -> Turn:
        last = body["messages"][-1]
        if "at length" in json.dumps(last):
            return Turn(text="word " * 1000, pace_s=0.1)
        if last["role"] != "tool":
            return Turn(calls=(_LOOK,))
        return Turn(text=f"c41d07e causes it [verdict:{verdict}]. See ![x](http://x.test/leak.png)")

    with ScriptedServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def mind(server: ScriptedServer) -> Mind:
    saver = InMemorySaver()
    budget = Amount(tokens=1_000_000, usd=100.0, wall_s=3600.0)
    return Mind(models=(openai_model(server),), checkpointer=lambda: saver, budget=budget, where=server.url)


def test_an_answer_cites_what_it_rests_on_and_an_endless_one_is_stopped(
    page: Page, lathe: RunningLathe, server: ScriptedServer
) -> None:
    """The page fixture fails on a request to a foreign address, as a picture in a draft would be."""
    page.goto(f"{lathe.url}/chat?investigation={CASE}&token={lathe.reviewer}")
    page.get_by_text(f"Ask about {CASE}").wait_for()
    box = page.get_by_test_id("stChatInputTextArea")
    box.fill("why <b>did</b> it happen?")
    box.press("Enter")
    page.locator(".lt-answer", has_text="c41d07e causes it").wait_for()
    assert "answered by openai/scripted, checked" in page.locator(".lt-answer").inner_text()
    page.get_by_text("why <b>did</b> it happen?").first.wait_for()
    assert page.locator(".lt-answer .lt-evidence").count() > 0
    box = page.get_by_label("Ask further")  # the box before it may still be there for a moment
    box.fill("tell me at length")
    box.press("Enter")
    page.get_by_text("word word word").wait_for()
    page.locator(".stMain").get_by_role("button", name="Stop").click()
    assert server.given_up.wait(15)
    page.get_by_role("button", name="Delete this thread").wait_for()
    (thread,) = lathe.store.threads.list(investigation_id=CASE)
    assert thread.num_exchanges == 1
