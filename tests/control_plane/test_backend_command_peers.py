"""Published trainers as they are: a Hugging Face `Trainer` script and `litgpt finetune_full`, each on a tiny model."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_project import commit, git

from contracts.enums import CauseKind, Scope, Verdict
from control_plane.backends.command_probe import probe
from control_plane.backends.command_registry import Registered, Registry
from control_plane.cli.investigate import work_on
from control_plane.projects import connect_project, register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect, open_case

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RUN = "run-1"


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url, backend="local", num_cpus=2, fresh_seeds=0)


def laid_out(folder: Path, source: str, *changes: tuple[str, str]) -> Path:
    """The project under git, with this interpreter in its spec."""
    shutil.copytree(Path(__file__).with_name(source), folder, ignore=shutil.ignore_patterns("__pycache__"))
    replace(folder / "lathe.toml", ('"python"', f'"{sys.executable}"'), *changes)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "start")
    return folder


def replace(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def edit(folder: Path, name: str, change: tuple[str, str], subject: str) -> str:
    replace(folder / name, change)
    return commit(folder, subject)


def connected(settings: Settings, folder: Path) -> Registered:
    registry = Registry(settings.backends_folder)
    registered = registry.read(folder / "lathe.toml")
    registry.make_present(registered)
    return registered


def begin(lathe: Lathe, folder: Path, registered: Registered, steps: int) -> None:
    project = connect_project(lathe.store, folder, registered)
    head = git(folder, "rev-parse", "HEAD")
    wish = TrainingRequest(run_id=RUN, project=project, commit=head, max_step=steps)
    assert follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish)).reason == "completed"


def proven_cause(lathe: Lathe, folder: Path, last: str, steps: int) -> tuple[str, CauseKind | None, str]:
    """Go on with the last commit to a step; (key of the proven suspect, its kind, the statement)."""
    register_project(lathe.store, folder)
    launch = lathe.trainings.go_on(RUN, commit=last, max_step=steps)
    assert follow(lathe.backend, lathe.shipper, launch).reason == "completed"
    case_id = open_case(lathe.store, RUN, detect(lathe.store, RUN), time.time())
    assert case_id is not None
    case = work_on(lathe, case_id)
    verdict = lathe.store.knowledge.verdicts(case_id)[0]
    assert (verdict.verdict, verdict.scope) == (Verdict.PROVEN, Scope.THIS_RUN), verdict.statement
    return verdict.suspect_keys[0], case.cause_kind, verdict.statement


def test_a_hugging_face_trainer(lathe: Lathe, settings: Settings, tmp_path: Path) -> None:
    """Shows R801-3.4 on `transformers.Trainer`: a faulty commit in its data set is proven by re-runs."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    folder = laid_out(tmp_path / "project", "huggingface")
    registered = connected(settings, folder)
    report = probe(registered, folder, git(folder, "rev-parse", "HEAD"), settings.home)
    assert report.is_exact
    assert report.series == ("epoch", "grad_norm", "loss", "lr")
    assert report.lines_traced
    begin(lathe, folder, registered, 60)
    edit(folder, "data.py", ('"""Sequences', '"""Short sequences'), "say what they are")
    faulty = edit(folder, "data.py", ('"labels": tokens', '"labels": tokens.roll(3)'), "data: other labels")
    last = edit(folder, "data.py", ("return 4096", "return 4100"), "data: a little more")
    key, kind, statement = proven_cause(lathe, folder, last, 100)
    assert (key, kind) == (f"commit:{faulty}", CauseKind.CODE)
    assert "bitwise equal" in statement


def test_litgpt(lathe: Lathe, settings: Settings, tmp_path: Path) -> None:
    """A published trainer as it is: two equal runs, and one that goes on from a checkpoint, are bitwise equal."""
    pytest.importorskip("litgpt")
    source = Path(__file__).with_name("litgpt_sums")
    subprocess.run([sys.executable, str(source / "prepare.py"), str(tmp_path / "base")], check=True, timeout=300)
    folder = laid_out(tmp_path / "project", "litgpt_sums", ("CHECKPOINT", str(tmp_path / "base")))
    registered = connected(settings, folder)
    report = probe(registered, folder, git(folder, "rev-parse", "HEAD"), settings.home)
    assert (report.last_step, report.resumed_from) == (15, 10)
    assert report.is_exact
    begin(lathe, folder, registered, 20)
    resumed = lathe.trainings.go_on(RUN, max_step=30)
    assert follow(lathe.backend, lathe.shipper, resumed).reason == "completed"
    assert [segment.start_step for segment in lathe.store.runs.segments(RUN)] == [0, 20]
    assert list(lathe.store.series.read(RUN, "loss").steps) == list(range(1, 31))
