"""Who lives, seen by locks that end with their holder; and what a killed worker had in hand goes on at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from case import CASE, diagnostic, train_bad_run
from small_project import SmallProject, until

from contracts.enums import EffectKind, EffectState, InvestigationState
from control_plane.presence import Presence
from control_plane.wiring import Lathe
from control_plane.worker import Worker, is_outage

HOLDER = """
import sys, time
from pathlib import Path
from control_plane.presence import Presence
with Presence(Path(sys.argv[1])).shown(sys.argv[2]):
    print("here", flush=True)
    time.sleep(60)
"""


def kill_holder(folder: Path, name: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), name], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    assert Presence(folder).gone() == []
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_who_was_killed_is_gone_and_who_left_is_not_missed(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    kill_holder(tmp_path, "host.example:1/2")
    with presence.shown("b"):
        assert presence.gone() == ["host.example:1/2"]
        presence.forget(["host.example:1/2"])
        assert presence.gone() == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_worker_had_in_hand_goes_on_at_once(lathe: Lathe, small_project: SmallProject) -> None:
    """The clock stands still, so that no lease ends."""
    train_bad_run(lathe, small_project)
    lathe.store.knowledge.set_investigation(CASE, state=InvestigationState.CLOSED)
    diagnostic(lathe, small_project)
    now = time.time()
    kill_holder(lathe.settings.workers_folder, "dead")
    assert lathe.store.effects.claim("dead", [EffectKind.DIAGNOSTIC_RUN], 3600.0, now) is not None
    assert lathe.store.effects.claim("other", [EffectKind.DIAGNOSTIC_RUN], 3600.0, now) is None
    with Worker(lathe, name="living") as worker:

        def done() -> bool:
            worker.step()
            return lathe.store.effects.get("d1").state is EffectState.DONE

        until(done)
    assert (lathe.store.effects.get("d1").worker, lathe.store.effects.get("d1").attempt) == ("living", 2)


def test_an_outage_is_told_from_a_failure_of_the_case() -> None:
    """Also behind the error that LangGraph makes of it."""
    with pytest.raises(AttributeError) as hidden:
        _hide_outage()
    assert is_outage(hidden.value)
    assert not is_outage(AttributeError("of the loop"))
    assert not is_outage(psycopg.errors.DiskFull())


def _hide_outage() -> None:
    try:
        psycopg.connect("postgresql://lathe@/lathe?host=/nowhere")
    except psycopg.OperationalError:
        raise AttributeError("of the graph")  # noqa: B904 (it is raised while the other one is handled)
