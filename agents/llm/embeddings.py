"""Vectors of any embedding model that litellm knows, brought to the store's number of dimensions.

Like the door's calls, each batch is reserved before it is sent and settled after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agents.llm.accounting import Budget, money
from agents.llm.litellm_model import _NO_KEY, _has_key, _litellm, _translated
from agents.llm.protocol import Price
from context_store.embedding import DIMENSIONS, Vectors, to_dimensions
from context_store.records import Amount
from contracts.errors import LatheError

_BATCH = 64
_TIMEOUT_S = 60.0
_FEWEST_BYTES_A_TOKEN = 2  # of the densest text that is usual


class LiteLLMEmbedder:
    """`name` as litellm has it, `openai/text-embedding-3-small`; the key comes from the provider's own variable.

    `new_id` makes the keys of reservations.
    """

    def __init__(self, name: str, budget: Budget, new_id: Callable[[], str], api_base: str = "") -> None:
        self.name = name
        self._budget = budget
        self._new_id = new_id
        self._api_base = api_base

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raises BudgetExceeded, ModelBusy, ModelRefused, ModelUnavailable."""
        rows: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            rows += self._batch(texts[start : start + _BATCH])
        return to_dimensions(np.array(rows)) if rows else np.zeros((0, DIMENSIONS), np.float32)

    def _batch(self, texts: Sequence[str]) -> list[list[float]]:
        key = f"embed:{self._new_id()}"
        most = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // _FEWEST_BYTES_A_TOKEN + len(texts)
        self._budget.reserve(key, self._cost(most))
        try:
            with _translated(self.name):
                answer = _litellm().embedding(input=list(texts), **self._arguments())
        except LatheError:
            self._budget.settle(key, Amount())  # providers bill vectors, not errors
            raise
        usage = getattr(answer, "usage", None)
        self._budget.settle(key, self._cost(int(usage.prompt_tokens) if usage else most))
        return [each["embedding"] for each in sorted(answer.data, key=lambda each: int(each["index"]))]

    def _cost(self, tokens: int) -> Amount:
        """A price that nobody knows counts as 0."""
        known = _litellm().model_cost.get(self.name) or _litellm().model_cost.get(self.name.partition("/")[2]) or {}
        price = Price(prompt_usd=known.get("input_cost_per_token", 0.0), completion_usd=0.0)
        return Amount(tokens=tokens, usd=money(price, tokens, 0))

    def _arguments(self) -> dict[str, object]:
        own = {"api_base": self._api_base} if self._api_base else {}
        own |= {"api_key": _NO_KEY} if self._api_base and not _has_key(self.name) else {}
        return {"model": self.name, "timeout": _TIMEOUT_S, "max_retries": 0, "encoding_format": "float", **own}
