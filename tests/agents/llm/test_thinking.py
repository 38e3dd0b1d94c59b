"""Thinking survives to the byte: turns, tool calls, save and load, and styles. Shows RM2-7.1 to RM2-7.4 and RM2-7.7."""

from __future__ import annotations

from pathlib import Path

import pytest
from doors import NewDoor, anthropic_model, openai_model
from pydantic import BaseModel, ConfigDict
from scripted_server import Call, ScriptedServer, Turn

from agents.llm import (
    Cassette,
    Conversation,
    DoorConfig,
    Recorder,
    ThinkingMode,
    ThinkingStyle,
    ToolSpec,
    system,
    tool_result,
    user,
)
from contracts.errors import LogFormatError, UserInputError

THOUGHT = '  First:\n\tlook at <step> 180 \u2014 "why?" \\n \U0001f9ea\r\n\n'
NEVER = "no such thing"


class Nothing(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


TOOL = ToolSpec(name="look", description="looks", arguments=Nothing)
TURNS = [
    Turn(thinking=THOUGHT, text="I look.", calls=(Call(name="look", arguments="{}"),), signature="c2ln"),
    Turn(thinking="second thought " * 4, text="Found."),
    Turn(text="Bye."),
]


def talk(door_model: object, new_door: NewDoor, folder: Path, **config: ThinkingMode) -> Conversation:
    """Question, tool call, answer, next question; saved, forgotten and loaded between all turns."""
    door = new_door(door_model, config=DoorConfig(max_tokens=4000, **config))  # type: ignore[arg-type]
    file = folder / "thread.json"
    conversation = Conversation(messages=(system("You are careful."), user("Look!")))
    for step in range(3):
        conversation = door.ask(conversation, [TOOL])
        calls = conversation.messages[-1].tool_calls
        more = [tool_result(call, "seen") for call in calls] or [user("And now?")]
        conversation = conversation.plus(*more) if step < 2 else conversation
        file.write_text(conversation.dump())
        conversation = Conversation.load(file.read_text())
    return conversation


def test_a_field_of_thinking_comes_back_with_every_turn(new_door: NewDoor, tmp_path: Path) -> None:
    with ScriptedServer(list(TURNS)) as server:
        conversation = talk(openai_model(server), new_door, tmp_path)
    sent = [
        [m.get("reasoning_content", "") for m in r["messages"] if m["role"] == "assistant"] for r in server.requests
    ]
    assert sent == [[], [THOUGHT], [THOUGHT, TURNS[1].thinking]]
    assert conversation.messages[2].thinking[0].style is ThinkingStyle.FIELD


def test_signed_blocks_come_back_with_their_signatures(new_door: NewDoor, tmp_path: Path) -> None:
    with ScriptedServer(list(TURNS)) as server:
        talk(anthropic_model(server), new_door, tmp_path)
    block = {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"}
    for request in server.requests[1:]:
        answers = [each for each in request["messages"] if each["role"] == "assistant"]
        assert answers[0]["content"][0] == block
        assert answers[0]["content"][-1]["type"] == "tool_use"


def test_inline_thinking_comes_back_inside_the_text(new_door: NewDoor, tmp_path: Path) -> None:
    text = f"<think>{THOUGHT}</think>\n\nThe answer <think>is</think> 4."
    with ScriptedServer([Turn(text=text), Turn(text="b"), Turn(text="c")]) as server:
        conversation = talk(openai_model(server), new_door, tmp_path)
    assert conversation.messages[2].text == "The answer <think>is</think> 4."
    assert server.requests[1]["messages"][2]["content"] == text


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ThinkingMode.INTERLEAVED, [[], ["a"], ["a", "b"], ["a", "b", "c"]]),
        (ThinkingMode.FRONT_LOADED, [[], ["a"], ["a", ""], ["a", "", "c"]]),
        (ThinkingMode.STATELESS, [[], [""], ["", ""], ["", "", ""]]),
        (ThinkingMode.NONE, [[], [""], ["", ""], ["", "", ""]]),
    ],
)
def test_the_modes_differ_in_what_goes_back_and_not_in_what_is_kept(
    new_door: NewDoor, mode: ThinkingMode, expected: list[list[str]]
) -> None:
    call = (Call(name="look", arguments="{}"),)
    turns = [Turn(thinking="a", calls=call), Turn(thinking="b", text="1"), Turn(thinking="c", text="2"), Turn(text="3")]
    with ScriptedServer(turns) as server:
        door = new_door(openai_model(server), config=DoorConfig(thinking=mode))
        conversation = Conversation(messages=(user("one"),))
        for follow in (None, user("two"), user("three"), None):
            conversation = door.ask(conversation, [TOOL])
            made = conversation.messages[-1].tool_calls
            conversation = conversation.plus(*(tool_result(each, "ok") for each in made), *([follow] if follow else []))
    sent = [
        [m.get("reasoning_content", "") for m in r["messages"] if m["role"] == "assistant"] for r in server.requests
    ]
    assert sent == expected
    assert [t.text for m in conversation.messages for t in m.thinking] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        (ThinkingMode.INTERLEAVED, [True, True, True, True]),
        (ThinkingMode.FRONT_LOADED, [True, True, False, True]),
        (ThinkingMode.STATELESS, [True, False, False, True]),
    ],
)
def test_signed_thinking_is_asked_for_where_its_provider_allows_it(
    new_door: NewDoor, mode: ThinkingMode, asked: list[bool]
) -> None:
    """A provider of signed blocks answers 400 to thinking in a loop of tool calls whose thinking was taken out."""
    looks = [Turn(thinking=each, signature=each, calls=(Call(name="look", arguments="{}", id=each),)) for each in "ab"]
    with ScriptedServer([*looks, Turn(text="1"), Turn(text="2")]) as server:
        door = new_door(anthropic_model(server), config=DoorConfig(thinking=mode, max_tokens=4000))
        conversation = Conversation(messages=(user("one"),))
        for _ in range(3):
            conversation = door.ask(conversation, [TOOL])
            made = conversation.messages[-1].tool_calls
            conversation = conversation.plus(*(tool_result(each, "ok") for each in made))
        door.ask(conversation.plus(user("two")), [TOOL])
    assert ["thinking" in each for each in server.requests] == asked


