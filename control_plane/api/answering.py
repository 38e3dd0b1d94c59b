"""Answers on their way: each is made in a thread of its own and handed to one reader, who may stop it.

Several API processes may serve the same chats. Whoever answers in a thread of chat holds the lock of a file that all of
them see; whoever wants it stopped writes into that file. The kernel drops the lock of a process that dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from agents.chat import Answer
from agents.chat.threads import as_object
from agents.llm import Delta, DeltaKind
from agents.llm.errors import AnswerStopped
from agents.llm.protocol import OnDelta
from contracts.errors import LatheError, UserInputError

_log = structlog.get_logger(__name__)
_MAX_AT_ONCE = 16  # in each process
_LOOK_S = 0.2
_LAST = frozenset({"answer", "stopped", "error"})


@dataclass(frozen=True, kw_only=True)
class Piece:
    """`event`: draft, restart, and as the last one answer, stopped or error. `data`: JSON values."""

    event: str
    data: dict[str, Any]


class OneAnswer:
    """Make it on the event loop that reads it. `asked_to_stop` looks whether somebody wants it stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._stopped = threading.Event()
        self.asked_to_stop: Callable[[], bool] = lambda: False

    def watch(self, delta: Delta) -> None:
        """What a model writes, as a draft: it is checked when it is whole. Raises AnswerStopped."""
        if self._stopped.is_set() or self.asked_to_stop():
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
            try:
                piece = await asyncio.wait_for(self._pieces.get(), _LOOK_S)
            except TimeoutError:
                if self.asked_to_stop():
                    self.stop()
                continue
            yield piece
            if piece.event in _LAST:
                return

    def _put(self, piece: Piece) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


class Answering:
    """At most one answer a thread of chat, and a bounded number in all. Safe to use from several threads.

    `folder` is that of all processes that answer; without one this process is alone.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = None if folder else TemporaryDirectory(prefix="lathe-")
        self._folder = folder or Path(self._own.name if self._own else "")
        self._places = threading.Semaphore(_MAX_AT_ONCE)

    def begin(self, thread_id: str, one: OneAnswer, answer: Callable[[OnDelta], Answer]) -> None:
        """Start to make it. Raises UserInputError when the thread, or everybody together, has to wait."""
        if not self._places.acquire(blocking=False):
            raise UserInputError(f"{_MAX_AT_ONCE} answers are under way", remedy="wait a moment and ask again")
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path(thread_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _is_taken(lock):
            os.close(lock)
            self._places.release()
            raise UserInputError("this thread is being answered", remedy="wait for the answer, or stop it")
        os.ftruncate(lock, 0)
        one.asked_to_stop = lambda: os.stat(self._path(thread_id)).st_size > 0
        threading.Thread(target=self._run, args=(lock, one, answer), name=thread_id, daemon=True).start()

    def stop(self, thread_id: str) -> bool:
        """True when there was something to stop."""
        try:
            lock = os.open(self._path(thread_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if _is_taken(lock):  # nobody was at it; closing gives it back
                return False
            os.write(lock, b"stop")
            return True
        finally:
            os.close(lock)

    def _path(self, thread_id: str) -> Path:
        return self._folder / hashlib.sha256(thread_id.encode()).hexdigest()[:32]

    def _run(self, lock: int, one: OneAnswer, answer: Callable[[OnDelta], Answer]) -> None:
        try:
            one.make(answer)
        finally:
            os.close(lock)
            self._places.release()


def _is_taken(lock: int) -> bool:
    """The lock of an open file, if nobody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _problem(kind: str, detail: str, remedy: str) -> dict[str, Any]:
    return {"type": f"urn:lathe:{kind}", "detail": detail, "remedy": remedy}
