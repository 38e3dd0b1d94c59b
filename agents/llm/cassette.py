"""Record a model's answers once, replay them offline: each answer belongs to the hash of exactly what was asked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from agents.llm.messages import Message, ThinkingStyle, dump, load, to_wire
from agents.llm.protocol import Delta, DeltaKind, Model, ModelRequest, OnDelta, Price, Reply, Usage, ignore
from contracts.errors import LogFormatError, UserInputError

_STYLES = frozenset(ThinkingStyle)


def request_hash(request: ModelRequest) -> str:
    """Of messages, tools and the answer's limit."""
    tools = [[each.name, each.description, each.arguments.model_json_schema()] for each in request.tools]
    content = [[to_wire(message) for message in request.messages], tools, request.max_tokens]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Recorder:
    """A model that writes down what another one answers, one JSON line a call. Failures are not recorded."""

    def __init__(self, model: Model, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def price(self) -> Price | None:
        return self._model.price

    @property
    def carries(self) -> frozenset[ThinkingStyle]:
        return self._model.carries

    def complete(self, request: ModelRequest, on_delta: OnDelta = ignore) -> Reply:
        reply = self._model.complete(request, on_delta)
        line = {
            "request": request_hash(request),
            "message": dump((reply.message,)),
            "usage": asdict(reply.usage),
            "finish_reason": reply.finish_reason,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return reply


class Cassette:
    """A model that gives recorded answers again, in the order in which they were given. It costs nothing."""

    def __init__(self, path: Path) -> None:
        """Raises LogFormatError for a file that is no cassette."""
        self._path = path
        self._lines = [_parse(line, f"{path}:{n}") for n, line in enumerate(path.read_text().splitlines(), start=1)]
        self._next = 0

    @property
    def name(self) -> str:
        return self._lines[0][1].message.model if self._lines else "cassette"

    @property
    def price(self) -> Price | None:
        return Price(prompt_usd=0.0, completion_usd=0.0)

    @property
    def carries(self) -> frozenset[ThinkingStyle]:
        return _STYLES

    def complete(self, request: ModelRequest, on_delta: OnDelta = ignore) -> Reply:
        """Raises UserInputError when something else is asked than was recorded."""
        if self._next >= len(self._lines):
            raise self._differs("has no further answer")
        wanted, reply = self._lines[self._next]
        if wanted != request_hash(request):
            raise self._differs("was recorded for another request")
        self._next += 1
        message: Message = reply.message
        on_delta(Delta(kind=DeltaKind.TEXT, text=message.text))
        return reply

    def _differs(self, what: str) -> UserInputError:
        return UserInputError(
            f"{self._path}, call {self._next + 1}: the cassette {what}", remedy="record it again with the model"
        )


def _parse(line: str, where: str) -> tuple[str, Reply]:
    try:
        fields = json.loads(line)
        (message,) = load(fields["message"])
        reply = Reply(message=message, usage=Usage(**fields["usage"]), finish_reason=fields["finish_reason"])
        return fields["request"], reply
    except (ValueError, KeyError, TypeError) as error:
        raise LogFormatError(f"{where}: not a recorded answer ({error})", remedy="record the cassette again") from error
