"""What somebody outside asks of a training while it runs: files in its segment folder (contracts/backend.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from contracts.backend import CHECKPOINT_GRANTED, CHECKPOINT_WISH, PAUSE_GRANTED, PAUSE_WISH

_POLL_S = 0.1


class Wishes:
    """Looks at the folder after each step; two stat calls cost microseconds."""

    def __init__(self, folder: Path, stop_requested: Callable[[], bool]) -> None:
        self._folder = folder
        self._stop_requested = stop_requested
        (folder / PAUSE_GRANTED).unlink(missing_ok=True)  # of a process that died in its pause

    def checkpoint(self) -> bool:
        """True when a checkpoint is wanted now: it was asked for, or the training is to pause."""
        return (self._folder / CHECKPOINT_WISH).exists() or (self._folder / PAUSE_WISH).exists()

    def saved(self) -> None:
        """The checkpoint is there: grant the wish, and pause while that is asked for. A stop ends the pause."""
        wish, granted = self._folder / CHECKPOINT_WISH, self._folder / PAUSE_GRANTED
        if wish.exists():
            wish.replace(self._folder / CHECKPOINT_GRANTED)
        while (self._folder / PAUSE_WISH).exists() and not self._stop_requested():
            granted.touch()
            time.sleep(_POLL_S)
        granted.unlink(missing_ok=True)
