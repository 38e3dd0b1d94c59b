"""What keeping its thinking should bring a model, as numbers: less asked twice, and getting on after a surprise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.tools import READING, Tool, Toolbox, ToolResult
from context_store import Store


class Watched(Toolbox):
    """A toolbox that counts what a model calls it with, question by question."""

    def __init__(self, store: Store, tools: Sequence[Tool] = READING) -> None:
        super().__init__(store, tools)
        self._questions: list[list[tuple[str, bool]]] = [[]]

    def begin(self) -> None:
        """A new question."""
        self._questions.append([])

    def try_call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        found = super().try_call(name, arguments)
        self._questions[-1].append((f"{name} {json.dumps(arguments, sort_keys=True)}", bool(found.rows)))
        return found

    @property
    def benefits(self) -> Mapping[str, float]:
        """`calls_per_question`; `repeated_share` of calls made before in the same question (sample efficiency);
        `recovered_share` of calls that found nothing and were followed by one that did (self-correction; 1.0 of none).
        """
        asked = [each for each in self._questions if each]
        num_calls = sum(map(len, asked))
        repeated = sum(len(each) - len({call for call, _ in each}) for each in asked)
        empty = [
            any(found for _, found in each[i + 1 :]) for each in asked for i, call in enumerate(each) if not call[1]
        ]
        return {
            "calls_per_question": num_calls / max(1, len(asked)),
            "repeated_share": repeated / max(1, num_calls),
            "recovered_share": sum(empty) / len(empty) if empty else 1.0,
        }
