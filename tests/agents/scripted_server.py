"""A real HTTP server that speaks the OpenAI and the Anthropic chat protocol from a script, on loopback.

`ScriptedServer(script)` answers each request with the next `Turn`, or with what the script (a function of the request)
returns. It streams when asked to, counts tokens as words of what really arrived, and can misbehave: malformed tool
calls, slow answers, status codes with Retry-After, missing usage, connections dropped in the middle of an answer, and
thinking of earlier turns that is thrown away. As Anthropic does, it answers 400 where thinking is asked for and the
open tool call came back without its own.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = dict[str, Any]
_NEEDS_THINKING = (
    "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` "
    "message must start with a thinking block."
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call; `arguments` is sent as it stands, also when it is no JSON."""

    name: str
    arguments: str
    id: str = "call-1"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer. `status` other than 200 is an error; `drop_after` closes the connection after so many pieces."""

    text: str = ""
    thinking: str = ""
    signature: str = ""  # of thinking blocks (Anthropic)
    blocks: tuple[Json, ...] = ()  # further thinking blocks (Anthropic), whole: signed or redacted
    calls: tuple[Call, ...] = ()
    status: int = 200
    retry_after_s: float | None = None
    message: str = "scripted failure"
    usage: bool = True
    delay_s: float = 0.0
    pace_s: float = 0.0  # between pieces
    drop_after: int | None = None
    reasoning_key: str = "reasoning_content"
    finish_reason: str = ""  # "" for what the answer is: stop or tool calls (OpenAI)


Script = Callable[[Json], Turn]


class _QuietServer(ThreadingHTTPServer):
    """Says nothing about clients that were killed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ScriptedServer:
    """Use it as a context manager. `requests` and `headers` arrived in this order."""

    def __init__(self, script: Sequence[Turn] | Script, *, forgets_thinking: bool = False) -> None:
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.forgets_thinking = forgets_thinking
        self.given_up = threading.Event()  # a client went away in the middle of an answer
        self._turns = None if callable(script) else list(script)
        self._script = script if callable(script) else None
        self._lock = threading.Lock()
        self._server = _QuietServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Without a trailing path: OpenAI clients append `/v1`, Anthropic's `/v1/messages`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_turn(self, body: Json) -> Turn:
        with self._lock:
            self.requests.append(body)
            if self._script is not None:
                return self._script(body)
            assert self._turns is not None
            return self._turns.pop(0) if self._turns else Turn(status=500, message="the script is over")

    def prompt_tokens(self, body: Json) -> int:
        """Words of everything that arrived, thinking too unless this provider forgets it."""
        return sum(_words(message, forgets=self.forgets_thinking) for message in body["messages"])


def _words(value: Any, *, forgets: bool) -> int:
    match value:
        case str():
            return len(value.split())
        case Mapping():
            skipped = ("reasoning_content", "thinking_blocks", "thinking", "signature") if forgets else ("signature",)
            return sum(_words(each, forgets=forgets) for key, each in value.items() if key not in skipped)
        case list():
            return sum(_words(each, forgets=forgets) for each in value)
    return 0


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _completion_tokens(turn: Turn) -> int:
    return sum(len(part.split()) for part in (turn.text, turn.thinking, *(call.arguments for call in turn.calls)))


def _openai_usage(turn: Turn, prompt: int) -> Json:
    done = _completion_tokens(turn)
    details = {"reasoning_tokens": len(turn.thinking.split())}
    return {
        "prompt_tokens": prompt, "completion_tokens": done, "total_tokens": prompt + done,
        "completion_tokens_details": details,
    }  # fmt: skip


