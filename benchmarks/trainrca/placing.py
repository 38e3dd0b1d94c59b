"""A case in a Lathe of its own: its project beside the home, its recorded run in the store, nothing executed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from benchmarks.trainrca.databases import database
from benchmarks.trainrca.editing import copy_repository
from benchmarks.trainrca.form import BRANCH, Case, Segment
from benchmarks.trainrca.recording import Recording
from context_store.records import Project
from contracts.backend import Outcome, TrainerBackend
from contracts.errors import BackendFailure
from control_plane.backends.command_registry import Registry
from control_plane.git import Git
from control_plane.projects import connect_project, register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe


class Bench(Lathe):
    """A Lathe whose trainings go through a `Recording`."""

    cache: Path
    fresh: bool
    python: str  # interpreter of foreign trainings

    @cached_property
    def recording(self) -> Recording:
        """In front of plain processes."""
        return Recording(super()._local(), self.cache, fresh=self.fresh)

    def _local(self) -> TrainerBackend:
        return self.recording


@contextmanager
def bench(
    home: Path,
    cache: Path,
    server_url: str,
    *,
    fresh: bool = False,
    num_cpus: int = 2,
    python: str = sys.executable,
) -> Iterator[Bench]:
    """A new Lathe in `home` and in a database of its own, without fresh seeds: a case is about its own run."""
    with ExitStack() as resources:
        url = resources.enter_context(database(server_url))
        settings = Settings(
            home=home, database_url=url, backend="local", num_cpus=num_cpus, fresh_seeds=0, embedder="hashed", model=""
        )
        lathe = resources.enter_context(Bench.open(settings))
        assert isinstance(lathe, Bench)
        lathe.cache, lathe.fresh, lathe.python = cache, fresh, python
        yield lathe


def place(lathe: Bench, case: Case, folder: Path, work: Path) -> Project:
    """Project and recorded run of the case in `folder`, with the project at `work`. Raises BackendFailure.

    Where `work` is a project already, it is that of an earlier case of the same team: it gets this history too.
    """
    project = put_project(lathe, case, folder / "project", work)
    lathe.backend  # noqa: B018 (makes the recording)
    lathe.recording.turn_to(case.id, folder / "runs")
    train(lathe, project, case)
    return project


def put_project(lathe: Bench, case: Case, source: Path, work: Path) -> Project:
    """The project's history at `work`, known to the store."""
    if not work.exists():
        copy_repository(source, work)
    git = Git(work)
    git("fetch", "--quiet", "--force", str(source), f"{BRANCH}:refs/heads/{case.id}")
    git("checkout", "--quiet", case.id)
    return know(lathe, work, case)


def know(lathe: Bench, work: Path, case: Case) -> Project:
    """Register the project; a foreign training by its spec, with the interpreter and the machine of here."""
    if case.trainer == "embedded":
        return register_project(lathe.store, work)
    machine = work.with_name(f"{work.name}.machine")
    machine.write_text(case.machine)
    spec = work.with_name(f"{work.name}.toml")
    text = (work / "lathe.toml").read_text()
    spec.write_text(text.replace('"python"', json.dumps(lathe.python)).replace('"machine"', json.dumps(str(machine))))
    registry = Registry(lathe.settings.backends_folder)
    registered = registry.read(spec)
    registry.make_present(registered)
    return connect_project(lathe.store, work, registered)


def train(lathe: Bench, project: Project, case: Case) -> None:
    """All segments, each from the checkpoint before."""
    for number in range(len(case.segments)):
        outcome = train_segment(lathe, project, case, number)
        if outcome.reason not in ("completed", "failed"):
            raise BackendFailure(outcome.message or f"{case.id}: {outcome.reason}", remedy=outcome.remedy)


def train_segment(lathe: Bench, project: Project, case: Case, number: int) -> Outcome:
    """One of them."""
    segment: Segment = case.segments[number]
    if number == 0:
        wish = TrainingRequest(
            run_id=case.id,
            project=project,
            commit=segment.commit,
            seed=case.seed,
            overrides=segment.overrides,
            max_step=segment.max_step,
        )
        launch = lathe.trainings.begin(wish)
    else:
        launch = lathe.trainings.go_on(
            case.id, commit=segment.commit, overrides=segment.overrides, max_step=segment.max_step
        )
    return follow(lathe.backend, lathe.shipper, launch)


def remove(*folders: Path) -> None:
    """What was only needed meanwhile."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
