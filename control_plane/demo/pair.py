"""The two trainings of the demo: the pilot as everything was before, and the main run that meets the later commits.

    pilot   base commit                                          step 0 ................................ 180
    main    early commit 0 .. 60 | middle commit 60 .. 120 | head commit on half the ranks 120 .......... 180

Both survive a kill at any moment: what the run folders hold decides where they go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from pathlib import Path

from context_store.records import Project
from contracts.backend import Launch
from contracts.errors import BackendFailure
from contracts.events import Scalar
from control_plane.backends.segment import finished_event, is_running
from control_plane.demo.history import History
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

PILOT, MAIN = "pilot", "main"
RESUMES = (60, 120)  # steps at which the main run is resumed
LAST_STEP = 180
FAULTY_SEGMENT = len(RESUMES)
DP_SIZE_AFTER = 2  # of the last segment; the recipe says 4
_POLL_S = 0.3
_RELEASE_WAIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One planned segment."""

    commit: str
    max_step: int
    overrides: Mapping[str, Scalar] = field(default_factory=dict)


def stretches(history: History) -> dict[str, tuple[Stretch, ...]]:
    """What each run goes through."""
    return {
        PILOT: (Stretch(commit=history.base, max_step=LAST_STEP),),
        MAIN: (
            Stretch(commit=history.early, max_step=RESUMES[0]),
            Stretch(commit=history.middle, max_step=RESUMES[1]),
            Stretch(commit=history.head, max_step=LAST_STEP, overrides={"parallel.dp_size": DP_SIZE_AFTER}),
        ),
    }


def train_pair(lathe: Lathe, project: Project, history: History, seed: int, on_poll: Callable[[], None]) -> None:
    """Train both to their last step, side by side. Raises BackendFailure when one of them fails."""
    stopping = threading.Event()
    plan = stretches(history)
    with ThreadPoolExecutor(max_workers=len(plan), thread_name_prefix="training") as pool:
        tracks = [pool.submit(_Track(lathe, project, run_id, seed, stopping).train, plan[run_id]) for run_id in plan]
        try:
            _watch(tracks, on_poll)
        finally:
            stopping.set()


def _watch(tracks: list[Future[None]], on_poll: Callable[[], None]) -> None:
    """Until all are done; the first failure is raised at once."""
    while True:
        done, pending = wait_for(tracks, timeout=_POLL_S)
        on_poll()
        for track in done:
            track.result()
        if not pending:
            return


class _Stopped(Exception):
    """The other training failed, or the person pressed Ctrl-C."""


class _Track:
    """One run, segment by segment, in a thread of its own."""

    def __init__(self, lathe: Lathe, project: Project, run_id: str, seed: int, stopping: threading.Event) -> None:
        self._lathe = lathe
        self._project = project
        self._run_id = run_id
        self._seed = seed
        self._stopping = stopping
        self._folder = lathe.settings.runs_folder / run_id

    def train(self, plan: tuple[Stretch, ...]) -> None:
        for number, stretch in enumerate(plan):
            if finished_event(self._folder, number) is None:
                launch = self._launch(number, stretch)
                outcome = follow(self._lathe.backend, self._lathe.shipper, launch, on_poll=self._check)
                if outcome.reason != "completed":
                    raise BackendFailure(outcome.message or f"run {self._run_id} ended early", remedy=outcome.remedy)
        self._lathe.shipper.ship(self._run_id, self._folder)

    def _launch(self, number: int, stretch: Stretch) -> Launch:
        if number == 0:
            return self._lathe.trainings.begin(
                TrainingRequest(
                    run_id=self._run_id,
                    project=self._project,
                    commit=stretch.commit,
                    seed=self._seed,
                    max_step=stretch.max_step,
                )
            )
        self._lathe.shipper.ship(self._run_id, self._folder)
        _wait_until_free(self._folder)
        return self._lathe.trainings.go_on(
            self._run_id, commit=stretch.commit, max_step=stretch.max_step, overrides=stretch.overrides
        )

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopped


def _wait_until_free(folder: Path) -> None:
    """A training of a demo that was killed needs a moment to go away."""
    newest = len(list(folder.glob("segment-[0-9]*"))) - 1
    deadline = time.monotonic() + _RELEASE_WAIT_S
    while is_running(folder, newest) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
