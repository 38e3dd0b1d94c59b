"""A command's standard streams: the head of what it prints, and an input that it cannot change."""

from __future__ import annotations

import fcntl
import os
import selectors
from dataclasses import dataclass, field

_BLOCK_BYTES = 1 << 16
_MAX_PIPE_BYTES = 1 << 20  # the most a pipe holds
_ALL_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(kw_only=True)
class Capture:
    """The head of one output stream."""

    descriptor: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def read(self) -> bool:
        """Takes what is there; False at end of file."""
        try:
            block = os.read(self.descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            return True
        room = self.limit - len(self.data)
        self.data += block[:room]
        self.truncated |= len(block) > room
        return bool(block)

    def drain(self) -> None:
        """Takes what a pipe still holds when the command is over; a writer that should be dead cannot hold us up."""
        for _ in range(_MAX_PIPE_BYTES // _BLOCK_BYTES):
            if not _has_data(self.descriptor) or not self.read():
                break


def _has_data(descriptor: int) -> bool:
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def sealed_file(data: bytes) -> int:
    """A memory file that nobody can change, at its beginning."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _ALL_SEALS)
    return descriptor
