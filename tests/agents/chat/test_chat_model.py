"""Chat with a model: it uses the tools, and what it cannot show is taken out. The server and the graph are real."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from doors import NewDoor, openai_model
from langgraph.checkpoint.memory import InMemorySaver
from scripted_server import Call, ScriptedServer, Turn

from agents.chat import RULES, CardKind, Chat, ChatContext, ChatLimits, ModelChat, Retrieval, Threads
from agents.chat.claims import Seen, check
from agents.llm import DoorConfig, LocalBudget
from agents.tools import READING, Toolbox
from agents.tools.protocol import ToolResult, row
from benchmarks.agent_parts.stored_case import CASE, NOW, RUN, Stored
from context_store import Store
from context_store.records import Amount
from contracts.evidence import EvidenceRef

WHERE = ChatContext(run_id=RUN, thread_id="t")
LOOK = Call(name="case_file", arguments=json.dumps({"investigation_id": CASE}))
NewChat = Callable[..., Chat]


@pytest.fixture
def new_chat(still_store: Store, stored: Stored, new_door: NewDoor) -> NewChat:
    saver = InMemorySaver()

    def make(server: ScriptedServer, *, limits: ChatLimits | None = None, **door: Any) -> Chat:
        toolbox = Toolbox(still_store, READING)
        model = ModelChat(new_door(openai_model(server), **door), toolbox, saver, limits)
        return Chat(Retrieval(still_store, toolbox), Threads(still_store), "ada", lambda: NOW, model)

    return make


def test_the_model_reads_and_its_sound_claims_stay(new_chat: NewChat, stored: Stored) -> None:
    text = (
        f"The balance commit causes it, proven for this run [verdict:{stored.verdict_id}]. "
        "I have a feeling that the optimizer is odd. "
        f"The anomaly begins at steps 41-44 [anomaly:{stored.anomaly_id}]. "
        f"It begins at step 17 [anomaly:{stored.anomaly_id}]. "
        "See also [verdict:999]."
    )
    with ScriptedServer([Turn(thinking="hm", calls=(LOOK,)), Turn(text=text)]) as server:
        answer = new_chat(server).answer("why does max_vio depart?", WHERE)
    assert [statement.text[:20] for statement in answer.statements] == ["The balance commit c", "The anomaly begins a"]
    assert (answer.removed, answer.claimed) == (3, 5)
    assert answer.removed_share == pytest.approx(0.6)
    assert answer.brain == "openai/scripted"
    assert "17 does not stand in what it cites" in "\n".join(answer.notes)
    assert server.requests[1]["messages"][-1]["content"].startswith("Data from the store")
    assert server.requests[1]["messages"][-2]["reasoning_content"] == "hm"
    plot = next(card for card in answer.cards if card.kind is CardKind.SERIES)
    assert (plot.detail["name"], plot.detail["onset"]) == ("max_vio/layers.1", [41, 44])
    assert 40 in {marker["step"] for marker in plot.detail["markers"]}
    assert {CardKind.CASE, CardKind.PROPOSAL} <= {card.kind for card in answer.cards}


def test_points_that_a_model_cites_are_drawn(new_chat: NewChat) -> None:
    look = Call(name="series_window", arguments=json.dumps({"run_id": RUN, "name": "loss", "lo": 30, "hi": 31}))

    def script(body: dict[str, Any]) -> Turn:
        if body["messages"][-1]["role"] != "tool":
            return Turn(calls=(look,))
        cited = re.search(r"\[series:[^\]]+\]", body["messages"][-1]["content"])
        assert cited is not None
        return Turn(text=f"The loss of {RUN} is 3.7 at step 30 {cited[0]}.")

    with ScriptedServer(script) as server:
        answer = new_chat(server).answer("what is the loss at step 30?", WHERE)
    (plot,) = answer.cards
    assert plot.detail["name"] == "loss"
    assert "resumed" in str(plot.detail["markers"])


def test_a_plan_and_what_came_of_it_stand_before_the_next_step(new_chat: NewChat, stored: Stored) -> None:
    """Plan, act, reflect: the rules ask for it, and the next step sees plan, action and observation. Shows RM2-7.5."""
    plan, claim = "I expect a verdict on the balance commit.", f"It causes it [verdict:{stored.verdict_id}]."
    with ScriptedServer([Turn(text=plan, calls=(LOOK,)), Turn(text=claim)]) as server:
        new_chat(server).answer("why?", WHERE)
    rules, _, planned, observed = server.requests[1]["messages"]
    assert "what you expect" in rules["content"]
    assert "compare" in rules["content"]
    assert planned["content"] == plan
    assert planned["tool_calls"]
    assert observed["content"].startswith("Data from the store")


def test_a_thread_goes_on_and_remembers_what_was_seen(new_chat: NewChat, stored: Stored) -> None:
    claim = f"The balance commit causes it [verdict:{stored.verdict_id}]."
    with ScriptedServer([Turn(calls=(LOOK,)), Turn(text=claim), Turn(text=claim)]) as server:
        chat = new_chat(server)
        chat.answer("why?", WHERE)
        assert chat.answer("say it again", WHERE).known
        assert len(server.requests[2]["messages"]) == 6
    with ScriptedServer([Turn(text=claim)]) as server:  # another thread has seen nothing
        other = new_chat(server).answer("status?", ChatContext(run_id=RUN, thread_id="other"))
    assert other.brain == RULES
    assert other.removed == 1


def test_a_model_that_turns_in_circles_has_to_answer(new_chat: NewChat) -> None:
    with ScriptedServer(lambda body: Turn(calls=(LOOK,)) if body.get("tools") else Turn(text="enough")) as server:
        answer = new_chat(server).answer("why?", WHERE)
    assert len(server.requests) == 4
    assert "repeating yourself" in server.requests[3]["messages"][-1]["content"]
    assert answer.brain == RULES


def test_the_number_of_calls_is_bounded(new_chat: NewChat) -> None:
    numbers = iter(range(1, 100))

    def script(body: dict[str, Any]) -> Turn:
        look = Call(name="series_window", arguments=json.dumps({"run_id": RUN, "name": "loss", "lo": next(numbers)}))
        return Turn(calls=(look,)) if body.get("tools") else Turn(text="enough")

    with ScriptedServer(script) as server:
        new_chat(server, limits=ChatLimits(max_steps=5)).answer("why?", WHERE)
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("turns", "door"),
    [
        ([Turn(status=401)], {}),
        ([], {"config": DoorConfig(attempts=1)}),
        ([Turn(text="x")], {"budget": LocalBudget(Amount(tokens=1))}),
        ([Turn(calls=(Call(name="nonsense", arguments="{"),))] * 3, {}),
        ([Turn(status=400, message="maximum context length is 10 tokens, reduce the length")] * 3, {}),
    ],
)
def test_without_a_working_model_the_rules_answer_and_say_so(
    new_chat: NewChat, turns: list[Turn], door: dict[str, Any]
) -> None:
    with ScriptedServer(list(turns)) as server:
        answer = new_chat(server, **door).answer(f"why did max_vio spike in {RUN}?", WHERE)
    assert answer.known
    assert answer.brain == RULES
    assert answer.notes[0].startswith("answered without a model: ")


def test_a_crash_between_steps_goes_on_with_the_same_question(new_chat: NewChat, stored: Stored) -> None:
    claim = f"The balance commit causes it [verdict:{stored.verdict_id}]."
    with ScriptedServer([Turn(calls=(LOOK,)), Turn(status=401)]) as server:
        assert new_chat(server).answer("why?", WHERE).brain == RULES
    with ScriptedServer([Turn(text=claim)]) as server:
        answer = new_chat(server).answer("why?", WHERE)
        assert [each["role"] for each in server.requests[0]["messages"]] == ["system", "user", "assistant", "tool"]
    assert answer.known
    with ScriptedServer([Turn(calls=(LOOK,))]) as server:  # broken off again, and another question is asked
        new_chat(server, config=DoorConfig(attempts=1)).answer("and?", WHERE)
    with ScriptedServer([Turn(text=claim)]) as server:
        assert new_chat(server).answer("what else?", WHERE).known


SERIES = EvidenceRef(kind="series", id="r/loss", slice="10..50")


@pytest.mark.parametrize(
    ("claim", "stays"),
    [
        ("The loss is 3.25 at step 20 [series:r/loss#10..50].", True),
        ("The loss is 3.25 at step 20 [series:r/loss#20..30].", True),
        ("The loss is 3.3 at step 20 [series:r/loss#10..50].", False),
        ("The loss falls [series:r/loss#10..90].", False),
        ("The loss falls [series:r/other#10..50].", False),
        ("The loss falls.", False),
        ("The loss falls [see above].", False),
        ("This is proven [series:r/loss#10..50].", False),
        ("It falls [series:r/loss#10..50, run:r].", False),
    ],
)
def test_a_claim_stays_only_with_what_says_so(claim: str, stays: bool) -> None:
    seen = Seen()
    seen.add(ToolResult(rows=(row("loss at steps 20: 3.25, 30: 3.1", SERIES),), nothing=""))
    checked = check(claim, Seen.load(seen.dump()), "what about step 20?")
    assert bool(checked.statements) is stays
    assert checked.claimed == 1