def test_a_model_of_signed_thinking_that_stands_in_within_tool_calls_is_not_refused(new_door: NewDoor) -> None:
    looks = Turn(thinking="hm", calls=(Call(name="look", arguments="{}"),))
    with ScriptedServer([looks, Turn(status=503)]) as first, ScriptedServer([Turn(text="b")]) as second:
        door = new_door(openai_model(first), anthropic_model(second), config=DoorConfig(attempts=1, max_tokens=4000))
        asked = door.ask(Conversation(messages=(user("q"),)), [TOOL])
        answered = door.ask(asked.plus(*(tool_result(each, "ok") for each in asked.messages[-1].tool_calls)), [TOOL])
    assert answered.messages[-1].text == "b"
    assert "thinking" not in second.requests[0]


def test_several_signed_and_redacted_blocks_come_back_to_the_byte(new_door: NewDoor, tmp_path: Path) -> None:
    more = (
        {"type": "redacted_thinking", "data": "RU5D+/=="},
        {"type": "thinking", "thinking": " and\tthen ", "signature": "dHdv+/=="},
        {"type": "redacted_thinking", "data": "/+8A7bmW0Q=="},
    )
    first = Turn(thinking=THOUGHT, signature="b25l", blocks=more, calls=(Call(name="look", arguments="{}"),))
    with ScriptedServer([first, *TURNS[1:]]) as server:
        talk(anthropic_model(server), new_door, tmp_path)
    expected = [{"type": "thinking", "thinking": THOUGHT, "signature": "b25l"}, *more]
    for request in server.requests[1:]:
        answer = next(each for each in request["messages"] if each["role"] == "assistant")
        assert answer["content"][:4] == expected


def test_a_provider_that_drops_thinking_is_noticed(new_door: NewDoor, tmp_path: Path) -> None:
    long = [Turn(thinking="one thought " * 30, text="a"), Turn(text="b"), Turn(text="c")]
    with ScriptedServer(list(long), forgets_thinking=True) as server:
        door = new_door(openai_model(server))
        door.ask(door.ask(Conversation(messages=(user("q"),))).plus(user("and?")))
    assert "does not give earlier thinking back" in door.notes[0]
    with ScriptedServer(list(long)) as server:
        honest = new_door(openai_model(server))
        honest.ask(honest.ask(Conversation(messages=(user("q"),))).plus(user("and?")))
    assert honest.notes == []


def test_thinking_dropped_between_two_questions_is_noticed_by_another_process(new_door: NewDoor) -> None:
    """What the watch compares with lies in the conversation, so a door of its own for every question sees it too."""
    long = [Turn(thinking="one thought " * 30, text="a"), Turn(text="b")]
    for forgets, said in ((True, ["does not give earlier thinking back"]), (False, [])):
        with ScriptedServer(list(long), forgets_thinking=forgets) as server:
            kept = new_door(openai_model(server)).ask(Conversation(messages=(user("q"),))).dump()
            door = new_door(openai_model(server))
            door.ask(Conversation.load(kept).plus(user("and?")))
        assert len(door.notes) == len(said)
        assert all(part in note for part, note in zip(said, door.notes, strict=True))


def test_signed_thinking_is_asked_for_between_tool_calls_too(new_door: NewDoor) -> None:
    with ScriptedServer([Turn(text="a")]) as server:
        new_door(anthropic_model(server), config=DoorConfig(max_tokens=4000)).ask(
            Conversation(messages=(user("q"),)), [TOOL]
        )
    assert "interleaved-thinking" in server.headers[0]["anthropic-beta"]
    assert server.requests[0]["thinking"] == {"type": "enabled", "budget_tokens": 1024}


def test_thinking_another_kind_of_model_cannot_take_is_left_out_and_said(new_door: NewDoor) -> None:
    with ScriptedServer([Turn(thinking=THOUGHT, text="a", signature="s")]) as first:
        asked = new_door(anthropic_model(first), config=DoorConfig(max_tokens=4000)).ask(
            Conversation(messages=(user("q"),))
        )
    with ScriptedServer([Turn(text="b")]) as second:
        door = new_door(openai_model(second))
        door.ask(asked.plus(user("and?")))
    assert "cannot take back 1 thinking block" in door.notes[0]
    assert THOUGHT not in str(second.requests[0])


def test_a_cassette_replays_to_the_byte_and_refuses_another_question(new_door: NewDoor, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with ScriptedServer(list(TURNS)) as server:
        recorded = talk(Recorder(openai_model(server), tape), new_door, tmp_path)
    assert talk(Cassette(tape), new_door, tmp_path) == recorded
    with pytest.raises(UserInputError, match="another request"):
        new_door(Cassette(tape)).ask(Conversation(messages=(user(NEVER),)))  # type: ignore[arg-type]


def test_a_damaged_conversation_is_said_to_be_one() -> None:
    with pytest.raises(LogFormatError):
        Conversation.load('{"messages": "[{}]", "summary": "", "num_covered": 0}')
    broken = Conversation(messages=(user("half a surrogate \ud83e, a NUL \x00"),))
    assert Conversation.load(broken.dump()) == broken
