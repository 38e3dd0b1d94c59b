"""What calls cost: reserved before each call, settled after it, summed up with what is not known kept apart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

from agents.llm.messages import Message, to_wire
from agents.llm.protocol import Model, ModelRequest, Price, Reply, Usage
from context_store import Store
from context_store.records import Amount
from contracts.errors import BudgetExceeded

_BYTES_A_TOKEN = 4  # typical of English text and code
_FEWEST_BYTES_A_TOKEN = 2  # for reservations: the densest text that is usual


class Budget(Protocol):
    """Where tokens, money and seconds come from."""

    def reserve(self, key: str, amount: Amount) -> None:
        """Before spending. Raises BudgetExceeded when it does not fit; then nothing is reserved."""
        ...

    def settle(self, key: str, amount: Amount) -> None:
        """Replace the reservation by what was really spent."""
        ...


class StoreBudget:
    """A budget of the store; several processes may spend from it.

    `timed` False: its wall seconds are kept by somebody else, as those of a case are by its runner.
    """

    def __init__(self, store: Store, budget_id: str, *, timed: bool = True) -> None:
        self._budgets = store.budgets
        self._budget_id = budget_id
        self._timed = timed

    def reserve(self, key: str, amount: Amount) -> None:
        self._budgets.reserve(self._budget_id, key, amount if self._timed else replace(amount, wall_s=0.0))

    def settle(self, key: str, amount: Amount) -> None:
        wall_s = amount.wall_s if self._timed else 0.0
        self._budgets.settle(key, tokens=amount.tokens, usd=amount.usd, wall_s=wall_s)


class DailyBudget:
    """A budget of the store for each day (UTC), opened when it is first spent from."""

    def __init__(self, store: Store, name: str, limit: Amount, clock: Callable[[], float]) -> None:
        self._budgets = store.budgets
        self._name = name
        self._limit = limit
        self._clock = clock

    def reserve(self, key: str, amount: Amount) -> None:
        budget_id = f"{self._name}:{time.strftime('%Y-%m-%d', time.gmtime(self._clock()))}"
        self._budgets.open(budget_id, self._limit)
        self._budgets.reserve(budget_id, key, amount)

    def settle(self, key: str, amount: Amount) -> None:
        self._budgets.settle(key, tokens=amount.tokens, usd=amount.usd, wall_s=amount.wall_s)


class LocalBudget:
    """A budget of this process alone, for work without a store. Safe to use from several threads."""

    def __init__(self, limit: Amount) -> None:
        self._limit = limit
        self._held: dict[str, Amount] = {}
        self._lock = Lock()

    def reserve(self, key: str, amount: Amount) -> None:
        with self._lock:
            if amount.exceeds(self.left):
                raise BudgetExceeded(f"{self.left} are left, asked for {amount}", remedy="allow more, or ask for less")
            self._held[key] = amount

    def settle(self, key: str, amount: Amount) -> None:
        with self._lock:
            self._held[key] = amount

    @property
    def left(self) -> Amount:
        left = self._limit
        for amount in self._held.values():
            left = left - amount
        return left


@dataclass(frozen=True, kw_only=True)
class Account:
    """Sums over calls. `estimated_calls`: the provider reported no usage. `unpriced_calls`: nobody knows the price."""

    calls: int = 0
    failed_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    wall_s: float = 0.0
    estimated_calls: int = 0
    unpriced_calls: int = 0

    def plus(self, model: Model, usage: Usage, request: ModelRequest, reply: Reply, wall_s: float) -> Account:
        """With one more answered call."""
        prompt, completion = counted(usage, request, reply)
        return Account(
            calls=self.calls + 1,
            failed_calls=self.failed_calls,
            prompt_tokens=self.prompt_tokens + prompt,
            completion_tokens=self.completion_tokens + completion,
            usd=self.usd + money(model.price, prompt, completion),
            wall_s=self.wall_s + wall_s,
            estimated_calls=self.estimated_calls + (usage.prompt_tokens is None or usage.completion_tokens is None),
            unpriced_calls=self.unpriced_calls + (model.price is None),
        )


def upper_estimate(model: Model, request: ModelRequest) -> Amount:
    """What a call may cost at most, by the size of what is sent; an unknown price counts as 0."""
    prompt = num_bytes(request) // _FEWEST_BYTES_A_TOKEN + 1
    usd = money(model.price, prompt, request.max_tokens)
    return Amount(tokens=prompt + request.max_tokens, usd=usd, wall_s=request.timeout_s)


def counted(usage: Usage, request: ModelRequest, reply: Reply) -> tuple[int, int]:
    """(prompt, completion) tokens as reported, else estimated from the text."""
    prompt = usage.prompt_tokens
    completion = usage.completion_tokens
    return (
        estimated_tokens(request.messages) if prompt is None else prompt,
        estimated_tokens((reply.message,)) if completion is None else completion,
    )


def estimated_tokens(messages: Sequence[Message]) -> int:
    return sum(len(json.dumps(to_wire(message), ensure_ascii=False)) for message in messages) // _BYTES_A_TOKEN


def money(price: Price | None, prompt: int, completion: int) -> float:
    return 0.0 if price is None else price.of(prompt, completion)


def num_bytes(request: ModelRequest) -> int:
    """Of everything that is sent."""
    tools = [each.arguments.model_json_schema() for each in request.tools]
    wire = [to_wire(message) for message in request.messages]
    return len(json.dumps([wire, tools], ensure_ascii=False).encode("utf-8", "surrogatepass"))
