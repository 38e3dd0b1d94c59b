"""A demo that is killed again and again ends like one that never was, and did nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.enums import EffectKind, EffectState
from control_plane.demo.attempt import demo_settings
from control_plane.demo.faults import find_fault
from control_plane.demo.pair import MAIN
from control_plane.demo.stages import Choice
from control_plane.wiring import Lathe

CHOICE = Choice(fault=find_fault("over_balance"), seed=1, yes=True, with_page=False)
# The demo is killed as soon as it says these, each in an attempt of its own.
MOMENTS = (
    "A training project",
    "main: step 60",
    "main: step 120",
    "begins",
    "completed at step",
    "approved by",
    "main begins",
)
PATIENCE_S = 600.0


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


def _command(home: Path) -> list[str]:
    options = [
        "--fault",
        CHOICE.fault.name,
        "--seed",
        str(CHOICE.seed),
        "--yes",
        "--json",
        "--no-ui",
        "--home",
        str(home),
    ]
    return [sys.executable, "-m", "control_plane.cli.main", "demo", *options]


def _kill_when_it_says(moment: str, home: Path, log: Path) -> None:
    """SIGKILL to the demo alone; what it started has to end by itself."""
    with log.open("w") as said:
        demo = subprocess.Popen(_command(home), stdout=subprocess.DEVNULL, stderr=said, env=os.environ)
        deadline = time.monotonic() + PATIENCE_S
        while moment not in log.read_text() and demo.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert demo.poll() is None, f"the demo ended before it said '{moment}':\n{log.read_text()}"
        demo.send_signal(signal.SIGKILL)
        demo.wait()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_killed_demo_goes_on(home: Path, tmp_path: Path) -> None:
    """SIGKILL at any moment: the same command goes on, no effect twice, no step lost."""
    for moment in MOMENTS:
        _kill_when_it_says(moment, home, tmp_path / "said.txt")
    done = subprocess.run(_command(home), capture_output=True, text=True, check=True)
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert (outcome["verdict"], outcome["verified"]) == ("proven", True)
    assert outcome["culprit_commits"] == outcome["truth_commits"]
    with Lathe.open(demo_settings(CHOICE, home)) as lathe:
        _assert_nothing_twice(lathe)


def _assert_nothing_twice(lathe: Lathe) -> None:
    store = lathe.store
    effects = store.effects.list()
    kinds = Counter(effect.kind for effect in effects)
    assert all(effect.state == EffectState.DONE for effect in effects)
    assert kinds[EffectKind.RESUME_WITH_PATCH] == 1
    runs = [effect.payload["run_id"] for effect in effects if effect.kind == EffectKind.DIAGNOSTIC_RUN]
    assert len(runs) == len(set(runs))
    assert all(len(store.runs.segments(run_id)) == 1 for run_id in runs)
    segments = store.runs.segments(MAIN)
    assert [segment.number for segment in segments] == [0, 1, 2, 3]
    steps = store.series.read(MAIN, "lm_loss").steps.tolist()
    assert steps == list(range(1, segments[-1].last_step + 1))
