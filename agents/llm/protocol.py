"""The seam to a language model: one method. Implementations: `LiteLLMModel`, `Recorder` and `Cassette`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel

from agents.llm.messages import Message, ThinkingStyle


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model sees it. `arguments` forbids what it does not name."""

    name: str
    description: str
    arguments: type[BaseModel]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """`max_tokens`: of the answer, thinking included. `timeout_s`: until the last byte."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 4096
    timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens as the provider counts them; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    thinking_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    message: Message
    usage: Usage
    finish_reason: str


class DeltaKind(StrEnum):
    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"  # a piece of a tool call's arguments
    RESTART = "restart"  # the answer broke off: what came so far is void


@dataclass(frozen=True, kw_only=True)
class Delta:
    """A piece of an answer as it arrives."""

    kind: DeltaKind
    text: str


OnDelta = Callable[[Delta], None]


def ignore(delta: Delta) -> None:
    """Nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per token. A server of one's own costs 0 and says so."""

    prompt_usd: float
    completion_usd: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return self.prompt_usd * prompt_tokens + self.completion_usd * completion_tokens


class Model(Protocol):
    """`price` None: unknown. `carries`: the styles of thinking that reach the model again when they are sent back."""

    @property
    def name(self) -> str: ...

    @property
    def price(self) -> Price | None: ...

    @property
    def carries(self) -> frozenset[ThinkingStyle]: ...

    def complete(self, request: ModelRequest, on_delta: OnDelta = ignore) -> Reply:
        """One whole answer, streamed to `on_delta` meanwhile. Raises the errors of `agents.llm.errors`."""
        ...
