"""Pieces of a streamed answer, put together without losing a byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents.llm.errors import ModelUnavailable
from agents.llm.messages import Message, Speaker, Thinking, ThinkingStyle, ToolCall, split_inline
from agents.llm.protocol import Delta, DeltaKind, OnDelta, Reply, Usage


@dataclass
class _Block:
    text: str = ""
    signature: str = ""
    redacted: str = ""


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Assembly:
    """Takes litellm's chunks in order. `signed`: thinking comes in blocks, which repeat the plain field."""

    model: str
    on_delta: OnDelta
    signed: bool
    _text: str = ""
    _field: str = ""
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _calls: dict[int, _Call] = field(default_factory=dict)
    _usage: Usage = field(default_factory=Usage)
    _finish_reason: str = ""

    def add(self, chunk: Any) -> None:
        if getattr(chunk, "usage", None) is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            self._finish_reason = choice.finish_reason or self._finish_reason
            self._add_thinking(choice.delta)
            if choice.delta.content:
                self._text += choice.delta.content
                self.on_delta(Delta(kind=DeltaKind.TEXT, text=choice.delta.content))
            for call in choice.delta.tool_calls or ():
                self._add_call(call)

    def reply(self) -> Reply:
        """Raises ModelUnavailable when the answer broke off."""
        if not self._finish_reason:
            raise ModelUnavailable(
                f"{self.model} broke off in the middle of an answer", remedy="try again; nothing was done with it"
            )
        inline, text = split_inline(self._text)
        message = Message(
            speaker=Speaker.ASSISTANT,
            text=text,
            thinking=(*self._thinking(), *inline),
            tool_calls=tuple(
                ToolCall(id=call.id or f"call-{index}", name=call.name, arguments=call.arguments)
                for index, call in sorted(self._calls.items())
            ),
            model=self.model,
        )
        return Reply(message=message, usage=self._usage, finish_reason=self._finish_reason)

    def _add_thinking(self, delta: Any) -> None:
        plain = getattr(delta, "reasoning_content", None) or ""
        if plain:
            self._field += plain
            self.on_delta(Delta(kind=DeltaKind.THINKING, text=plain))
        for piece in getattr(delta, "thinking_blocks", None) or ():
            block = self._blocks.setdefault(piece.get("index", 0), _Block())
            block.text += piece.get("thinking") or ""
            block.signature += piece.get("signature") or ""
            block.redacted += piece.get("data") or ""

    def _add_call(self, piece: Any) -> None:
        call = self._calls.setdefault(piece.index, _Call())
        call.id = call.id or piece.id or ""
        call.name += piece.function.name or ""
        call.arguments += piece.function.arguments or ""
        self.on_delta(Delta(kind=DeltaKind.TOOL, text=piece.function.arguments or ""))

    def _thinking(self) -> tuple[Thinking, ...]:
        if self.signed and self._blocks:
            return tuple(
                Thinking(
                    text=block.text, style=ThinkingStyle.BLOCKS, signature=block.signature, redacted=block.redacted
                )
                for _, block in sorted(self._blocks.items())
            )
        return (Thinking(text=self._field, style=ThinkingStyle.FIELD),) if self._field else ()


def _usage(reported: Any) -> Usage:
    """0 prompt tokens: nothing was reported."""
    if not reported.prompt_tokens:
        return Usage()
    details = getattr(reported, "completion_tokens_details", None)
    thinking = getattr(details, "reasoning_tokens", None)
    return Usage(
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens,
        thinking_tokens=thinking or None,
    )
