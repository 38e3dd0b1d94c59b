"""Reading a stream that may be silent for long, so that a person can stop it at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from queue import Empty, Queue
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.3
_Read = tuple[T | None, Exception | None]


def attended(pieces: Iterator[T], stop: Callable[[], object]) -> Generator[T | None]:
    """The pieces as they come, and None every `POLL_S` without one: that is when Streamlit notices a click.

    `stop` is called when the reader leaves before the end; it has to end `pieces`. Raises what `pieces` raises.
    """
    found: Queue[_Read[T]] = Queue()
    threading.Thread(target=_read, args=(pieces, found), daemon=True).start()
    ended = False
    try:
        while not ended:
            try:
                piece, error = found.get(timeout=POLL_S)
            except Empty:
                yield None
                continue
            ended = piece is None
            if error is not None:
                raise error
            if piece is not None:
                yield piece
    finally:
        if not ended:
            stop()


def _read(pieces: Iterator[T], found: Queue[_Read[T]]) -> None:
    """Runs in a thread; the last thing put is (None, the error if there was one)."""
    try:
        for piece in pieces:
            found.put((piece, None))
    except Exception as error:  # it is raised again where somebody can act
        found.put((None, error))
    else:
        found.put((None, None))
