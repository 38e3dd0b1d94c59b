"""Vectors from a real OpenAI-compatible server on loopback, and errors as ours."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from agents.llm.accounting import DailyBudget, LocalBudget
from agents.llm.embeddings import LiteLLMEmbedder
from agents.llm.errors import ModelUnavailable
from context_store import Store
from context_store.embedding import DIMENSIONS
from context_store.records import Amount
from contracts.errors import BudgetExceeded

ASKED: list[list[str]] = []


def new_id() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: str(next(numbers))


class _Embeddings(BaseHTTPRequestHandler):
    """Answers /embeddings in reverse order with vectors of 8 numbers; `break` in a text breaks the answer."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        ASKED.append(texts)
        if "break" in texts:
            self.send_error(500)
            return
        vectors = [[float(len(text)), *[1.0] * 7] for text in texts]
        rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "model": "m", "data": rows[::-1], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def api_base() -> Iterator[str]:
    ASKED.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Embeddings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_texts_become_unit_rows_in_their_order(api_base: str) -> None:
    budget = LocalBudget(Amount(tokens=10_000))
    embedder = LiteLLMEmbedder("openai/any-model", budget, new_id(), api_base)
    vectors = embedder.embed([f"text {'x' * i}" for i in range(70)])
    assert vectors.shape == (70, DIMENSIONS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert (np.diff(vectors[:, 0]) > 0).all(), "the longer the text, the larger its first number"
    assert [len(texts) for texts in ASKED] == [64, 6]
    assert embedder.embed([]).shape == (0, DIMENSIONS)
    assert budget.left.tokens == 10_000 - 2, "as the server said, a token a batch"


def test_a_batch_that_does_not_fit_into_the_budget_is_not_sent(api_base: str) -> None:
    embedder = LiteLLMEmbedder("openai/any-model", LocalBudget(Amount(tokens=50)), new_id(), api_base)
    with pytest.raises(BudgetExceeded):
        embedder.embed(["x" * 200])
    assert not ASKED


def test_a_day_has_a_budget_of_its_own(store: Store) -> None:
    now = [0.0]
    budget = DailyBudget(store, "embeddings", Amount(tokens=100), lambda: now[0])
    budget.reserve("k1", Amount(tokens=80))
    with pytest.raises(BudgetExceeded):
        budget.reserve("k2", Amount(tokens=80))
    now[0] += 86_400.0
    budget.reserve("k2", Amount(tokens=80))
    budget.settle("k2", Amount(tokens=5))
    assert store.budgets.state("embeddings:1970-01-02").tokens_used == 5


def test_a_server_that_fails_is_said_to_fail(api_base: str) -> None:
    with pytest.raises(ModelUnavailable, match="any-model did not answer"):
        LiteLLMEmbedder("openai/any-model", LocalBudget(Amount(tokens=100)), new_id(), api_base).embed(["break"])
