"""Notices that thinking did not reach the model again (RM2-7.4), and says so in one sentence.

Two ways are seen. The adapter cannot carry a style of thinking, for instance after a fallback to another provider: then
it is left out on purpose. Or the provider takes it and drops it: the prompt of the next call then counts fewer tokens
than the last prompt and the last answer together. A provider that reports no usage cannot be watched that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agents.llm.messages import Message, ThinkingStyle
from agents.llm.protocol import ModelRequest, Reply

_CHARACTERS_A_TOKEN = 4
_NOTABLE_TOKENS = 12  # less thinking than this is lost in the noise of counting


def carried(
    messages: Iterable[Message], styles: frozenset[ThinkingStyle], name: str
) -> tuple[tuple[Message, ...], str]:
    """The messages without thinking that `name` cannot take back, and what is to be said about it ("" for nothing)."""
    out, lost = [], 0
    for message in messages:
        kept = tuple(each for each in message.thinking if each.style in styles)
        lost += len(message.thinking) - len(kept)
        out.append(replace(message, thinking=kept))
    said = f"{name} cannot take back {lost} thinking block(s) of another kind of model; they were left out"
    return tuple(out), said if lost else ""


@dataclass
class ThinkingWatch:
    """Compares each call with the one before it. Use one per conversation."""

    _last: tuple[ModelRequest, Reply] | None = None

    def check(self, request: ModelRequest, reply: Reply) -> str:
        """What is to be said after this call; "" when no thinking was lost or nobody can tell."""
        last, self._last = self._last, (request, reply)
        if last is None or last[1].message.model != reply.message.model or not self._goes_on(last, request):
            return ""
        thinking = _thinking_tokens(last[1])
        before, answered, now = last[1].usage.prompt_tokens, last[1].usage.completion_tokens, reply.usage.prompt_tokens
        if thinking < _NOTABLE_TOKENS or before is None or answered is None or now is None:
            return ""
        if before + answered - now <= thinking / 2:
            return ""
        return (
            f"{reply.message.model} does not give earlier thinking back to the model: "
            f"{before} + {answered} tokens of the last turn became a prompt of {now}"
        )

    @staticmethod
    def _goes_on(last: tuple[ModelRequest, Reply], request: ModelRequest) -> bool:
        """Whether `request` is the last one with its answer and more."""
        known = (*last[0].messages, last[1].message)
        return len(request.messages) > len(known) - 1 and request.messages[: len(known)] == known


def _thinking_tokens(reply: Reply) -> int:
    reported = reply.usage.thinking_tokens
    return reported if reported is not None else reply.message.num_thinking_characters // _CHARACTERS_A_TOKEN
