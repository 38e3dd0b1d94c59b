"""A demo that is killed again and again ends like one that never was, and did nothing twice."""

from __future__ import annotations

import json
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


def _attempt(home: Path, folder: Path, moment: str | None) -> str:
    """What the demo prints when it gets to its end; "" when it was killed by SIGKILL as soon as it said `moment`.

    The signal goes to the demo alone; whatever it started has to end by itself.
    """
    said, printed = folder / "said.txt", folder / "printed.txt"
    with said.open("w") as err, printed.open("w") as out:
        demo = subprocess.Popen(_command(home), stdout=out, stderr=err)
        deadline = time.monotonic() + PATIENCE_S
        while demo.poll() is None and time.monotonic() < deadline:
            if moment is not None and moment in said.read_text():
                demo.send_signal(signal.SIGKILL)
                demo.wait()
                return ""
            time.sleep(0.05)
        demo.kill()
    assert demo.wait() == 0, said.read_text()
    return printed.read_text()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_killed_demo_goes_on(home: Path, tmp_path: Path) -> None:
    """SIGKILL at any moment: the same command goes on, no effect twice, no step lost."""
    kills = [_attempt(home, tmp_path, moment) for moment in MOMENTS]
    assert kills[:-1] == [""] * (len(MOMENTS) - 1)
    printed = kills[-1] or _attempt(home, tmp_path, None)
    outcome = json.loads(printed.splitlines()[-1])
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
