"""Which workers of this LATHE_HOME live: each holds a lock on a file of its own, which ends with it however it dies.

So what a killed worker had in hand goes on at once; a worker on another machine is waited for until its lease ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote


class Presence:
    """The files in `folder`; their names are those of the workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """`name` is alive until the end."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        draft = path.with_suffix(".new")  # the file appears under its name with its lock held
        file = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            draft.replace(path)
            yield
            path.unlink(missing_ok=True)
        finally:
            os.close(file)

    def gone(self) -> list[str]:
        """Those that ended without a word."""
        return [unquote(path.stem) for path in self._folder.glob("*.alive") if _is_free(path)]

    def forget(self, names: list[str]) -> None:
        """They are known to be gone, and what they had in hand is given to others."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.alive"


def _is_free(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
