"""Any OpenAI-compatible server over real HTTP: completions, chat, echoed likelihoods, and servers that misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import EnvironmentFault, UserInputError
from loops.evals.endpoint import Endpoint
from loops.evals.model import Asked
from loops.evals.protocol import protocol
from loops.evals.run import evaluate
from loops.evals.tasks import generated

REQUESTS: list[tuple[str, dict[str, Any]]] = []


class Handler(BaseHTTPRequestHandler):
    """Echoes one token a byte; `busy` answers 429 twice first."""

    busy = 0

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        REQUESTS.append((self.path, body))
        if body["model"] == "busy" and Handler.busy < 2:
            Handler.busy += 1
            self._send(429, {"error": "later"})
        elif body["model"] == "unknown":
            self._send(404, {"error": "no such model"})
        elif self.path.endswith("chat/completions"):
            self._send(200, {"choices": [{"message": {"content": " The answer is 7. Question: more"}}]})
        elif body.get("echo") and body["model"] != "silent":
            text = body["prompt"]
            values = [None, *[-1.0 if byte == "7" else -2.0 for byte in text[1:]]]
            told = {"text_offset": list(range(len(text) + 1)), "token_logprobs": [*values, -9.0]}
            self._send(200, {"choices": [{"text": text + "x", "logprobs": told}]})
        else:
            self._send(200, {"choices": [{"text": " The answer is 7.", "finish_reason": "stop"}]})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def endpoint(base_url: str, name: str = "m", waits: list[float] | None = None) -> Endpoint:
    return Endpoint(base_url=base_url, name=name, sleep=(waits if waits is not None else []).append, lanes=2)


def test_completion_and_chat_send_the_protocol(base_url: str) -> None:
    REQUESTS.clear()
    task = generated.task("math", "add", 3)
    done = evaluate(task, protocol("8_shot_cot"), endpoint(base_url))
    assert done.unparsed == 0.0
    path, body = REQUESTS[-1]
    assert path == "/v1/completions"
    assert (body["max_tokens"], body["temperature"], body["stop"]) == (192, 0.0, ["\n\n", "Q:"])
    (said,) = endpoint(base_url).write([Asked(text="hi", chat=True, stop=("Question:",))])
    assert REQUESTS[-1][1]["messages"] == [{"role": "user", "content": "hi"}]
    assert said.stopped_by == "Question:"


def test_likelihood_counts_the_continuation_alone(base_url: str) -> None:
    found = endpoint(base_url).weigh([Asked(text="ab"), Asked(text="abc")], ["77", "x7"])
    assert [each.logprob for each in found] == [-2.0, -3.0]
    assert [each.num_tokens for each in found] == [2, 2]


def test_server_without_echo_is_told_apart_from_a_bad_score(base_url: str) -> None:
    with pytest.raises(UserInputError, match="no log-likelihoods of a given text"):
        endpoint(base_url, "silent").weigh([Asked(text="ab")], ["c"])


def test_a_first_token_without_likelihood_is_not_left_out(base_url: str) -> None:
    with pytest.raises(UserInputError, match="first token of a text"):
        endpoint(base_url).weigh([Asked(text="")], ["ab"])


def test_what_a_server_does_not_tell_is_said(base_url: str) -> None:
    done = evaluate(generated.task("math", "add", 3), protocol("8_shot_cot"), endpoint(base_url))
    assert "not_checked" in {each.kind for each in done.warnings}
    assert done.identity["settings"]["first_token"] == "server"


def test_busy_server_is_asked_again_and_a_refusal_is_not(base_url: str) -> None:
    waits: list[float] = []
    Handler.busy = 0
    assert endpoint(base_url, "busy", waits).write([Asked(text="a")])[0].text == " The answer is 7."
    assert waits == [0.5, 1.0]
    with pytest.raises(UserInputError, match="404"):
        endpoint(base_url, "unknown").write([Asked(text="a")])


def test_nobody_there_is_an_environment_fault() -> None:
    with pytest.raises(EnvironmentFault, match="did not answer in 4 attempts"):
        endpoint("http://127.0.0.1:9/v1").write([Asked(text="a")])


def test_lathe_evals_run_asks_a_server_in_both_ways(
    base_url: str, run_lathe: Callable[..., tuple[int, str, str]], new_database_url: Callable[[], str], tmp_path: Path
) -> None:
    home = {"LATHE_HOME": str(tmp_path / "home"), "LATHE_DATABASE_URL": new_database_url(), "LATHE_BACKEND": "local"}
    asked = ("evals", "run", "--endpoint", base_url, "--model", "m", "--items", 2, "--out", tmp_path, "--json")
    tasks = ("--task", "generated_add", "--task", "kinds")
    for chat, path in ((), "/v1/completions"), (("--chat",), "/v1/chat/completions"):
        REQUESTS.clear()
        status, out, error = run_lathe(home, *asked, *tasks, *chat)
        assert status == 0, error
        rows = json.loads(out)["rows"]
        assert {sent for sent, _ in REQUESTS} == {path}
        assert all(row["protocol"].endswith("_chat") == bool(chat) for row in rows)
        assert {row["task"] for row in rows} == {"generated_add", "kinds"}
        assert "was not checked" in " ".join(json.loads(out)["findings"])
    assert any("What kind of text is this" in body["messages"][0]["content"] for _, body in REQUESTS)
    status, _, error = run_lathe(home, *asked, "--chat", "--protocol", "ppl_acc_norm")
    assert status == 2
    assert "cannot be asked in a chat" in error
