"""Ask a running training for something; the files are described in contracts/backend.py.

Each function may be called again and again and says whether the wish is fulfilled.
"""

from __future__ import annotations

from pathlib import Path

from contracts.backend import CHECKPOINT_GRANTED, CHECKPOINT_WISH, PAUSE_GRANTED, PAUSE_WISH, Launch
from contracts.events import segment_folder
from control_plane.backends.segment import request_stop


def ask_stop(launch: Launch, key: str) -> bool:
    """Fulfilled once nothing trains the segment any more, which the caller sees."""
    request_stop(launch)
    return False


def ask_pause(launch: Launch, key: str) -> bool:
    """A checkpoint, then no further step. The process stays and holds its memory."""
    (_folder(launch) / PAUSE_WISH).touch()
    return (_folder(launch) / PAUSE_GRANTED).exists()


def end_pause(launch: Launch, key: str) -> bool:
    """The training goes on."""
    (_folder(launch) / PAUSE_WISH).unlink(missing_ok=True)
    return not (_folder(launch) / PAUSE_GRANTED).exists()


def ask_checkpoint(launch: Launch, key: str) -> bool:
    """A checkpoint after the present step; one for each `key`."""
    granted = _folder(launch) / CHECKPOINT_GRANTED
    if granted.exists() and granted.read_text() == key:
        return True
    draft = _folder(launch) / f"{CHECKPOINT_WISH}.new"
    draft.write_text(key)
    draft.replace(_folder(launch) / CHECKPOINT_WISH)
    return False


def _folder(launch: Launch) -> Path:
    return segment_folder(launch.folder, launch.segment)
