"""The main job on a training that nobody here wrote: connected, broken by a commit, diagnosed, fixed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from foreign_project import make_foreign_project, write_spec
from small_project import commit, git, until

from context_store.records import EffectRequest
from contracts.enums import CauseKind, EffectKind, InvestigationState, Role, Scope, Verdict
from contracts.errors import ConfigError, UserInputError
from control_plane.backends.command_probe import probe
from control_plane.backends.command_registry import Registered, Registry
from control_plane.backends.embedded import EmbeddedBackend
from control_plane.backends.metered import SpentNotes
from control_plane.backends.segment import is_running
from control_plane.cli.backend import report_lines
from control_plane.cli.investigate import work_on
from control_plane.effects import Workshop
from control_plane.effects.run_control import run_controls
from control_plane.projects import EMBEDDED, connect_project, register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect, open_case

RUN = "run-1"


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(
        home=tmp_path / "home", database_url=database_url, backend="local", num_cpus=2, cancel_grace_s=5, fresh_seeds=0
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_foreign_project(tmp_path / "project")
    return tmp_path / "project"


def added(settings: Settings, folder: Path, *changes: tuple[str, str]) -> Registered:
    registry = Registry(settings.backends_folder)
    registered = registry.read(write_spec(folder.parent / "tiny.toml", *changes))
    registry.make_present(registered)
    return registered


def edit(folder: Path, name: str, old: str, new: str, subject: str) -> str:
    source = (folder / name).read_text()
    assert old in source
    (folder / name).write_text(source.replace(old, new))
    return commit(folder, subject)


def train(lathe: Lathe, folder: Path, head: str, steps: int) -> None:
    """Begin, or go on, at a commit, as `lathe train` does."""
    project = register_project(lathe.store, folder)
    if steps <= 40:
        wish = TrainingRequest(run_id=RUN, project=project, commit=head, max_step=steps)
        launch = lathe.trainings.begin(wish)
    else:
        launch = lathe.trainings.go_on(RUN, commit=head, max_step=steps)
    assert follow(lathe.backend, lathe.shipper, launch).reason == "completed"


def test_the_faulty_commit_of_a_foreign_training_is_proven_and_the_run_fixed(settings: Settings, folder: Path) -> None:
    """Shows R801-3.1 and R801-3.4 on a training that does not import Lathe."""
    with Lathe.open(settings) as lathe:
        connect_project(lathe.store, folder, added(settings, folder))
        train(lathe, folder, head(folder), 40)
        edit(folder, "model.py", "WIDTH = 32", "WIDTH = 32  # hidden units", "a comment")
        faulty = edit(folder, "batches.py", "3.0, labels", "3.0, np.roll(labels, 1)", "batches: another layout")
        last = edit(folder, "batches.py", "0.5, 4.0", "0.5, 4.02", "batches: a little wider")
        train(lathe, folder, last, 80)
        case_id = open_case(lathe.store, RUN, detect(lathe.store, RUN), time.time())
        assert case_id is not None
        case = work_on(lathe, case_id)
        assert (case.verdict, case.scope, case.cause_kind) == (Verdict.PROVEN, Scope.THIS_RUN, CauseKind.CODE)
        verdict = lathe.store.knowledge.verdicts(case_id)[0]
        assert verdict.suspect_keys == (f"commit:{faulty}",)
        assert "bitwise equal in 2 series" in verdict.statement
        assert case.state == InvestigationState.WAITING_FOR_APPROVAL
        (proposal,) = lathe.store.proposals.list(investigation_id=case_id)
        assert "+    return points * 3.0, labels" in proposal.diff
        lathe.store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "right", time.time(), proposal.bound_hash)
    with Lathe.open(settings) as lathe:
        case = work_on(lathe, case_id)
        assert case.state == InvestigationState.CLOSED
        assert "The fix holds" in case.statement
        fixed = lathe.store.runs.segments(RUN)[-1]
        assert fixed.number == 2
        assert fixed.start_step >= 40  # never from zero
        assert fixed.last_step > fixed.start_step


def test_a_probe_says_what_re_runs_can_show(settings: Settings, folder: Path) -> None:
    registered = added(settings, folder)
    report = probe(registered, folder, head(folder), settings.home)
    assert report.is_exact
    assert (report.first_step, report.last_step, report.checkpoints, report.resumed_from) == (1, 20, (10, 20), 10)
    assert report.series == ("grad_norm", "loss")
    assert (report.files_executed, report.lines_traced) == (3, True)
    assert list(settings.home.glob("probe-*")) == []


def test_a_probe_measures_the_spread_and_names_what_is_missing(settings: Settings, folder: Path) -> None:
    scatters = added(
        settings,
        folder,
        ("[probe]\nsteps = 20", "[probe]\nsteps = 8\noverrides = { scatter = 0.01 }"),
        ('ignore = ["clock"]\n', "step_offset = -1\n"),
    )
    report = probe(scatters, folder, head(folder), settings.home)
    assert not report.is_exact
    assert set(report.spread) == {"loss", "clock"}
    assert 0 < report.spread["loss"] < 0.1
    assert report.resumed_from is None
    text = "\n".join(report_lines(report))
    assert "the log ends at step 7, not 8: check {steps} and log.step_offset" in text
    assert "not bitwise equal" in text
    assert "re-runs would have to begin from random weights" in text


def test_a_probe_that_fails_keeps_its_output(settings: Settings, folder: Path) -> None:
    fails = added(settings, folder, ("steps = 20", "steps = 20\noverrides = { crash_at = 5 }"))
    with pytest.raises(ConfigError, match="out of luck") as caught:
        probe(fails, folder, head(folder), settings.home)
    assert Path(caught.value.remedy.removeprefix("read ")).read_text()


def test_a_foreign_training_runs_through_ray_like_our_own(lathe: Lathe, settings: Settings, folder: Path) -> None:
    project = connect_project(lathe.store, folder, added(settings, folder))
    launch = lathe.trainings.begin(TrainingRequest(run_id=RUN, project=project, commit=head(folder), max_step=12))
    ray = EmbeddedBackend(num_cpus=1, ray_address="", cancel_grace_s=5)
    assert follow(ray, lathe.shipper, launch).last_step == 12
    ray.close()


def test_a_foreign_training_can_be_stopped_but_not_paused(lathe: Lathe, settings: Settings, folder: Path) -> None:
    project = connect_project(lathe.store, folder, added(settings, folder))
    wish = TrainingRequest(run_id=RUN, project=project, commit=head(folder), max_step=100_000)
    launch = lathe.trainings.begin(wish)
    lathe.backend.submit(launch)
    until(lambda: is_running(launch.folder, launch.segment))
    request = EffectRequest(
        key="pause", kind=EffectKind.PAUSE_RUN, payload={"run_id": RUN}, investigation_id=None, actor="ada"
    )
    effect = lathe.store.effects.request(request)
    spent = SpentNotes(folder=settings.spent_folder)
    workshop = Workshop(store=lathe.store, worktrees=lathe.worktrees, runs_folder=settings.runs_folder, spent=spent)
    (pause,) = [control for control in run_controls(workshop) if control.kind is EffectKind.PAUSE_RUN]
    with pytest.raises(UserInputError, match="can only be stopped"):
        pause.check(effect)
    lathe.backend.cancel(RUN, launch.segment)
    until(lambda: not is_running(launch.folder, launch.segment), timeout_s=30)


def test_the_command_line(settings: Settings, lathe: Lathe, folder: Path) -> None:
    spec = write_spec(folder / "lathe.toml", ("steps = 20", "steps = 12"))
    last = commit(folder, "connect")

    def said(*arguments: object) -> object:
        done = command(settings, ["backend", *map(str, arguments), "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    report = said("add", spec)
    assert isinstance(report, dict)
    assert report["is_exact"]
    (project,) = lathe.store.projects.list()
    assert (project.path, project.backend) == (str(folder), "tiny")
    assert project.entry == f"command:{report['version']}"
    assert lathe.store.code.commits(project.id, None, last)
    assert said("remove", "tiny") == {"removed": "tiny", "projects": [str(folder)]}
    assert lathe.store.projects.get(project.id).backend == EMBEDDED
    gone = command(settings, ["backend", "show", "tiny"])
    assert gone.returncode == 2
    assert "no backend 'tiny'" in gone.stderr


def command(settings: Settings, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """`lathe ARGUMENTS` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "control_plane.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=settings.as_environment() | {"PATH": "/usr/bin:/bin"},
    )


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD")
