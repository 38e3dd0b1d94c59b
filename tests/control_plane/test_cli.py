"""The command line: real commands on a real store; errors as one message with a remedy and an exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from case import RUN, propose_fix, train_bad_run
from small_project import SmallProject, commit, until

from context_store.records import Anomaly, NewRun, Project
from contracts.enums import ProposalState, RunRole, RunState
from contracts.evidence import EvidenceRef
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

HEAVY = ("torch", "ray", "langgraph", "langchain_core", "sqlalchemy", "litellm", "mlflow", "fastapi", "streamlit")


@dataclass(frozen=True, kw_only=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


Command = Callable[..., Done]


@pytest.fixture
def command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, run_lathe: Callable[..., tuple[int, str, str]]
) -> Command:
    """Runs `lathe ARGUMENTS` in this process; a test may change the environment in between."""
    for name, value in settings.as_environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: object) -> Done:
        status, out, err = run_lathe({}, *arguments)
        return Done(status=status, out=out, err=err)

    return run


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['lathe', '--help']\n"
        "from control_plane.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_train_runs_timeline_and_diff(command: Command, small_project: SmallProject) -> None:
    first = command("train", small_project.folder, "--steps", 20, "--name", "one", "--json")
    assert (first.status, first.json["reason"], first.json["last_step"]) == (0, "completed", 20)
    (small_project.folder / "recipe.py").write_text("SLOPE = 0.25\n")
    later = commit(small_project.folder, "flatter")
    second = command("train", small_project.folder, "--set", "step_s=0.003", "--steps", 20, "--json")
    runs = command("runs", "--json").json
    assert [run["id"] for run in runs] == [second.json["run"], first.json["run"]]
    assert first.json["run"] in command("runs").out
    found = command("diff", first.json["run"], second.json["run"], "--json").json
    assert {change["key"]: change["after"] for change in found["config"]} == {"slope": 0.25, "step_s": 0.003}
    assert [each["hash"] for each in found["code"]["commits"]] == [later]
    assert "flatter" in command("diff", first.json["run"], second.json["run"]).out
    longer = command("train", small_project.folder, "--resume", first.json["run"], "--steps", 40, "--json")
    assert (longer.json["segment"], longer.json["last_step"]) == (1, 40)
    kinds = {event["kind"] for event in command("timeline", first.json["run"], "--json").json}
    assert {"code", "config", "resume"} <= kinds
    assert "resumed" in command("timeline", first.json["run"]).out
    assert isinstance(command("detect", first.json["run"], "--json").json, list)


def test_a_healthy_run_gives_no_case(command: Command, lathe: Lathe, small_project: SmallProject) -> None:
    project = register_project(lathe.store, small_project.folder)
    wish = TrainingRequest(run_id=RUN, project=project, commit=small_project.good, max_step=30)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    assert command("detect", RUN, "--json").json == []
    assert command("diagnose", RUN).out.strip() == "Nothing wrong found (observed: 1 series up to step 30)."
    assert command("diagnose", RUN, "--json").json is None


def test_findings_are_shown_by_role(command: Command, lathe: Lathe, small_project: SmallProject) -> None:
    """Shows R801-3.9: who supplied it is said, and a role sees its own."""
    project = register_project(lathe.store, small_project.folder)
    wish = TrainingRequest(run_id=RUN, project=project, commit=small_project.good, max_step=6)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    seen = Anomaly(
        run_id=RUN, kind="spike", series=("loss",), onset=(3, 4), severity=0.5, statement="it jumps",
        evidence=(EvidenceRef(kind="run", id=RUN),),
    )  # fmt: skip
    lathe.store.knowledge.put_anomaly(seen)
    assert "it jumps (severity 0.5, from the metric inspector)" in " ".join(command("detect", RUN).out.split())
    told = " ".join(command("detect", RUN, "--role", "output_inspector").out.split())
    assert told == "Nothing wrong found in what the output inspector looks at; 1 found by other roles."


def test_ctrl_c_stops_with_a_checkpoint_and_says_how_to_go_on(settings: Settings, small_project: SmallProject) -> None:
    arguments = ["train", str(small_project.folder), "--steps", "100000", "--set", "step_s=0.02"]
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from control_plane.cli.main import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **settings.as_environment()},
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: any(settings.home.glob("runs/*/checkpoints/step-*")), timeout_s=30)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "--resume" in said
    with Lathe.open(settings) as lathe:
        (run,) = lathe.store.runs.list()
        assert run.state == RunState.STOPPED
        newest = lathe.store.runs.checkpoint_at_or_before(run.id, run.last_step)
        assert newest is not None
        assert newest.step == run.last_step


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["train", "/nowhere"], 2, "/nowhere does not exist"),
        (["train", "{empty}"], 2, "not a sound git repository"),
        (["train", "{project}", "--set", "nothing"], 2, "--set section.field=value"),
        (["timeline", "nothing"], 2, "no run 'nothing'"),
        (["diff", "a", "b"], 2, "no run 'a'"),
        (["proposals", "show", "pr-0"], 2, "pr-0"),
        (["negatives", "add", "--claim", "c", "--intervention", "i", "--observed", "o", "--reason", "r",
          "--evidence", "trust me"], 2, "not an evidence reference"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_with_its_remedy(
    command: Command, small_project: SmallProject, tmp_path: Path, arguments: Sequence[str], status: int, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"empty": tmp_path / "empty", "project": small_project.folder}
    done = command(*(argument.format(**places) for argument in arguments))
    assert done.status == status
    assert words in done.err
    assert "remedy:" in done.err
    assert "Traceback" not in done.err


def test_settings_that_cannot_be_are_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATHE_NUM_CPUS", "many")
    done = command("runs")
    assert done.status == 2
    assert "LATHE_NUM_CPUS='many'" in done.err


def test_a_database_that_is_down_or_of_another_version(
    command: Command, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    import psycopg

    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    newer = command("runs")
    assert (newer.status, "newer Lathe" in newer.err) == (3, True)
    monkeypatch.setenv("LATHE_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    down = command("runs")
    assert down.status == 3
    assert "does not answer" in down.err
    assert "remedy:" in down.err


def test_a_home_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    done = command("--home", tmp_path / "file" / "home", "runs")
    assert done.status == 3
    assert "set LATHE_HOME" in done.err


def test_uncommitted_changes_are_refused(command: Command, small_project: SmallProject) -> None:
    (small_project.folder / "recipe.py").write_text("SLOPE = 1.0\n")
    done = command("train", small_project.folder)
    assert done.status == 2
    assert "--last-commit" in done.err
    assert command("train", small_project.folder, "--last-commit", "--json").json["code_version"] == small_project.bad


def test_a_proposal_is_shown_and_decided(command: Command, lathe: Lathe, small_project: SmallProject) -> None:
    train_bad_run(lathe, small_project)
    proposal = propose_fix(lathe, small_project)
    shown = command("proposals", "show", proposal.id)
    for line in ("-SLOPE = 0.5", "+SLOPE = -0.01", proposal.bound_hash, RUN):
        assert line in shown.out
    unasked = command("proposals", "approve", proposal.id)
    assert (unasked.status, "add --yes" in unasked.err) == (2, True)
    assert lathe.store.proposals.get(proposal.id).state == ProposalState.OPEN
    approval = command("proposals", "approve", proposal.id, "--comment", "fine", "--yes", "--json").json
    assert approval["bound_hash"] == proposal.bound_hash
    assert command("proposals", "list", "--state", "approved", "--json").json[0]["comment"] == "fine"
    again = command("proposals", "reject", proposal.id, "--yes")
    assert again.status == 4


def test_negative_results_are_found_again(command: Command, lathe: Lathe) -> None:
    lathe.store.projects.put(Project(id="p", path="/p"))
    lathe.store.runs.create(NewRun(id="rr-1", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere"))
    fields = {"claim": "notes cause it", "intervention": "removed notes", "observed": "no change", "reason": "unread"}
    options = [part for name, value in fields.items() for part in (f"--{name}", value)]
    stored = command("negatives", "add", *options, "--evidence", "run:rr-1", "--context", "layers=8", "--json").json
    assert stored["context"] == {"layers": 8}
    (found,) = command("negatives", "search", "notes", "--json").json
    assert found["negative"]["claim"] == "notes cause it"
    assert "notes cause it" in command("negatives", "search", "notes").out


def test_doctor_names_each_fault_and_its_remedy(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LATHE_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    monkeypatch.setenv("LATHE_API_BASE", "http://127.0.0.1:1")
    monkeypatch.setenv("LATHE_MODEL", "a-model")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    done = command("doctor", "--json")
    checks = {check["name"]: check for check in done.json}
    assert done.status == 3
    assert [name for name, check in checks.items() if check["ok"] is False] == ["database", "ray", "model"]
    assert all(checks[name]["remedy"] for name in ("database", "ray", "model"))
    assert checks["git"]["ok"] is True
