"""An impatient person presses Ctrl-C twice: the demo still stops its database and trainings."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


def test_a_second_ctrl_c_leaves_nothing_running(home: Path) -> None:
    # A shell that runs tests in the background has its children ignore Ctrl-C, so the default is set first.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from control_plane.cli.main import main; main()"
    demo = subprocess.Popen(
        [sys.executable, "-c", code, "demo", "--healthy", "--no-ui", "--home", str(home)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert demo.stderr is not None
    assert any("A training project" in line for line in demo.stderr)
    assert _running_in(home)
    demo.send_signal(signal.SIGINT)
    time.sleep(0.2)
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "nothing is lost" in said
    assert _running_in(home) == []


def _running_in(home: Path) -> list[str]:
    """Command lines of other processes that name the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "pid"]):
        words = process.info["cmdline"] or []
        if any(str(home) in word for word in words) and "--home" not in words:
            found.append(" ".join(words))
    return found
