"""What this machine and this Python are: the facts of `context_store.environment`, read off on the spot."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from contracts.events import Scalar

_DRIVER = Path("/proc/driver/nvidia/version")
_QUERY = ["nvidia-smi", "--query-gpu=index,name,driver_version", "--format=csv,noheader"]


def this_machine() -> dict[str, Scalar]:
    """Host, platform, Python, number of CPUs, all installed packages, and driver and devices where there are any."""
    facts: dict[str, Scalar] = {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "num_cpus": os.cpu_count(),
    }
    for package in metadata.distributions():
        if package.name:
            facts[f"package.{package.name.lower()}"] = package.version
    return facts | _devices()


def _devices() -> dict[str, Scalar]:
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, check=False, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return {"driver": _DRIVER.read_text().splitlines()[0]} if _DRIVER.is_file() else {}
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    facts: dict[str, Scalar] = {f"device.{row[0]}": row[1] for row in rows if len(row) == 3}
    return facts | ({"driver": rows[0][2]} if facts else {})
