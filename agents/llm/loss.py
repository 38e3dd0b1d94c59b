"""Notices that thinking did not reach the model again (RM2-7.4), and says so in one sentence.

Two ways are seen. The adapter cannot carry a style of thinking, for instance after a fallback to another provider: then
it is left out on purpose. Or the provider takes it and drops it: the prompt of the next call then counts fewer tokens
than the last prompt and the last answer together. The last call is kept in the conversation, so a new turn of a thread
is compared with the one before it, whatever process asked that. A provider that reports no usage cannot be watched so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from agents.llm.conversation import LastCall
from agents.llm.messages import Message, ThinkingStyle, dump
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


def after(request: ModelRequest, reply: Reply) -> LastCall:
    """What the next call of the conversation is compared with."""
    reported = reply.usage.thinking_tokens
    return LastCall(
        model=reply.message.model,
        num_shown=len(request.messages),
        shown_hash=_hash((*request.messages, reply.message)),
        prompt_tokens=reply.usage.prompt_tokens,
        completion_tokens=reply.usage.completion_tokens,
        thinking_tokens=reply.message.num_thinking_characters // _CHARACTERS_A_TOKEN if reported is None else reported,
    )


def lost(last: LastCall | None, request: ModelRequest, reply: Reply) -> str:
    """What is to be said after a call; "" when no thinking of the last one was lost or nobody can tell."""
    if last is None or last.model != reply.message.model or not _goes_on(last, request):
        return ""
    before, answered, now = last.prompt_tokens, last.completion_tokens, reply.usage.prompt_tokens
    if last.thinking_tokens < _NOTABLE_TOKENS or before is None or answered is None or now is None:
        return ""
    if before + answered - now <= last.thinking_tokens / 2:
        return ""
    return (
        f"{reply.message.model} does not give earlier thinking back to the model: "
        f"{before} + {answered} tokens of the last turn became a prompt of {now}"
    )


def _goes_on(last: LastCall, request: ModelRequest) -> bool:
    """Whether `request` is the last one with its answer and more."""
    known = request.messages[: last.num_shown + 1]
    return len(known) == last.num_shown + 1 and _hash(known) == last.shown_hash


def _hash(messages: tuple[Message, ...]) -> str:
    return hashlib.sha256(dump(messages).encode()).hexdigest()
