"""The door: waits, falls back, recovers, reserves and accounts. Servers and litellm are real."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from doors import CHEAP, PLENTY, NewDoor, openai_model
from pydantic import BaseModel, ConfigDict
from scripted_server import Call, ScriptedServer, Turn

from agents.llm import Conversation, Delta, DeltaKind, DoorConfig, LocalBudget, StoreBudget, ToolSpec, user
from agents.llm.errors import ContextTooLong, ModelBusy, ModelConfused, ModelRefused, ModelUnavailable
from context_store import Store
from context_store.records import Amount
from contracts.errors import BudgetExceeded

ASK = Conversation(messages=(user("what changed before step 180?"),))


class Steps(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    step: int


TIMELINE = ToolSpec(name="timeline", description="what changed", arguments=Steps)
SOUND = Call(name="timeline", arguments='{"run": "r", "step": 180}')


def test_an_answer_is_streamed_and_counted(new_door: NewDoor) -> None:
    pieces: list[Delta] = []
    with ScriptedServer([Turn(text="a commit, it seems", thinking="let me see")]) as server:
        door = new_door(openai_model(server))
        answer = door.ask(ASK, on_delta=pieces.append).messages[-1]
    assert answer.text == "a commit, it seems"
    assert "".join(each.text for each in pieces if each.kind is DeltaKind.TEXT) == answer.text
    assert "".join(each.text for each in pieces if each.kind is DeltaKind.THINKING) == "let me see"
    account = door.account
    assert (account.calls, account.prompt_tokens, account.completion_tokens) == (1, 6, 7)
    assert account.usd == pytest.approx(CHEAP.of(6, 7))
    assert (account.estimated_calls, account.unpriced_calls) == (0, 0)


def test_missing_usage_is_estimated_and_said_so(new_door: NewDoor) -> None:
    with ScriptedServer([Turn(text="four words are here", usage=False)]) as server:
        door = new_door(openai_model(server))
        door.ask(ASK)
    assert door.account.estimated_calls == 1
    assert door.account.prompt_tokens > 0
    assert door.account.completion_tokens > 0


def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(new_door: NewDoor, waits: list[float]) -> None:
    with ScriptedServer([Turn(status=429, retry_after_s=7), Turn(status=503), Turn(text="now")]) as server:
        door = new_door(openai_model(server))
        assert door.ask(ASK).messages[-1].text == "now"
    assert waits == [7.0, 1.0]
    assert door.account.failed_calls == 2


def test_a_wait_that_is_too_long_is_not_waited(new_door: NewDoor, waits: list[float]) -> None:
    with ScriptedServer([Turn(status=429, retry_after_s=900)]) as server, pytest.raises(ModelBusy):
        new_door(openai_model(server)).ask(ASK)
    assert waits == []


@pytest.mark.parametrize("drop", [Turn(text="this breaks off in the middle", drop_after=3), Turn(status=500)])
def test_a_dropped_answer_is_asked_again_and_the_pieces_are_void(new_door: NewDoor, drop: Turn) -> None:
    pieces: list[Delta] = []
    with ScriptedServer([drop, Turn(text="whole")]) as server:
        answer = new_door(openai_model(server)).ask(ASK, on_delta=pieces.append).messages[-1]
    assert answer.text == "whole"
    last = max(i for i, each in enumerate(pieces) if each.kind is DeltaKind.RESTART)
    assert "".join(each.text for each in pieces[last + 1 :]) == "whole"


def test_a_slow_server_is_left_and_the_next_model_answers(new_door: NewDoor) -> None:
    config = DoorConfig(attempts=1, timeout_s=1.0)
    with ScriptedServer([Turn(text="late", delay_s=3)]) as slow, ScriptedServer([Turn(text="here")]) as other:
        door = new_door(openai_model(slow, "slow"), openai_model(other, "other"), config=config)
        answer = door.ask(ASK).messages[-1]
    assert (answer.text, answer.model) == ("here", "openai/other")
    assert "asking openai/other instead" in door.notes[0]


@pytest.mark.parametrize("status", [401, 404])
def test_a_model_that_refuses_is_left_for_the_next(new_door: NewDoor, status: int) -> None:
    with ScriptedServer([Turn(status=status)]) as first, ScriptedServer([Turn(text="here")]) as other:
        door = new_door(openai_model(first, "first"), openai_model(other, "other"))
        assert door.ask(ASK).messages[-1].model == "openai/other"
    assert len(first.requests) == 1
    assert "asking openai/other instead" in door.notes[0]


def test_an_answer_that_was_cut_off_is_said_to_be(new_door: NewDoor) -> None:
    with ScriptedServer([Turn(text="the cause is", finish_reason="length")]) as server:
        door = new_door(openai_model(server), config=DoorConfig(max_tokens=50))
        assert door.ask(ASK).messages[-1].text == "the cause is"
    assert door.notes == ["openai/scripted was cut off: an answer may have 50 tokens"]


def test_when_nobody_answers_the_last_error_says_the_remedy(new_door: NewDoor) -> None:
    with ScriptedServer([]) as server, pytest.raises(ModelUnavailable, match="LATHE_API_BASE"):
        new_door(openai_model(server), config=DoorConfig(attempts=2)).ask(ASK)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (Turn(status=401, message="bad key"), ModelRefused),
        (Turn(status=404, message="no such model"), ModelRefused),
        (Turn(status=400, message="This model's maximum context length is 10 tokens"), ContextTooLong),
    ],
)
def test_what_cannot_help_is_not_tried_again(new_door: NewDoor, turn: Turn, error: type[Exception]) -> None:
    with ScriptedServer([turn]) as server, pytest.raises(error):
        new_door(openai_model(server)).ask(ASK)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        Call(name="timeline", arguments='{"run": "r", "st'),
        Call(name="timeline", arguments='{"run": "r"}'),
        Call(name="timeline", arguments='{"run": "r", "step": 1, "approve": true}'),
        Call(name="approve", arguments="{}"),
        Call(name="timeline", arguments="[1]"),
    ],
)
def test_a_wrong_tool_call_is_explained_and_mended(new_door: NewDoor, wrong: Call) -> None:
    with ScriptedServer([Turn(calls=(wrong,)), Turn(calls=(SOUND,))]) as server:
        done = new_door(openai_model(server)).ask(ASK, [TIMELINE])
    assert done.messages[-1].tool_calls[0].arguments == SOUND.arguments
    assert done.messages[1].tool_calls[0].arguments == wrong.arguments  # kept as it came
    assert server.requests[1]["messages"][-1]["content"].startswith("error: ")


def test_recovery_is_bounded_and_paid(new_door: NewDoor) -> None:
    wrong = Turn(calls=(Call(name="timeline", arguments="{{{"),))
    with ScriptedServer([wrong] * 9) as server:
        door = new_door(openai_model(server))
        with pytest.raises(ModelConfused):
            door.ask(ASK, [TIMELINE])
    assert len(server.requests) == door.account.calls == 3


def test_nothing_is_sent_that_was_not_reserved(new_door: NewDoor) -> None:
    budget = LocalBudget(Amount(tokens=100, usd=100.0, wall_s=1000.0))
    with ScriptedServer([Turn(text="x")]) as server:
        with pytest.raises(BudgetExceeded):
            new_door(openai_model(server), budget=budget).ask(ASK)
        assert server.requests == []


@pytest.fixture(params=["store", "local"])
def limited(
    request: pytest.FixtureRequest,
) -> Callable[[Amount], tuple[StoreBudget | LocalBudget, Callable[[], Amount]]]:
    """Makes a budget, and says what is left in it: both implementations behave alike."""

    def make(amount: Amount) -> tuple[StoreBudget | LocalBudget, Callable[[], Amount]]:
        if request.param == "local":
            local = LocalBudget(amount)
            return local, lambda: local.left
        store: Store = request.getfixturevalue("store")
        store.budgets.open("chat", amount)
        return StoreBudget(store, "chat"), lambda: store.budgets.state("chat").left

    return make


def test_reservations_become_what_was_spent(
    new_door: NewDoor, limited: Callable[..., tuple[LocalBudget, Callable[[], Amount]]]
) -> None:
    budget, left = limited(PLENTY)
    with ScriptedServer([Turn(text="two words")]) as server:
        door = new_door(openai_model(server), budget=budget)
        door.ask(ASK)
    assert PLENTY.tokens - left().tokens == door.account.prompt_tokens + door.account.completion_tokens == 8
    assert PLENTY.usd - left().usd == pytest.approx(door.account.usd)
    assert 0 < PLENTY.wall_s - left().wall_s < 60


def test_an_overspent_budget_stops_the_next_call(
    new_door: NewDoor, limited: Callable[..., tuple[LocalBudget, Callable[[], Amount]]]
) -> None:
    config = DoorConfig(max_tokens=50)
    budget, _ = limited(Amount(tokens=160, usd=10.0, wall_s=1000.0))
    with ScriptedServer([Turn(text="word " * 40)] * 5) as server:
        door = new_door(openai_model(server), budget=budget, config=config)
        door.ask(ASK)
        door.ask(ASK)
        with pytest.raises(BudgetExceeded):
            door.ask(ASK)
        assert len(server.requests) == 2
