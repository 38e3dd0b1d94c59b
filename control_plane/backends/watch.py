"""Watcher of one segment: `python -m control_plane.backends.watch GRACE_S`, launch on stdin, outcome on stdout."""

from __future__ import annotations

import dataclasses
import json
import sys

from contracts.backend import Launch
from contracts.errors import LatheError
from control_plane.backends.command_segment import run_launch
from control_plane.backends.segment import died

if __name__ == "__main__":
    launch = Launch.from_json(sys.stdin.read())
    try:
        outcome = run_launch(launch, cancel_grace_s=float(sys.argv[1]))
    except LatheError as error:
        outcome = died(launch, error.message, error.remedy)
    sys.stdout.write(json.dumps(dataclasses.asdict(outcome)))
