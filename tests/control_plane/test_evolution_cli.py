"""`lathe evolve run`, `resume`, `report` and `promote` on a real small run, its seal, its replay, and SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_project import until

from context_store import Store, open_store
from control_plane.git import Git
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Feed, Worker
from loops.evolve.archive import Archive, read_files
from loops.evolve.operators import CATALOGUE

Command = Callable[..., tuple[int, str, str]]
SMALL = ("--effect", 0.4, "--max-pairs", 6, "--max-episodes", 400)
WRITTEN = ("root", "fix", "proposal", "block", "canary", "decision", "memory")


@pytest.fixture
def command(settings: Settings, run_lathe: Command) -> Command:
    return lambda *arguments: run_lathe(settings.as_environment(), *arguments)


def _json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1].splitlines()[-1])


def test_what_is_no_run_is_refused_with_a_remedy(command: Command, tmp_path: Path) -> None:
    for words, said in (
        (("resume", "nothing"), "nothing"), (("report", "nothing", "--replay"), "nothing"),
        (("report", tmp_path, "--replay"), "holds no run"), (("promote", "nothing"), "nothing"),
        (("report", "nothing", "--open-sealed"), "nothing"), (("run", "plain", "--search", "luck"), "no search"),
        (("run", "plain", "--fork", "case"), "CASE@ROUND"),
    ):  # fmt: skip
        status, _, err = command("evolve", *words)
        assert status != 0, words
        assert said in err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_isolated")
def test_a_run_from_its_beginning_to_the_seal_and_the_promotion(
    command: Command, settings: Settings, suite: Path
) -> None:
    small = (*SMALL, "--suite", suite)
    facts = _json(command("evolve", "run", "plain", "--rounds", 2, *small, "--json"))
    case_id, first = facts["case"], facts["decisions"]
    assert facts["rounds"] == 2
    assert _json(command("evolve", "resume", case_id, "--json"))["decisions"] == first
    assert "Not opened." in command("evolve", "report", case_id)[1]
    fork = _json(
        command("evolve", "run", "plain", "--rounds", 2, "--seed", 9, "--fork", f"{case_id}@1", *small, "--json")
    )
    assert fork["decisions"][0] == first[0]
    replays = _json(command("evolve", "report", fork["case"], "--replay", "--json"))
    assert [(each["run"], each["differences"]) for each in replays] == [(case_id, []), (fork["case"], [])]
    assert "identical" in command("evolve", "report", case_id, "--replay")[1]

    proposal = _json(command("evolve", "report", case_id, "--open-sealed", "--json"))
    assert "Not opened." in command("evolve", "report", case_id)[1]
    assert command("proposals", "approve", proposal["id"], "--yes")[0] == 0
    _worked(settings, lambda store: bool(store.casework.list(case_id, "sealed")))
    assert f"Opened by {settings.actor}" in command("evolve", "report", case_id)[1]
    again = command("evolve", "report", case_id, "--open-sealed")
    assert (again[0] != 0, "were opened by" in " ".join(again[2].split())) == (True, True)
    with open_store(settings.database_url) as store:
        opened = [each for each in store.ledger.list(f"investigation:{case_id}") if each.action == "seal_opened"]
        assert [each.detail["runs_that_saw_these_tasks"] for each in opened] == [1]
        assert f"Opened by {settings.actor}" in store.knowledge.report(case_id)

    candidate = next(body["candidate"] for body in first if body["candidate"] and body["kind"] != "control")
    promotion = _json(command("evolve", "promote", case_id, "--commit", candidate, "--json"))
    assert command("proposals", "approve", promotion["id"], "--yes")[0] == 0
    git = Git(settings.home / "scaffolds" / "plain")
    _worked(settings, lambda store: bool(git("for-each-ref", "refs/lathe/scaffold/plain")))
    assert git("rev-parse", "refs/lathe/scaffold/plain") == candidate


def _worked(settings: Settings, done: Callable[[Store], bool]) -> None:
    with Lathe.open(settings) as lathe, Worker(lathe, name="worker-c") as worker:
        worker.run_until(lambda: done(lathe.store), Feed(lathe.store, print, after=0))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_isolated")
def test_a_worker_that_is_killed_in_the_middle_goes_on_with_the_same_decisions(
    tmp_path: Path, suite: Path, new_database_url: Callable[[], str]
) -> None:
    """Shows RM2-7.31 on a real Postgres: after a first measurement, in a round, and between rounds."""
    calm, killed = (_home(tmp_path / name, new_database_url()) for name in ("calm", "killed"))
    words = ("--rounds", "3", "--seed", "4", *map(str, SMALL), "--suite", str(suite))
    assert _started(calm, tmp_path / "calm" / "scaffold", *words).wait(timeout=600) == 0
    with open_store(killed.database_url) as store:
        kills = 0
        for kind, count in (("fix", 1), ("block", 1), ("decision", 1), ("proposal", 2)):
            process = _started(killed, tmp_path / "killed" / "scaffold", *words)
            until(lambda: process.poll() is not None or _written(store, kind) >= count, 400)  # noqa: B023
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            process.wait()
        assert kills >= 3
        assert _started(killed, tmp_path / "killed" / "scaffold", *words).wait(timeout=600) == 0
        with open_store(calm.database_url) as other:
            (case,) = store.knowledge.investigations()
            for kind in WRITTEN:
                ours, theirs = (_bodies(each, case.id, kind) for each in (store, other))
                assert ours == theirs, kind
            assert len(_bodies(store, case.id, "decision")) == 3
    refs = [Archive(tmp_path / name / "scaffold", case.id).refs() for name in ("calm", "killed")]
    assert refs[0] == refs[1]


def _home(folder: Path, url: str) -> Settings:
    """With a scaffold of its own, whose first commit is the same in each."""
    scaffold = folder / "scaffold"
    scaffold.mkdir(parents=True)
    for name, text in read_files(CATALOGUE.parent / "scaffolds" / "plain").items():
        (scaffold / name).parent.mkdir(parents=True, exist_ok=True)
        (scaffold / name).write_text(text)
    dates = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _WHO.items()}
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=scaffold, check=True, env={**os.environ, **dates})
    folder.chmod(0o755)
    return Settings(home=folder / "home", database_url=url, backend="local", num_cpus=2)


_WHO = {"NAME": "t", "EMAIL": "t@localhost", "DATE": "1700000000 +0000"}


def _started(settings: Settings, scaffold: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "control_plane.cli.main", "evolve", "run", str(scaffold), *words]
    environment = {**os.environ, **settings.as_environment()}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)


def _written(store: Store, kind: str) -> int:
    return len(store.casework.of_loop("evolve", kind))


def _bodies(store: Store, case_id: str, kind: str) -> dict[str, Any]:
    return {work.key: work.body for work in store.casework.list(case_id, kind)}
