"""What one episode may spend. Pinned with the evaluator: no scaffold can move it."""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_CHARS = 3500  # what the brain can read at once; a longer view is an error, as with a real model
TEMPERATURES = (0.05, 2.0)
BRAIN = "scripted-1"  # the model id; another one is another experiment


@dataclass(kw_only=True)
class Spending:
    """Counted by the supervisor, which the scaffold cannot reach. `wall_s` only bounds faults."""

    asks: int = 8
    tool_calls: int = 80
    chars: int = 24_000  # of views, all together: the price of tokens
    wall_s: float = 90.0

    def may_ask(self) -> bool:
        return self.asks > 0 and self.chars > 0

    def asked(self, num_chars: int) -> None:
        self.asks -= 1
        self.chars -= num_chars

    def may_call(self) -> bool:
        return self.tool_calls > 0

    def called(self) -> None:
        self.tool_calls -= 1
