"""A whole investigation by chat with a model, killed twice, approved by somebody else, carried out once.

Everything is real: the demo's training and repository, the processes, the kills. Only the model's words are scripted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_server import Call, Json, ScriptedServer, Turn

from agents.chat import Threads
from context_store import Store
from context_store.records import Proposal
from contracts.enums import EffectKind, EffectState, InvestigationState, ProposalState, Role, Verdict
from control_plane.demo.faults import find_fault
from control_plane.demo.history import lay_out
from control_plane.demo.pair import MAIN, train_pair
from control_plane.projects import register_project
from control_plane.services.ports import choose_port
from control_plane.settings import Settings
from control_plane.wiring import Lathe

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1200.0
LOOK_INTO, WAITS = "please look into what is wrong with main", "what waits for somebody to decide?"


class Colleague:
    """The model's script. Slow once, in the middle of its first answer; of a case it only has feelings."""

    def __init__(self) -> None:
        self.slow = True

    def __call__(self, body: Json) -> Turn:
        messages = body["messages"]
        if messages[0]["content"].startswith("You work on one case"):
            return Turn(text="I have a feeling that it is the data.")
        asked = max(i for i, message in enumerate(messages) if message["role"] == "user")
        question, results = messages[asked]["content"], [m["content"] for m in messages[asked:] if m["role"] == "tool"]
        if LOOK_INTO in question:
            return self._look_into(results)
        if not results:
            return Turn(calls=(Call(name="proposals", arguments='{"state": "open"}'),))
        found = re.search(r"proposal (pr-\w+) is open", results[-1])
        assert found is not None, results[-1]
        return Turn(text=f"The proposal {found[1]} is open [proposal:{found[1]}].")

    def _look_into(self, results: list[str]) -> Turn:
        if not results:
            arguments = json.dumps({"run_id": MAIN})
            return Turn(thinking="first a case", calls=(Call(name="start_investigation", arguments=arguments),))
        found = re.search(r"\[investigation:([\w-]+)\]", results[-1])
        assert found is not None, results[-1]
        text = f"A case of the run main is open [investigation:{found[1]}]."
        return Turn(text=text, delay_s=120.0 if self.slow else 0.0)


def command(env: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    whole = [sys.executable, "-m", "control_plane.cli.main", *arguments]
    return subprocess.Popen(whole, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err[-3000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def kill_when(process: subprocess.Popen[str], moment: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not moment():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def environment(settings: Settings, server: ScriptedServer | None) -> dict[str, str]:
    """Without a server no model is set."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("LATHE_") and "API_KEY" not in key}
    model = {"LATHE_MODEL": "openai/scripted", "LATHE_API_BASE": f"{server.url}/v1"} if server is not None else {}
    return {**known, **settings.as_environment(), **model, "LATHE_ACTOR": "ada"}


@contextmanager
def service(env: dict[str, str], name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One of the processes that `lathe up` starts."""
    process = subprocess.Popen([sys.executable, "-m", f"control_plane.services.{name}", *arguments], env=env, cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def until(moment: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not moment():
        assert time.monotonic() < end
        time.sleep(0.2)


def approved_over_http(store: Store, env: dict[str, str], proposal: Proposal) -> None:
    """By a reviewer's token; that of the researcher who asked is refused."""
    port = choose_port(0, what="API", variable="LATHE_API_PORT")
    address = f"http://127.0.0.1:{port}/api/v1"
    decision = {"comment": "looks right", "bound_hash": proposal.bound_hash}
    tokens = {
        name: store.tokens.create(name, role) for name, role in (("ada", Role.RESEARCHER), ("bob", Role.REVIEWER))
    }
    with service(env, "api", str(port)):
        until(lambda: is_listening(port))
        status = {
            name: httpx.post(
                f"{address}/proposals/{proposal.id}/approve",
                json=decision,
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
            ).status_code
            for name, token in tokens.items()
        }
    assert status == {"ada": 403, "bob": 200}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def lathe(short_folder: Path, database_url: str) -> Any:
    settings = Settings(
        home=short_folder / "home", database_url=database_url, backend="local", num_cpus=2, fresh_seeds=0
    )
    with Lathe.open(settings) as opened:
        history = lay_out(settings.home / "project", find_fault("over_balance"), 1)
        train_pair(opened, register_project(opened.store, history.project), history, 1, lambda: None)
        yield opened


def begun(store: Store) -> bool:
    return any(each.state is not EffectState.REQUESTED for each in store.effects.list())


def interrupted_chat(
    store: Store, env: dict[str, str], server: ScriptedServer | None, script: Colleague
) -> dict[str, Any]:
    """The first answer is killed in the middle, and asked for again."""
    first = command(env, "chat", LOOK_INTO, "--json")
    if server is not None:
        kill_when(first, lambda: len(by_chat(server)) == 2)
    else:
        kill_when(first, lambda: bool(store.knowledge.investigations(run_id=MAIN)))
    (case,) = store.knowledge.investigations(run_id=MAIN)
    script.slow = False
    answer = finish(command(env, "chat", LOOK_INTO, "--json"))
    assert [each.id for each in store.knowledge.investigations(run_id=MAIN)] == [case.id]
    assert f"investigation:{case.id}" in answer["citations"]
    if server is not None:
        assert by_chat(server)[-1]["messages"][2]["reasoning_content"] == "first a case"
    return answer


def by_chat(server: ScriptedServer) -> list[Json]:
    """What the chat asked; the roles in the worker ask the same server."""
    return [each for each in server.requests if not each["messages"][0]["content"].startswith("You work on one case")]


@pytest.mark.slow
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("brain", ["openai/scripted", "rules"])
def test_a_whole_investigation_by_chat(lathe: Lathe, brain: str) -> None:
    """An agent reads the store, starts the work, reviews the verdict and reports; people decide. Shows RM2-7.17.

    A worker beside the chat drives the case; chat and worker are killed once each; with a model, and without one.
    """
    store, script = lathe.store, Colleague()
    with ExitStack() as running:
        server = running.enter_context(ScriptedServer(script)) if brain != "rules" else None
        env = environment(lathe.settings, server)
        with service(env, "worker") as worker:
            answer = interrupted_chat(store, env, server, script)
            assert answer["brain"] == brain
            until(lambda: begun(store))
            worker.kill()
        (case,) = store.knowledge.investigations(run_id=MAIN)
        assert case.state is InvestigationState.OPEN, "it was killed in the middle"

        running.enter_context(service(env, "worker"))
        until(lambda: store.knowledge.investigation(case.id).state is InvestigationState.WAITING_FOR_APPROVAL)
        assert store.knowledge.investigation(case.id).verdict is Verdict.PROVEN
        (fix,) = store.proposals.list(state=ProposalState.OPEN)
        answer = finish(command(env, "chat", WAITS, "--json"))
        assert f"proposal:{fix.id}" in answer["citations"]
        assert "By rules" in store.knowledge.report(case.id), "the critic's feelings were removed"

        num_segments = len(store.runs.segments(MAIN))
        approved_over_http(store, env, fix)
        until(lambda: store.knowledge.investigation(case.id).state is InvestigationState.CLOSED)
    (applied,) = [each for each in store.effects.list() if each.kind is EffectKind.RESUME_WITH_PATCH]
    assert (applied.state, applied.proposal_id) == (EffectState.DONE, fix.id)
    assert len(store.runs.segments(MAIN)) == num_segments + 1
    assert [each.question for each in Threads(store).exchanges("everything:main")] == [LOOK_INTO, WAITS]
    keys = [each.key for each in store.effects.list()]
    assert len(keys) == len(set(keys))
