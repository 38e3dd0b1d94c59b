"""Shortened contexts keep every evidence id; circles are noticed. Shows RM2-7.8 and RM2-7.25."""

from __future__ import annotations

import pytest
from doors import NewDoor, openai_model
from scripted_server import ScriptedServer, Turn

from agents.llm import ContextPlan, Conversation, DoorConfig, Relief, RepeatDetector, Stall, ToolCall, system, user
from agents.llm.errors import ContextTooLong
from agents.llm.messages import Message, Speaker, tool_result
from agents.llm.relief import evidence_ids

SERIES = "series:run-7/max_vio%2Flayers.5#180..195"
COMMIT = "commit:3f2a9cdd"


def long_conversation() -> Conversation:
    call = ToolCall(id="c", name="look", arguments="{}")
    asked = Message(speaker=Speaker.ASSISTANT, tool_calls=(call,), text="looking")
    turns = [user("why?"), asked, tool_result(call, f"it departs [{SERIES}] after [{COMMIT}]. " + "filler " * 400)]
    return Conversation(messages=(system("be careful"), *turns, *turns, user("and now?")))


@pytest.mark.parametrize("relief", list(Relief))
def test_relief_keeps_the_evidence_and_the_kept_conversation(new_door: NewDoor, relief: Relief) -> None:
    plan = ContextPlan(max_tokens=1500, fill=0.6, relief=relief, keep_last=3)
    turns = ([Turn(text=f"A departure, see {SERIES} and {COMMIT}77.")] if relief is Relief.SUMMARISE else []) + [
        Turn(text="ok")
    ]
    with ScriptedServer(turns) as server:
        door = new_door(openai_model(server), config=DoorConfig(context=plan))
        before = long_conversation()
        after = door.ask(before)
    assert after.messages[:-1] == before.messages
    sent = server.requests[-1]["messages"]
    assert sent[0]["content"] == "be careful"
    assert {SERIES, COMMIT} <= set(evidence_ids(sent[1]["content"]))  # a longer id that begins like one is another
    roles = [each["role"] for each in sent]
    assert all(roles[i - 1] in ("assistant", "tool") for i, role in enumerate(roles) if role == "tool")
    assert f"context relief ({relief})" in door.notes[0]
    assert Conversation.load(after.dump()) == after


TOO_LONG = Turn(status=400, message="This model's maximum context length is 900 tokens. Please reduce the length.")


def test_a_conversation_that_a_model_calls_too_long_is_shortened_and_asked_again(new_door: NewDoor) -> None:
    """The plan thinks of a larger context than the model has."""
    with ScriptedServer([TOO_LONG, Turn(text="ok")]) as server:
        door = new_door(openai_model(server))
        after = door.ask(long_conversation())
    assert after.messages[-1].text == "ok"
    assert after.messages[:-1] == long_conversation().messages
    sent = server.requests[1]["messages"]
    assert {SERIES, COMMIT} <= set(evidence_ids(str(sent)))
    assert len(str(sent)) < len(str(server.requests[0]["messages"])) / 2
    assert "context relief (drop)" in door.notes[0]


def test_shortening_is_bounded_and_then_said(new_door: NewDoor) -> None:
    with ScriptedServer(lambda body: TOO_LONG) as server:
        with pytest.raises(ContextTooLong, match="maximum context length"):
            new_door(openai_model(server)).ask(long_conversation())
        assert len(server.requests) <= 3


def test_what_is_to_be_summed_up_may_be_too_long_itself(new_door: NewDoor) -> None:
    plan = ContextPlan(max_tokens=1500, fill=0.6, keep_last=3)
    with ScriptedServer([TOO_LONG, Turn(text="ok")]) as server:
        door = new_door(openai_model(server), config=DoorConfig(context=plan))
        assert door.ask(long_conversation()).messages[-1].text == "ok"
    assert {SERIES, COMMIT} <= set(evidence_ids(str(server.requests[1]["messages"])))


def test_evidence_ids_are_found_as_they_stand() -> None:
    text = f"see [{SERIES}], (negative:4); and config:run-7/moe.balance_coef. Not http://x.test or a:b"
    assert evidence_ids(text) == (SERIES, "negative:4", "config:run-7/moe.balance_coef")


def test_circles_are_noticed_and_polling_is_not() -> None:
    detector = RepeatDetector()
    assert [detector.observe("look", '{"a": 1, "b": 2}', "x", ["run:1"]) for _ in range(2)] == [None, None]
    assert detector.observe("look", '{"b": 2, "a": 1}', "x") is Stall.REPEAT
    cycle = RepeatDetector()
    found = [cycle.observe("look", f'{{"a": {i % 2}}}', "same", [f"run:{i}"]) for i in range(6)]
    assert found == [None] * 5 + [Stall.CYCLE]
    polling = RepeatDetector()
    assert {polling.observe("status", "{}", f"step {i}", [f"run:1#{i}"]) for i in range(20)} == {None}
    idle = RepeatDetector(patience=4)
    assert [idle.observe("search", f'{{"text": "{i}"}}', "nothing") for i in range(4)][-1] is Stall.NO_PROGRESS
