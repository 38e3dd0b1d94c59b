"""Appends training events to a segment's `events.log`: whole lines, handed to the system at once, every step."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contracts.events import CheckpointSaved, Event, Finished, SegmentStarted, encode, read_events
from trainer.checkpoint import disk_full


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an earlier process left in the log."""

    is_started: bool = False
    finished: str = ""  # reason of a last event that is Finished, else ""
    last_step: int = 0
    checkpoints: tuple[CheckpointSaved, ...] = ()


class RunLog:
    """The only writer of one segment's log. After SIGKILL at most the step that was being written is lost."""

    def __init__(self, folder: Path) -> None:
        """Open or create `folder/events.log`; a torn last line is cut off. Raises DiskFull, LogFormatError."""
        self._path = folder / "events.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise disk_full(error, self._path) from error
        self.found, self._end = _scan(self._path)
        self.last_step = self.found.last_step
        os.ftruncate(self._file, self._end)

    def append(self, *events: Event) -> None:
        """All of them or none. Raises DiskFull; what was appended before stays readable."""
        data = b"".join(encode(event) for event in events)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise disk_full(error, self._path) from error
        self._end += len(data)
        self.last_step = max(self.last_step, *(_step(event) for event in events))

    def sync(self) -> None:
        """Make everything appended so far survive a power cut."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def _scan(path: Path) -> tuple[Found, int]:
    is_started, finished, last_step, end = False, "", 0, 0
    checkpoints: list[CheckpointSaved] = []
    for read in read_events(path):
        event, end = read.event, read.end_offset
        is_started = is_started or isinstance(event, SegmentStarted)
        finished = event.reason if isinstance(event, Finished) else ""
        if isinstance(event, CheckpointSaved):
            checkpoints.append(event)
        last_step = max(last_step, _step(event))
    found = Found(is_started=is_started, finished=finished, last_step=last_step, checkpoints=tuple(checkpoints))
    return found, end


def _step(event: Event) -> int:
    return event.start_step if isinstance(event, SegmentStarted) else event.step
