"""What a mechanism may do; each method does nothing by default. One file a mechanism in mechanisms/."""

from __future__ import annotations

from typing import Any

Message = dict[str, str]
Action = dict[str, Any]


class Mechanism:
    """`desk` gives tools without asking the brain; `params` are those of params.json."""

    def __init__(self, params: dict[str, Any], desk: Any) -> None:
        self.params, self.desk = params, desk

    def opening(self) -> list[str]:
        """Texts before the first ask."""
        return []

    def view(self, messages: list[Message], fixed: int) -> list[Message]:
        """What the brain sees; the first `fixed` messages are prompt, skills and task."""
        return messages

    def instead(self, action: Action) -> str | None:
        """An answer in place of the tool's."""
        return None

    def after(self, action: Action, text: str) -> str:
        """The tool's answer as it is remembered."""
        return text
