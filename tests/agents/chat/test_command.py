"""`lathe chat` as a process: with and without a model, and killed in the middle of an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Call, ScriptedServer, Turn

from agents.chat import Threads
from benchmarks.agent_parts.stored_case import CASE, RUN, Stored
from context_store import Store

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "control_plane.cli.main", "chat"]
LOOK = Call(name="case_file", arguments=json.dumps({"investigation_id": CASE}))


def environment(store: Store, home: Path, server: ScriptedServer | None = None) -> dict[str, str]:
    model = {"LATHE_MODEL": "openai/scripted", "LATHE_API_BASE": f"{server.url}/v1"} if server else {"LATHE_MODEL": ""}
    known = {key: value for key, value in os.environ.items() if not key.startswith("LATHE_") and "API_KEY" not in key}
    return {**known, "LATHE_HOME": str(home), "LATHE_DATABASE_URL": store.url, **model}


def chat(env: dict[str, str], *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=env, cwd=ROOT, input=lines, capture_output=True, text=True, check=False, timeout=120
    )


def lathe(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND[:-1], *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_without_a_model_it_answers_from_the_store(still_store: Store, stored: Stored, short_folder: Path) -> None:
    env = environment(still_store, short_folder)
    lines = f"why did max_vio spike in {RUN}?\n\nwhat is the weather in Paris?\n{'x' * 5000}\nquit\nnever read\n"
    done = chat(env, lines=lines)
    assert done.returncode == 0, done.stderr
    assert f"[verdict:{stored.verdict_id}]" in done.stdout
    assert "The store does not know: " in done.stdout
    assert "longer than 4000 characters" in done.stderr
    assert "Traceback" not in done.stderr
    kept = [each.question for each in Threads(still_store).exchanges("everything:main")]
    assert kept == [f"why did max_vio spike in {RUN}?", "what is the weather in Paris?"]
    wrong = chat(env, "why?", "--case", "nothing")
    assert wrong.returncode == 2
    assert "no investigation 'nothing'" in wrong.stderr


def test_a_report_is_written_and_providers_are_named(
    still_store: Store, stored: Stored, short_folder: Path, tmp_path: Path
) -> None:
    env = environment(still_store, short_folder)
    still_store.knowledge.put_report(CASE, f"# The case\n\n- it departs (`anomaly:{stored.anomaly_id}`)\n")
    page, text = tmp_path / "case.html", tmp_path / "case.md"
    found = last_json(lathe(env, "report", CASE, "--html", str(page), "--markdown", str(text), "--json"))
    assert (found["brain"], found["removed_share"], found["num_plots"]) == ("rules", 0.0, 1)
    assert "(case-1.svg)" in text.read_text()
    assert (tmp_path / "case-1.svg").read_text() in page.read_text()
    flows = last_json(lathe(env, "providers", "--json"))["flows"]
    assert {each["leaves_machine"] for each in flows} == {False}


REDACTED = {"type": "redacted_thinking", "data": "/+8A7bmW0Q=="}
FIRST = Turn(thinking="first\tlook ", signature="c2ln", blocks=(REDACTED,), calls=(LOOK,))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai/scripted", "anthropic/claude-sonnet-4-5"])
def test_killed_in_the_middle_it_goes_on_with_the_same_question(
    still_store: Store, stored: Stored, short_folder: Path, name: str
) -> None:
    """Nothing that was read before the kill is read again, and no thinking is lost, of a field or of signed blocks."""
    claim = f"The balance commit causes it [verdict:{stored.verdict_id}]."
    slow = Turn(text=claim, delay_s=60)
    with ScriptedServer([FIRST, slow, slow, Turn(text=claim)]) as server:
        env = environment(still_store, short_folder, server)
        if name.startswith("anthropic"):
            env |= {"LATHE_MODEL": name, "LATHE_API_BASE": server.url, "LATHE_THINKING_TOKENS": "1024"}
        for num_requests in (2, 3):
            process = subprocess.Popen([*COMMAND, "why?", "--run", RUN, "--json"], env=env, cwd=ROOT)
            while len(server.requests) < num_requests:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
        answer = last_json(chat(env, "why?", "--run", RUN, "--json"))
    assert answer["brain"] == name
    assert answer["citations"] == [f"verdict:{stored.verdict_id}"]
    spoken = [[m for m in each["messages"] if m["role"] != "system"] for each in server.requests]
    assert [len(each) for each in spoken] == [1, 3, 3, 3]
    first = spoken[3][1]
    if name.startswith("anthropic"):
        signed = {"type": "thinking", "thinking": "first\tlook ", "signature": "c2ln"}
        assert first["content"][:2] == [signed, REDACTED]
    else:
        assert first["reasoning_content"] == "first\tlook "
    assert still_store.effects.list() == []