def _openai_deltas(turn: Turn) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(turn.thinking):
        yield {turn.reasoning_key: piece}
    for piece in _pieces(turn.text):
        yield {"content": piece}
    for index, call in enumerate(turn.calls):
        head = {"index": index, "id": call.id, "type": "function"}
        yield {"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]}
        for piece in _pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _openai_stream(turn: Turn, body: Json, prompt: int) -> Iterator[bytes]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    for delta in _openai_deltas(turn):
        yield _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
    yield _sse({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if turn.usage:
        yield _sse({**base, "choices": [], "usage": _openai_usage(turn, prompt)})
    yield b"data: [DONE]\n\n"


def _openai_whole(turn: Turn, body: Json, prompt: int) -> Json:
    calls = [
        {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
        for each in turn.calls
    ]
    message: Json = {"role": "assistant", "content": turn.text}
    message |= ({"tool_calls": calls} if calls else {}) | ({turn.reasoning_key: turn.thinking} if turn.thinking else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
    return whole | ({"usage": _openai_usage(turn, prompt)} if turn.usage else {})


def _anthropic_blocks(turn: Turn) -> Iterator[tuple[Json, list[Json]]]:
    """Each block as it starts, and its deltas."""
    if turn.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(turn.thinking)]
        signed: list[Json] = [{"type": "signature_delta", "signature": turn.signature}]
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas + signed
    for each in turn.blocks:
        if each["type"] == "redacted_thinking":
            yield each, []
            continue
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(each["thinking"])]
        signed = [{"type": "signature_delta", "signature": each["signature"]}]
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas + signed
    if turn.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(turn.text)]
    for call in turn.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(call.arguments)]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas


def _anthropic_stream(turn: Turn, body: Json, prompt: int) -> Iterator[bytes]:
    start = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": body["model"],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": prompt, "output_tokens": 1},
    }  # fmt: skip
    yield _event({"type": "message_start", "message": start})
    for index, (block, deltas) in enumerate(_anthropic_blocks(turn)):
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    reason = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": reason, "usage": {"output_tokens": _completion_tokens(turn)}})
    yield _event({"type": "message_stop"})


def _lacks_thinking(body: Json) -> bool:
    """Anthropic refuses to think on in a loop of tool calls whose last answer came back without its thinking."""
    if body.get("thinking", {}).get("type") != "enabled" or body["messages"][-1]["role"] != "user":
        return False
    answers = body["messages"][-1]["content"]
    is_open = isinstance(answers, list) and any(each["type"] == "tool_result" for each in answers)
    return is_open and body["messages"][-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


def _sse(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _event(value: Json) -> bytes:
    return f"event: {value['type']}\n".encode() + _sse(value)


def _handler(owner: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing: tests read `requests` instead."""

        def do_POST(self) -> None:
            body: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            owner.headers.append({name.lower(): value for name, value in self.headers.items()})
            turn = owner.next_turn(body)
            time.sleep(turn.delay_s)
            try:
                self._answer(turn, body)
            except (BrokenPipeError, ConnectionResetError):  # the client gave up
                owner.given_up.set()
                self.close_connection = True

        def _answer(self, turn: Turn, body: Json) -> None:
            if self.path.endswith("/messages") and _lacks_thinking(body):
                turn = Turn(status=400, message=_NEEDS_THINKING)
            if turn.status != 200:
                self._whole({"error": {"message": turn.message, "type": "scripted"}}, turn)
                return
            prompt = owner.prompt_tokens(body)
            if self.path.endswith("/messages"):
                self._stream(_anthropic_stream(turn, body, prompt), turn)
            elif body.get("stream"):
                self._stream(_openai_stream(turn, body, prompt), turn)
            else:
                self._whole(_openai_whole(turn, body, prompt), turn)

        def _whole(self, value: Json, turn: Turn) -> None:
            data = json.dumps(value).encode()
            self.send_response(turn.status)
            if turn.retry_after_s is not None:
                self.send_header("Retry-After", f"{turn.retry_after_s:g}")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, pieces: Iterator[bytes], turn: Turn) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number, piece in enumerate(pieces):
                if turn.drop_after is not None and number >= turn.drop_after:
                    self.close_connection = True
                    self.connection.close()
                    return
                time.sleep(turn.pace_s)
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

    return Handler
