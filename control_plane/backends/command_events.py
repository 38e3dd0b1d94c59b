"""The `events.log` of a segment whose training writes another format: what is in it, and appending to it."""

from __future__ import annotations

import os
from pathlib import Path

from contracts.events import CheckpointSaved, Event, Finished, Metrics, SegmentStarted, encode, read_events
from control_plane.disk import explained


class EventLog:
    """The only writer of one segment's log. After SIGKILL at most the event that was being written is lost.

    `attempts` counts starts of the training in this segment, `rows` the metrics of the last of them. `last_step` is the
    highest step that was logged.
    """

    def __init__(self, folder: Path) -> None:
        """Open or create `folder/events.log`; a torn last line is cut off. Raises EnvironmentFault, LogFormatError."""
        self._path = folder / "events.log"
        self.attempts = 0
        self.rows = 0
        self.last_step = 0
        self.checkpoints: list[CheckpointSaved] = []
        with explained(self._path):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._end = 0
        for read in read_events(self._path):
            self._note(read.event)
            self._end = read.end_offset
        os.ftruncate(self._file, self._end)

    def append(self, event: Event) -> None:
        """Whole or not at all. Raises DiskFull; what was appended before stays readable."""
        data = encode(event)
        with explained(self._path):
            try:
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
            except OSError:
                os.ftruncate(self._file, self._end)
                raise
        self._end += len(data)
        self._note(event)

    def sync(self) -> None:
        """Make everything appended so far survive a power cut."""
        with explained(self._path):
            os.fsync(self._file)

    def newest_checkpoint(self) -> CheckpointSaved | None:
        """That with the highest step."""
        return max(self.checkpoints, key=lambda checkpoint: checkpoint.step, default=None)

    def _note(self, event: Event) -> None:
        match event:
            case SegmentStarted():
                self.attempts, self.rows = self.attempts + 1, 0
                self.last_step = max(self.last_step, event.start_step)
            case Metrics():
                self.rows += 1
                self.last_step = max(self.last_step, event.step)
            case CheckpointSaved():
                self.checkpoints.append(event)
            case Finished():
                pass
