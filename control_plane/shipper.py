"""Loads run folders into the store. The folder is the truth: a database that is down delays, it loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import structlog

from context_store import Store
from context_store.records import Run
from contracts.backend import Launch, Outcome
from contracts.enums import RunState
from contracts.errors import DatabaseUnavailable, LogFormatError
from control_plane.backends.segment import is_abandoned, touch_lock
from control_plane.run_folders import segment_numbers

_log = structlog.get_logger(__name__)
_PAGE = 200
_UNFINISHED = (RunState.CREATED, RunState.RUNNING)
_GRACE_S = 60.0  # a launch may wait that long for Ray and a free CPU


class Shipper:
    """Idempotent and safe to use from several processes: offset and rows move in one transaction of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ship(self, run_id: str, folder: Path) -> int:
        """Load what is new and return the number of events; 0 when the database does not answer just now.

        A damaged log marks the run as failed with the place of the damage; everything before it is kept.
        """
        try:
            return self._store.ingest.ship(run_id, folder)
        except DatabaseUnavailable as error:
            _log.warning("shipping delayed", run=run_id, reason=error.message)
        except LogFormatError as error:
            self._store.runs.set_state(run_id, RunState.FAILED, error.message)
        return 0

    def begin(self, launch: Launch) -> None:
        """Note that the launch was handed to a backend; what an earlier attempt left behind no longer counts."""
        touch_lock(launch.folder, launch.segment)
        self._store.runs.set_state(launch.run_id, RunState.RUNNING)

    def finish(self, launch: Launch, outcome: Outcome) -> None:
        """Load the rest of a segment that ended. Raises DatabaseUnavailable; the folder keeps everything."""
        try:
            self._store.ingest.ship(launch.run_id, launch.folder)
        except LogFormatError as error:
            _log.info("damaged log", run=launch.run_id, reason=error.message)  # also: it failed before its first event
            self._store.runs.set_state(launch.run_id, RunState.FAILED, outcome.message or error.message)
        if outcome.reason in ("died", "over_budget"):
            self._store.runs.set_state(launch.run_id, RunState.FAILED, outcome.message)

    def catch_up(self, now: float) -> int:
        """Load what any process left in the folders of unfinished runs, and mark those that nobody trains any more."""
        total = 0
        for run in self._unfinished():
            folder = Path(run.folder)
            if not folder.is_dir():
                continue
            total += self.ship(run.id, folder)
            numbers = segment_numbers(folder)
            if numbers and run.state == RunState.RUNNING and is_abandoned(folder, numbers[-1], now - _GRACE_S):
                self._store.runs.set_state(run.id, RunState.STOPPED, "its process vanished; go on with: lathe train")
        return total

    def _unfinished(self) -> Iterator[Run]:
        """However old they are; page by page."""
        last: str | None = None
        while page := self._store.runs.list(states=_UNFINISHED, limit=_PAGE, before=last):
            yield from page
            last = page[-1].id
