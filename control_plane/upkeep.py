"""What a worker keeps up beside its work, in a thread of its own.

Vectors of new texts, links of new commits with fields and statistics, and the copy in MLflow.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from context_store.records import Run
from contracts.enums import RunRole, RunState
from contracts.errors import LatheError, RepositoryError
from control_plane.git import Git, require_commit
from control_plane.mlflow_sink import MlflowSink
from control_plane.wiring import Lathe
from loops.debug.topics import TOPICS

_log = structlog.get_logger(__name__)
_PAUSE_S = 5.0
_TEXTS_A_ROUND = 32  # so that a stop is heard soon
_NICENESS = 10
_PAGE = 200
_ENDED = (RunState.COMPLETED, RunState.FAILED, RunState.STOPPED)


class Upkeep:
    """A fault is logged and tried again: neither vectors nor MLflow may disturb a training."""

    def __init__(self, lathe: Lathe) -> None:
        self._store = lathe.store
        uri = lathe.settings.mlflow_uri
        self._sink = MlflowSink(lathe.store, uri) if uri else None
        self._linked: dict[str, tuple[str, str]] = {}  # project: its commit and newest training when it was linked
        self._copied: dict[str, RunState] = {}  # runs that ended and were copied since; a resume changes the state

    def step(self) -> bool:
        """Some of what is new; True when there may be more."""
        try:
            embedded = self._store.search.embed(limit=_TEXTS_A_ROUND)
            self._link()
            for run in self._to_copy():
                self._copy(run)
        except LatheError as error:
            _log.warning("upkeep waits", reason=error.message)
            return False
        return embedded == _TEXTS_A_ROUND

    def run_until(self, stop: threading.Event) -> None:
        """In the calling thread, which from now on yields to whatever else wants the processor."""
        thread = threading.get_native_id()  # which has a niceness of its own, on Linux
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
        more = False
        while not stop.wait(0.0 if more else _PAUSE_S):
            more = self.step()

    def _link(self) -> None:
        for project in self._store.projects.list():
            repository = Path(project.path)
            trainings = self._store.runs.list(project.id, RunRole.TRAINING, limit=1)
            if not trainings or not repository.is_dir():
                continue
            with suppress(RepositoryError):  # it is no repository any more
                mark = (require_commit(Git(repository), "HEAD"), trainings[0].id)
                if self._linked.get(project.id) != mark:
                    self._store.code.ingest(project.id, repository)
                    self._store.links.link(project.id, repository, TOPICS)
                    self._linked[project.id] = mark

    def _to_copy(self) -> Iterator[Run]:
        if self._sink is None:
            return
        last: str | None = None
        while page := self._store.runs.list(limit=_PAGE, before=last):
            yield from (run for run in page if self._copied.get(run.id) != run.state)
            last = page[-1].id

    def _copy(self, run: Run) -> None:
        assert self._sink is not None
        self._sink.mirror(run)
        if run.state in _ENDED:
            self._copied[run.id] = run.state
        else:
            self._copied.pop(run.id, None)
