"""Messages of a conversation with a model, thinking included, and their exact image on the wire and on disk.

Everything a model returned is kept to the byte and given back with the next turn (RM2-7.3). Three styles in which
providers carry thinking are kept apart, because each must go back the way it came (RM2-7.4):

blocks  signed thinking blocks (Anthropic): text and signature
field   a separate field of the message, `reasoning_content`
inline  a leading `<think>...</think>` inside the text; the tags and spaces around them belong to it
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from contracts.errors import LogFormatError

_INLINE = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)


class Speaker(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ThinkingStyle(StrEnum):
    BLOCKS = "blocks"
    FIELD = "field"
    INLINE = "inline"


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """One piece of thinking. `signature` and `redacted` (encrypted blocks) are the provider's and opaque."""

    text: str
    style: ThinkingStyle
    signature: str = ""
    redacted: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """What the model asked for; `arguments` is its text, which need not be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """`tool_call_id`: which call a TOOL message answers. `model`: who wrote an ASSISTANT message."""

    speaker: Speaker
    text: str = ""
    thinking: tuple[Thinking, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    model: str = ""

    def without_thinking(self) -> Message:
        return replace(self, thinking=())

    @property
    def num_thinking_characters(self) -> int:
        return sum(len(each.text) + len(each.redacted) for each in self.thinking)


def system(text: str) -> Message:
    return Message(speaker=Speaker.SYSTEM, text=text)


def user(text: str) -> Message:
    return Message(speaker=Speaker.USER, text=text)


def tool_result(call: ToolCall, text: str) -> Message:
    return Message(speaker=Speaker.TOOL, text=text, tool_call_id=call.id)


def split_inline(text: str) -> tuple[tuple[Thinking, ...], str]:
    """Leading `<think>` thinking and the rest; joined again they are `text` to the byte."""
    match = _INLINE.match(text)
    if match is None:
        return (), text
    return (Thinking(text=match[0], style=ThinkingStyle.INLINE),), text[match.end() :]


def to_wire(message: Message) -> dict[str, Any]:
    """As OpenAI's protocol has it, with litellm's `thinking_blocks` for signed ones.

    A tool call whose arguments are no JSON object goes out wrapped as `{"malformed": text}`: providers refuse others.
    """
    inline = "".join(each.text for each in message.thinking if each.style is ThinkingStyle.INLINE)
    wire: dict[str, Any] = {"role": message.speaker.value, "content": inline + message.text}
    if field := "".join(each.text for each in message.thinking if each.style is ThinkingStyle.FIELD):
        wire["reasoning_content"] = field
    if blocks := [_block(each) for each in message.thinking if each.style is ThinkingStyle.BLOCKS]:
        wire["thinking_blocks"] = blocks
    if message.tool_calls:
        wire["tool_calls"] = [_call(each) for each in message.tool_calls]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def json_object(text: str) -> dict[str, Any] | None:
    """`text` as a JSON object, None when it is not one; "" counts as the empty object."""
    try:
        value = json.loads(text or "{}")
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def dump(messages: Iterable[Message]) -> str:
    """JSON text; ASCII, so that even a broken surrogate of a model survives."""
    return json.dumps([asdict(message) for message in messages])


def load(text: str) -> tuple[Message, ...]:
    """Inverse of `dump`. Raises LogFormatError."""
    try:
        return tuple(_message(each) for each in json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise LogFormatError(
            f"not a stored conversation: {error}", remedy="begin a new conversation; the old text is left as it is"
        ) from error


def _block(thinking: Thinking) -> dict[str, str]:
    if thinking.redacted:
        return {"type": "redacted_thinking", "data": thinking.redacted}
    return {"type": "thinking", "thinking": thinking.text, "signature": thinking.signature}


def _call(call: ToolCall) -> dict[str, Any]:
    sound = json_object(call.arguments) is not None
    arguments = (call.arguments or "{}") if sound else json.dumps({"malformed": call.arguments})
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _message(fields: Mapping[str, Any]) -> Message:
    thinking = tuple(Thinking(**{**each, "style": ThinkingStyle(each["style"])}) for each in fields["thinking"])
    calls = tuple(ToolCall(**each) for each in fields["tool_calls"])
    return Message(**{**fields, "speaker": Speaker(fields["speaker"]), "thinking": thinking, "tool_calls": calls})
