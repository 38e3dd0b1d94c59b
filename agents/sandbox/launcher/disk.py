"""Bounds the disk space of a command on a file system without quotas."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from agents.sandbox.launcher import watch, wire

_STEPS = 8  # the folder is counted again when the disk lost an eighth of the limit,
_EVERY_S = 2.0  # and from time to time, since a neighbour may give back what the command takes,
_SHARE = 10  # which may take a tenth of the time


@dataclass(kw_only=True)
class DiskWatch:
    """Counts the writable layer, and deleted files that are open, when the disk's free space says that there is more.

    Deleted files that are on their way through a socket, or only mapped, show nowhere. So a command is also ended when
    the disk has lost more than the limit beyond what can be seen *and* the command has written that much: either alone
    may be innocent (a neighbour that writes; a file written again and again).
    """

    layer: str
    bounds: wire.Bounds
    free_at_start: int
    counted_at: tuple[int, int] | None = None  # free bytes and free files when last counted
    next_s: float = 0.0
    seen_first: int = 0
    seen: int = 0
    written: dict[str, int] = field(default_factory=dict)

    @classmethod
    def start(cls, layer: str, bounds: wire.Bounds) -> DiskWatch:
        return cls(layer=layer, bounds=bounds, free_at_start=_free(layer)[0])

    def exceeded(self, proc: int | None) -> bool:
        """`proc` is None when no process is left that could hold deleted files open."""
        free, free_files = _free(self.layer)
        if free < self.bounds.min_free_bytes:
            return True
        step = self.bounds.disk_bytes // _STEPS
        if proc is not None and self.free_at_start - free > step:
            watch.note_written(proc, self.written)
        if self._must_count(free, free_files):
            first, started = self.counted_at is None, time.monotonic()
            if not self._count(proc if self.free_at_start - free > step else None):
                return True
            ended = time.monotonic()
            self.counted_at, self.next_s = (free, free_files), ended + max(_EVERY_S, _SHARE * (ended - started))
            self.seen_first = self.seen if first else self.seen_first
        return proc is not None and self._holds_unseen(free)

    def _must_count(self, free: int, free_files: int) -> bool:
        if self.counted_at is None or time.monotonic() > self.next_s:
            return True
        lost, lost_files = self.counted_at[0] - free, self.counted_at[1] - free_files
        return lost >= self.bounds.disk_bytes // _STEPS or lost_files >= self.bounds.files // _STEPS

    def _count(self, proc: int | None) -> bool:
        """False when it is too much, or cannot be counted."""
        try:
            in_folders = watch.folder_bytes(self.layer, most_files=self.bounds.files)
        except watch.Uncountable:
            return False
        self.seen = in_folders + (watch.unlinked_bytes(proc) if proc is not None else 0)
        return self.seen <= self.bounds.disk_bytes

    def _holds_unseen(self, free: int) -> bool:
        grown = self.seen - self.seen_first
        lost_unseen = self.free_at_start - free - grown
        return min(lost_unseen, sum(self.written.values()) - grown) > self.bounds.disk_bytes


def _free(path: str) -> tuple[int, int]:
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize, state.f_favail
