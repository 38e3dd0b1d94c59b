"""The scaffold's side of an episode: ask the brain, use tools. Everything it costs is counted on the other side."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any


class Over(Exception):
    """The budget is spent, or the work was submitted: nothing more is answered."""


class Desk:
    """`task`: the words of the task. `left`: asks left after the last answer."""

    def __init__(self, connection: socket.socket, task: str) -> None:
        self._file = connection.makefile("rw", encoding="utf-8")
        self.task = task
        self.left = 0

    def ask(self, view: Sequence[Mapping[str, str]], tools: Sequence[str], temperature: float) -> dict[str, Any]:
        """The brain's action {"tool", "args"}, or {"error": reason} which costs an ask all the same. Raises Over."""
        messages = [{"role": str(each["role"]), "text": str(each["text"])} for each in view]
        answer = self._answer({"op": "ask", "view": messages, "tools": list(tools), "temperature": temperature})
        self.left = int(answer.pop("left"))
        return answer

    def tool(self, name: str, args: Mapping[str, Any]) -> str:
        """The tool's answer as text. Raises Over."""
        return str(self._answer({"op": "tool", "name": name, "args": dict(args)})["text"])

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._file.write(json.dumps(request) + "\n")
            self._file.flush()
            line = self._file.readline()
        except OSError as error:
            raise Over("the episode has ended") from error
        answer: dict[str, Any] = json.loads(line) if line else {"over": "the episode has ended"}
        if "over" in answer:
            raise Over(answer["over"])
        return answer
