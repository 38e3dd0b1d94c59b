"""A conversation as it is kept, and as a model is shown it.

Kept is everything, to the byte (RM2-7.3). Shown is a view: the thinking mode (RM2-7.2) decides which thinking goes
back, and relief (RM2-7.8) may stand for the oldest part. Both are declared, so a report can name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from agents.llm.messages import Message, Speaker, dump, load, user
from contracts.errors import LogFormatError


class ThinkingMode(StrEnum):
    """How an agent thinks."""

    INTERLEAVED = "interleaved"  # before every action, and all of it stays in view
    FRONT_LOADED = "front_loaded"  # before the first action of a question only; that stays in view
    STATELESS = "stateless"  # before every action, but earlier thinking is taken out
    NONE = "none"  # none goes back; whether the model thinks at all is its own configuration


class Relief(StrEnum):
    """What happens when the conversation grows towards the model's context."""

    SUMMARISE = "summarise"  # the model sums up the oldest part; evidence ids survive
    DROP = "drop"  # all answers and tool results go, as RM2-7.8 has it; evidence ids survive


@dataclass(frozen=True, kw_only=True)
class ContextPlan:
    """Relief begins when the view fills `fill` of the `max_tokens` of the model's context."""

    max_tokens: int = 128_000
    fill: float = 0.6
    relief: Relief = Relief.SUMMARISE
    keep_last: int = 6  # so many of the newest messages are never relieved

    @property
    def limit_tokens(self) -> int:
        return int(self.max_tokens * self.fill)

    def tighter(self, tokens: int) -> ContextPlan:
        """For a view of so many tokens that a model could not take: half of it may be shown, and nobody is asked."""
        return replace(self, max_tokens=tokens // 2, fill=1.0, relief=Relief.DROP, keep_last=1)


@dataclass(frozen=True, kw_only=True)
class LastCall:
    """What the newest call was and cost, by which the next one shows whether its thinking came back (`loss`).

    `shown_hash`: of the `num_shown` messages that were sent and the answer. Tokens as the provider counted them, None
    where it does not say; those of thinking are estimated then.
    """

    model: str
    num_shown: int
    shown_hash: str
    prompt_tokens: int | None
    completion_tokens: int | None
    thinking_tokens: int


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Grows only. `summary` stands for the first `num_covered` messages after the system message, in views alone."""

    messages: tuple[Message, ...] = ()
    summary: str = ""
    num_covered: int = 0
    last_call: LastCall | None = None

    def plus(self, *messages: Message) -> Conversation:
        return replace(self, messages=(*self.messages, *messages))

    def relieved(self, summary: str, num_covered: int) -> Conversation:
        return replace(self, summary=summary, num_covered=num_covered)

    @property
    def head(self) -> tuple[Message, ...]:
        """The system messages at the start."""
        length = next((i for i, m in enumerate(self.messages) if m.speaker is not Speaker.SYSTEM), len(self.messages))
        return self.messages[:length]

    @property
    def body(self) -> tuple[Message, ...]:
        return self.messages[len(self.head) :]

    def view(self, mode: ThinkingMode) -> tuple[Message, ...]:
        """What a model is shown."""
        told = (user(self.summary),) if self.summary else ()
        return (*self.head, *told, *_thinking(self.body[self.num_covered :], mode))

    def dump(self) -> str:
        """JSON text, from which `load` makes the same conversation to the byte."""
        return json.dumps({**asdict(replace(self, messages=())), "messages": dump(self.messages)})

    @classmethod
    def load(cls, text: str) -> Conversation:
        """Raises LogFormatError."""
        try:
            fields = json.loads(text)
            return cls(**{**fields, "messages": load(fields["messages"]), "last_call": _last_call(fields)})
        except (ValueError, TypeError, KeyError) as error:
            raise LogFormatError(f"not a stored conversation: {error}", remedy="begin a new conversation") from error


def _last_call(fields: Mapping[str, Any]) -> LastCall | None:
    return LastCall(**known) if (known := fields.get("last_call")) else None


def _thinking(messages: tuple[Message, ...], mode: ThinkingMode) -> tuple[Message, ...]:
    if mode is ThinkingMode.INTERLEAVED:
        return messages
    if mode is ThinkingMode.FRONT_LOADED:
        return tuple(m if i == _first_answer(messages, i) else m.without_thinking() for i, m in enumerate(messages))
    return tuple(message.without_thinking() for message in messages)


def _first_answer(messages: tuple[Message, ...], index: int) -> int:
    """Position of the first answer to the question before `index`; what is no answer stands for itself."""
    if messages[index].speaker is not Speaker.ASSISTANT:
        return index
    asked = max((i for i in range(index) if messages[i].speaker is Speaker.USER), default=-1)
    return next(i for i in range(asked + 1, index + 1) if messages[i].speaker is Speaker.ASSISTANT)
