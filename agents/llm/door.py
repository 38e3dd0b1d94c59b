"""The door to language models: every call goes through `Door.ask`.

Before a call its tokens, money and seconds are reserved. A model that is busy or broke off is asked again with growing
waits, then the next model of the list is; one that refuses (no key, no such model) is not asked again. Wrong tool calls
are answered with what is wrong, a bounded number of times.
What a reader should know (waits, fallbacks, lost thinking, shortened context) is said through `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from agents.llm.accounting import Account, Budget, counted, estimated_tokens, money, upper_estimate
from agents.llm.conversation import ContextPlan, Conversation, Relief, ThinkingMode
from agents.llm.errors import AnswerStopped, ContextTooLong, ModelBusy, ModelConfused, ModelRefused, ModelUnavailable
from agents.llm.loss import after, carried, lost
from agents.llm.messages import Message, ToolCall, json_object, tool_result
from agents.llm.protocol import Delta, DeltaKind, Model, ModelRequest, OnDelta, Reply, ToolSpec, ignore
from agents.llm.relief import relieve
from context_store.records import Amount


@dataclass(frozen=True, kw_only=True)
class DoorConfig:
    """`attempts` a model, with waits of `first_wait_s`, doubled each time, or what the provider asks for, up to
    `max_wait_s`. `malformed_attempts`: answers with wrong tool calls in a row before the door gives up;
    `context_attempts`: how often a conversation that a model calls too long is shortened to half."""

    attempts: int = 4
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    malformed_attempts: int = 3
    context_attempts: int = 2
    max_tokens: int = 4096
    timeout_s: float = 120.0
    thinking: ThinkingMode = ThinkingMode.INTERLEAVED
    context: ContextPlan = field(default_factory=ContextPlan)


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What the door takes from outside: monotonic seconds, waiting, fresh ids for reservations."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    new_id: Callable[[], str]


class Door:
    """One conversation at a time. `models`: the first is asked, the others stand by."""

    def __init__(
        self, models: Sequence[Model], budget: Budget, outside: Outside, config: DoorConfig | None = None
    ) -> None:
        self._models = tuple(models)
        self._budget = budget
        self._outside = outside
        self._config = config or DoorConfig()
        self.account = Account()
        self.notes: list[str] = []

    @property
    def model_name(self) -> str:
        return self._models[0].name

    def ask(
        self, conversation: Conversation, tools: Sequence[ToolSpec] = (), on_delta: OnDelta = ignore
    ) -> Conversation:
        """The conversation with the model's answer, whose tool calls are sound, as its last message.

        Raises BudgetExceeded, ContextTooLong, ModelConfused after too many wrong tool calls, and what the last model
        raised when none answered.
        """
        config = self._config
        for _ in range(config.malformed_attempts):
            conversation, reply = self._answered(conversation, tuple(tools), on_delta)
            wrong = {call.id: why for call in reply.message.tool_calls if (why := what_is_wrong(call, tools))}
            if not wrong:
                return conversation
            self.notes.append(f"{reply.message.model} called a tool wrongly: {'; '.join(wrong.values())}")
            answers = [
                wrong.get(call.id, "not carried out: another call was wrong") for call in reply.message.tool_calls
            ]
            calls = zip(reply.message.tool_calls, answers, strict=True)
            conversation = conversation.plus(*(tool_result(call, f"error: {answer}") for call, answer in calls))
        raise ModelConfused(
            f"{self.model_name} called tools wrongly {config.malformed_attempts} times in a row",
            remedy="ask again in other words, or set a model that can call tools",
        )

    def _answered(
        self, conversation: Conversation, tools: tuple[ToolSpec, ...], on_delta: OnDelta
    ) -> tuple[Conversation, Reply]:
        """One more answer. A model that says that the conversation is too long is shown less of it, so many times."""
        mode, plan = self._config.thinking, self._config.context
        conversation = self._make_room(conversation, plan)
        for left in range(self._config.context_attempts, -1, -1):
            view = conversation.view(mode)
            try:
                request, reply = self._call(view, tools, on_delta)
            except ContextTooLong:
                shorter = self._make_room(conversation, plan.tighter(_count(view)))
                if not left or shorter is conversation:
                    raise
                conversation = shorter
                continue
            self._say(lost(conversation.last_call, request, reply))
            if reply.finish_reason == "length":
                self._say(f"{reply.message.model} was cut off: an answer may have {request.max_tokens} tokens")
            return replace(conversation.plus(reply.message), last_call=after(request, reply)), reply
        raise AssertionError("the last attempt answers or raises")

    def _make_room(self, conversation: Conversation, plan: ContextPlan) -> Conversation:
        mode = self._config.thinking
        try:
            relieved = relieve(conversation, plan, mode, _count, self._sum_up)
        except ContextTooLong:  # also what was to be summed up does not fit
            plan = replace(plan, relief=Relief.DROP)
            relieved = relieve(conversation, plan, mode, _count, self._sum_up)
        if relieved is not conversation:
            gone = relieved.num_covered - conversation.num_covered
            self.notes.append(f"context relief ({plan.relief}): {gone} messages are shown shortened")
        return relieved

    def _sum_up(self, messages: tuple[Message, ...]) -> str:
        return self._call(messages, (), ignore)[1].message.text

    def _call(
        self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...], on_delta: OnDelta
    ) -> tuple[ModelRequest, Reply]:
        """The first model that answers, and what it was asked."""
        for number, model in enumerate(self._models, start=1):
            shown, said = carried(messages, model.carries, model.name)
            self._say(said)
            request = ModelRequest(
                messages=shown, tools=tools, max_tokens=self._config.max_tokens, timeout_s=self._config.timeout_s
            )
            try:
                reply = self._persist(model, request, on_delta)
            except (ModelUnavailable, ModelRefused) as error:
                if number == len(self._models):
                    raise
                on_delta(Delta(kind=DeltaKind.RESTART, text=""))
                self._say(f"{error.message}; asking {self._models[number].name} instead")
                continue
            return request, reply
        raise AssertionError("a door has at least one model")

    def _persist(self, model: Model, request: ModelRequest, on_delta: OnDelta) -> Reply:
        """Ask one model until it answers or its attempts are used up."""
        config, wait_s = self._config, self._config.first_wait_s
        for attempt in range(1, config.attempts + 1):
            try:
                return self._paid(model, request, on_delta)
            except ModelUnavailable as error:
                asked = error.retry_after_s if isinstance(error, ModelBusy) else None
                pause = wait_s if asked is None else asked
                if attempt == config.attempts or pause > config.max_wait_s:
                    raise
                on_delta(Delta(kind=DeltaKind.RESTART, text=""))
                self._outside.sleep(pause)
                wait_s = min(2 * wait_s, config.max_wait_s)
        raise AssertionError("a model has at least one attempt")

    def _paid(self, model: Model, request: ModelRequest, on_delta: OnDelta) -> Reply:
        """One call. One that broke off or was stopped is billed by most providers: it counts with its prompt."""
        key = f"llm:{self._outside.new_id()}"
        self._budget.reserve(key, upper_estimate(model, request))
        start = self._outside.clock()
        spent = Amount()
        try:
            reply = model.complete(request, on_delta)
            prompt, completion = counted(reply.usage, request, reply)
            spent = Amount(tokens=prompt + completion, usd=money(model.price, prompt, completion))
            wall_s = self._outside.clock() - start
            self.account = self.account.plus(model, reply.usage, request, reply, wall_s)
            return reply
        except (ModelUnavailable, AnswerStopped) as error:
            self.account = replace(self.account, failed_calls=self.account.failed_calls + 1)
            if not isinstance(error, ModelBusy):
                prompt = estimated_tokens(request.messages)
                spent = Amount(tokens=prompt, usd=money(model.price, prompt, 0))
            raise
        finally:
            self._budget.settle(key, replace(spent, wall_s=self._outside.clock() - start))

    def _say(self, note: str) -> None:
        if note and note not in self.notes:
            self.notes.append(note)


def _count(messages: Iterable[Message]) -> int:
    return estimated_tokens(tuple(messages))


def what_is_wrong(call: ToolCall, tools: Sequence[ToolSpec]) -> str:
    """One sentence for the model, "" when the call is sound."""
    spec = next((each for each in tools if each.name == call.name), None)
    if spec is None:
        return f"there is no tool '{call.name}'; there are: {', '.join(each.name for each in tools) or 'none'}"
    value = json_object(call.arguments)
    if value is None:
        return f"the arguments of {call.name} are no JSON object"
    try:
        spec.arguments.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        return f"{call.name}: {where}: {first['msg']}"
    return ""
