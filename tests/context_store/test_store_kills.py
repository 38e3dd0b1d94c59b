"""Whatever is killed, whenever: what was acknowledged is there once. `kill_storm.py` does the killing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STORM = Path(__file__).parent / "kill_storm.py"


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(short_folder: Path, kills: int) -> None:
    """Shows R801-2.1 (storage): writer, training, shipper, sealer and Postgres killed with SIGKILL."""
    command = [sys.executable, str(STORM), "--folder", str(short_folder), "--kills", str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills, nothing lost, nothing doubled" in done.stdout
