"""Watcher of one segment: `python -m control_plane.backends.watch GRACE_S`, launch on stdin, outcome on stdout."""

from __future__ import annotations

import dataclasses
import json
import sys

from contracts.backend import Launch
from contracts.errors import LatheError
from control_plane.backends.segment import died, run_segment

if __name__ == "__main__":
    launch = Launch.from_json(sys.stdin.read())
    try:
        outcome = run_segment(launch, cancel_grace_s=float(sys.argv[1]))
    except LatheError as error:
        outcome = died(launch, error.message, error.remedy)
    sys.stdout.write(json.dumps(dataclasses.asdict(outcome)))
