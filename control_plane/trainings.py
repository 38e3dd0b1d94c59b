"""Trainings somebody wants: begin one, or go on with one. What comes out is a launch; a backend runs it.

launch = trainings.begin(TrainingRequest(...))        # or trainings.go_on(RUN, ...)
outcome = follow(lathe.backend, lathe.shipper, launch)
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from context_store import Store
from context_store.records import Checkpoint, NewRun, Project, Run
from contracts.backend import Launch, Outcome, TrainerBackend
from contracts.enums import RunRole
from contracts.errors import RepositoryError, UserInputError
from contracts.events import Scalar
from control_plane.backends.segment import finished_event, is_running, is_to_stop
from control_plane.git import Git, require_commit
from control_plane.run_folders import claim_segment, read_launch, segment_numbers
from control_plane.shipper import Shipper
from control_plane.worktrees import CodeVersion, Worktrees

_POLL_S = 0.2
_MAX_RESTARTS = 3  # of one whose process vanishes again and again
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """A new run of `commit`. `run_id` is chosen by the caller; the same id again gives the same launch."""

    run_id: str
    project: Project
    commit: str
    name: str = ""
    overrides: Mapping[str, Scalar] = field(default_factory=dict)
    seed: int | None = None
    max_step: int | None = None


class Trainings:
    """Turns wishes into launches and rows of the store. Idempotent by run id."""

    def __init__(self, store: Store, worktrees: Worktrees, runs_folder: Path) -> None:
        self._store = store
        self._worktrees = worktrees
        self._runs_folder = runs_folder

    def begin(self, request: TrainingRequest) -> Launch:
        """Create the run and its first segment. RepositoryError when the commit cannot be checked out."""
        tree = self._worktrees.materialise(Path(request.project.path), CodeVersion(base=request.commit))
        folder = self._runs_folder / request.run_id
        launch = Launch(
            run_id=request.run_id,
            segment=0,
            run_folder=str(folder),
            project=str(tree.project),
            code_version=tree.commit,
            entry=request.project.entry,
            overrides=dict(request.overrides),
            seed=request.seed,
            max_step=request.max_step,
        )
        self._store.runs.create(
            NewRun(
                id=request.run_id,
                project_id=request.project.id,
                name=request.name or request.run_id,
                role=RunRole.TRAINING,
                folder=str(folder),
            )
        )
        return claim_segment(folder, f"begin:{request.run_id}", lambda _: launch)

    def go_on(
        self,
        run_id: str,
        *,
        commit: str | None = None,
        overrides: Mapping[str, Scalar] | None = None,
        max_step: int | None = None,
    ) -> Launch:
        """Go on with a run: in its last segment if that crashed and nothing changed, else in a new one.

        A new segment starts from the newest checkpoint. `commit` None keeps the code, `overrides` are added to those
        of the last segment. The history up to `commit` is read first, so that a later search for a cause knows it.
        UserInputError when the run is being trained, is complete, or has no segment.
        """
        run = self._store.runs.get(run_id)
        numbers = segment_numbers(Path(run.folder))
        if not numbers:
            raise UserInputError(
                f"run {run_id} has no segment in {run.folder}: it ended before it began, or the folder is gone",
                remedy="restore the folder, or begin another run with: lathe train PROJECT",
            )
        number = numbers[-1]
        last = replace(read_launch(Path(run.folder), number), cpu_limit_s=None, spent_note="")  # an effect's, not ours
        wanted = self._changed(run, last, commit, overrides or {}, max_step)
        if is_running(Path(run.folder), number):
            raise UserInputError(f"run {run_id} is being trained", remedy="stop it first, or wait for its end")
        ended = finished_event(Path(run.folder), number)
        if ended is None and wanted == last:
            return last
        if ended is not None and ended.reason == "completed" and wanted == last:
            raise UserInputError(f"run {run_id} is complete", remedy="train longer with --steps, or begin another run")
        newest = self.newest_checkpoint(run)
        start = newest.path if newest else ""
        owner = f"go-on:{number}:{newest.step if newest else 0}"
        return claim_segment(
            Path(run.folder), owner, lambda segment: replace(wanted, segment=segment, start_checkpoint=start)
        )

    def newest_checkpoint(self, run: Run) -> Checkpoint | None:
        """The canonical checkpoint with the highest step."""
        return self._store.runs.checkpoint_at_or_before(run.id, run.last_step)

    def _changed(
        self, run: Run, last: Launch, commit: str | None, overrides: Mapping[str, Scalar], max_step: int | None
    ) -> Launch:
        project = self._store.projects.get(run.project_id)
        if commit is not None:
            self._read_history(project, commit)
        version = CodeVersion(base=commit or last.code_version)
        tree = self._worktrees.materialise(Path(project.path), version)
        return replace(
            last,
            project=str(tree.project),
            code_version=tree.commit,
            overrides={**last.overrides, **overrides},
            max_step=max_step if max_step is not None else last.max_step,
        )

    def _read_history(self, project: Project, commit: str) -> None:
        """Up to the commit. Raises RepositoryError when it lies on no branch, where nobody would find it again."""
        git = Git(Path(project.path))
        wanted = require_commit(git, commit)
        self._store.code.ingest(project.id, Path(project.path))
        try:
            self._store.code.commit(project.id, wanted)
        except RepositoryError as error:
            raise RepositoryError(
                f"commit {wanted[:12]} of {project.path} is on no branch, so its history is not known",
                remedy=f"keep it on one: git branch NAME {wanted[:12]}",
            ) from error


def new_run_id(name: str, now: float) -> str:
    """Readable, sortable by time within a name, and unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32] or "run"
    stamp = time.strftime("%m%d-%H%M%S", time.gmtime(now))
    return f"{slug}-{stamp}-{secrets.token_hex(2)}"


def follow(
    backend: TrainerBackend,
    shipper: Shipper,
    launch: Launch,
    *,
    on_poll: Callable[[], None] = lambda: None,
    submit: bool = True,
) -> Outcome:
    """Run the launch to its end and ship its events meanwhile. `on_poll` is called a few times a second.

    When its process, worker or machine is gone it is started again and goes on from its newest checkpoint, unless it
    was to stop. `submit` False only waits for a launch that was submitted before.
    """
    if submit:
        shipper.begin(launch)
        backend.submit(launch)
    restarts = 0 if submit else _MAX_RESTARTS
    while True:
        outcome = _ended(backend, shipper, launch, on_poll)
        if outcome.reason != "died" or restarts == _MAX_RESTARTS or is_to_stop(launch):
            break
        restarts += 1
        _log.warning("the training died and is started again", run=launch.run_id, reason=outcome.message)
        backend.submit(launch)
    shipper.finish(launch, outcome)
    return outcome


def _ended(backend: TrainerBackend, shipper: Shipper, launch: Launch, on_poll: Callable[[], None]) -> Outcome:
    outcome = None
    while outcome is None:
        time.sleep(_POLL_S)
        outcome = backend.poll(launch.run_id, launch.segment)
        shipper.ship(launch.run_id, launch.folder)
        on_poll()
    return outcome
