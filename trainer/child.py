"""The training process: `python -m trainer.child LAUNCH.json`, run in the project's folder.

A training of several processes starts the others as `... LAUNCH.json RANK HOST:PORT`; they end with the first.
SIGTERM and SIGINT end it after the present step with a checkpoint. Exit status: 0 completed or stopped, 1 the
training failed, 2 the project or its config must be corrected, 3 the machine must be repaired. Whatever ends it
is the last event of the segment's log, as far as the disk takes it.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from contracts.backend import Launch
from contracts.errors import EnvironmentFault, LatheError, UserInputError


class StopRequest:
    """Remembers that a signal asked the process to stop."""

    def __init__(self) -> None:
        self._is_set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def __call__(self) -> bool:
        return self._is_set

    def _receive(self, number: int, frame: object) -> None:
        self._is_set = True


def main(arguments: list[str]) -> int:
    """Run one launch and return the exit status."""
    stop = StopRequest()
    try:
        launch = _read_launch(arguments)
        from trainer.session import follow_launch, run_launch  # imports torch: only now that signals are caught

        if len(arguments) < 3:
            return run_launch(launch, stop, arguments[0])
        path, rank, address = arguments
        return follow_launch(launch, int(rank), address) if rank != "0" else run_launch(launch, stop, path, address)
    except LatheError as error:
        sys.stderr.write(f"{error}\n")
        return 3 if isinstance(error, EnvironmentFault) else 2


def _read_launch(arguments: list[str]) -> Launch:
    try:
        return Launch.from_json(Path(arguments[0]).read_text())
    except (IndexError, OSError, json.JSONDecodeError, TypeError) as error:
        raise UserInputError(
            f"no launch can be read from {arguments}: {error}",
            remedy="give one JSON file with the fields of contracts.backend.Launch",
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
