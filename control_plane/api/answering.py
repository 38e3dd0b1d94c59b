"""Answers on their way: each is made in a thread of its own and handed to one reader, who may stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from agents.chat import Answer
from agents.chat.threads import as_object
from agents.llm import Delta, DeltaKind
from agents.llm.errors import AnswerStopped
from agents.llm.protocol import OnDelta
from contracts.errors import LatheError, UserInputError

_log = structlog.get_logger(__name__)
_MAX_AT_ONCE = 16
_LAST = frozenset({"answer", "stopped", "error"})


@dataclass(frozen=True, kw_only=True)
class Piece:
    """`event`: draft, restart, and as the last one answer, stopped or error. `data`: JSON values."""

    event: str
    data: dict[str, Any]


class OneAnswer:
    """Make it on the event loop that reads it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._stopped = threading.Event()

    def watch(self, delta: Delta) -> None:
        """What a model writes, as a draft: it is checked when it is whole. Raises AnswerStopped."""
        if self._stopped.is_set():
            raise AnswerStopped()
        if delta.kind is DeltaKind.TEXT:
            self._put(Piece(event="draft", data={"text": delta.text}))
        elif delta.kind is DeltaKind.RESTART:
            self._put(Piece(event="restart", data={}))

    def make(self, answer: Callable[[OnDelta], Answer]) -> None:
        """Runs in a thread; whatever happens, a last piece is handed over."""
        try:
            last = Piece(event="answer", data=as_object(answer(self.watch)))
        except AnswerStopped:
            last = Piece(event="stopped", data={})
        except LatheError as error:
            last = Piece(event="error", data=_problem(type(error).__name__, error.message, error.remedy))
        except Exception as error:
            _log.error("defect", exc_info=error)
            last = Piece(event="error", data=_problem("Defect", "a defect of Lathe", "see the log of the API"))
        self._put(last)

    def stop(self) -> None:
        """Nobody waits any longer; the model is let go at its next word."""
        self._stopped.set()
        self._put(Piece(event="stopped", data={}))

    async def pieces(self) -> AsyncIterator[Piece]:
        """Up to the last one."""
        while True:
            piece = await self._pieces.get()
            yield piece
            if piece.event in _LAST:
                return

    def _put(self, piece: Piece) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


class Answering:
    """At most one answer a thread of chat, and a bounded number in all. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, OneAnswer] = {}

    def begin(self, thread_id: str, one: OneAnswer, answer: Callable[[OnDelta], Answer]) -> None:
        """Start to make it. Raises UserInputError when the thread, or everybody together, has to wait."""
        with self._lock:
            if thread_id in self._under_way:
                raise UserInputError("this thread is being answered", remedy="wait for the answer, or stop it")
            if len(self._under_way) >= _MAX_AT_ONCE:
                raise UserInputError(f"{_MAX_AT_ONCE} answers are under way", remedy="wait a moment and ask again")
            self._under_way[thread_id] = one
        threading.Thread(target=self._run, args=(thread_id, one, answer), name=thread_id, daemon=True).start()

    def stop(self, thread_id: str) -> bool:
        """True when there was something to stop."""
        with self._lock:
            one = self._under_way.get(thread_id)
        if one is not None:
            one.stop()
        return one is not None

    def _run(self, thread_id: str, one: OneAnswer, answer: Callable[[OnDelta], Answer]) -> None:
        try:
            one.make(answer)
        finally:
            with self._lock:
                del self._under_way[thread_id]


def _problem(kind: str, detail: str, remedy: str) -> dict[str, Any]:
    return {"type": f"urn:lathe:{kind}", "detail": detail, "remedy": remedy}
