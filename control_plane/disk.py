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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"no space left for {place}", remedy="free some space and try again; nothing stored is lost"
            ) from error
        raise EnvironmentFault(
            f"{error.filename or place}: {error.strerror or error}",
            remedy="correct the path or its permissions and try again; nothing stored is lost",
        ) from error
