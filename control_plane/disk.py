"""File errors in words: what the person can repair."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.errors import DiskFull, EnvironmentFault


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """Turn an OSError of the block into DiskFull or EnvironmentFault about `place`."""
    try:
        yield
    except OSError as error:
        raise in_words(error, str(place)) from error


def in_words(error: OSError, place: str) -> EnvironmentFault:
    """DiskFull when no space is left, else an EnvironmentFault that names the file, or `place`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for {place}", remedy="free some space and try again; nothing stored is lost")
    return EnvironmentFault(
        f"{error.filename or place}: {error.strerror or error}",
        remedy="correct the path or its permissions and try again; nothing stored is lost",
    )
