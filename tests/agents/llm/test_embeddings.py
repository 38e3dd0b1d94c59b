"""Vectors from a real OpenAI-compatible server on loopback, and errors as ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from agents.llm.embeddings import LiteLLMEmbedder
from agents.llm.errors import ModelUnavailable
from context_store.embedding import DIMENSIONS

ASKED: list[list[str]] = []


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
    embedder = LiteLLMEmbedder("openai/any-model", api_base)
    vectors = embedder.embed([f"text {'x' * i}" for i in range(70)])
    assert vectors.shape == (70, DIMENSIONS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert (np.diff(vectors[:, 0]) > 0).all(), "the longer the text, the larger its first number"
    assert [len(texts) for texts in ASKED] == [64, 6]
    assert embedder.embed([]).shape == (0, DIMENSIONS)


def test_a_server_that_fails_is_said_to_fail(api_base: str) -> None:
    with pytest.raises(ModelUnavailable, match="any-model did not answer"):
        LiteLLMEmbedder("openai/any-model", api_base).embed(["break"])
