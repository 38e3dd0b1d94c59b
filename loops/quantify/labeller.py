"""A language model as labeller, behind a seam of one method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agents.llm import Conversation, Door, system, user


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the calls so far took. `usd` 0 where the price is unknown."""

    calls: int
    tokens: int
    usd: float
    wall_s: float


class Asker(Protocol):
    """Whoever answers a prompt. `name` goes into the labels it gives."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> Cost: ...

    def ask(self, instructions: str, text: str) -> str:
        """The answer to one text. Raises BudgetExceeded and the errors of `agents.llm.errors`."""
        ...


class DoorAsker:
    """Through the door to language models: every call reserves its tokens and money first."""

    def __init__(self, door: Door) -> None:
        self._door = door

    @property
    def name(self) -> str:
        return self._door.model_name

    @property
    def cost(self) -> Cost:
        account = self._door.account
        tokens = account.prompt_tokens + account.completion_tokens
        return Cost(calls=account.calls, tokens=tokens, usd=account.usd, wall_s=account.wall_s)

    def ask(self, instructions: str, text: str) -> str:
        begin = Conversation(messages=(system(instructions), user(text)))
        return self._door.ask(begin).messages[-1].text
