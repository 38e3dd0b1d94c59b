"""Watches running trainings for silence. Remembers when the last step of each arrived."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from context_store import Store
from context_store.records import Run
from contracts.enums import RunRole, RunState
from control_plane.backends.segment import is_running
from control_plane.run_folders import segment_numbers
from loops.debug import Pause, note_silence

_EVERY_S = 15.0
_NEWEST = 200  # runs that are looked at


@dataclass(frozen=True)
class _Seen:
    last_step: int
    at: float
    said: bool = False


class SilenceWatch:
    """`look` tells each silent run once; when it speaks again and falls silent again, it is told again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, _Seen] = {}
        self._looked_at = float("-inf")

    def look(self, now: float) -> list[str]:
        """One sentence for each run that was found silent at this look. `now`: unix seconds."""
        if now - self._looked_at < _EVERY_S:
            return []
        self._looked_at = now
        running = [run for run in self._store.runs.list(limit=_NEWEST) if _is_watched(run)]
        self._seen = {run.id: self._seen[run.id] for run in running if run.id in self._seen}
        return [f"{run.id}: {said}" for run in running if (said := self._silence_of(run, now))]

    def _silence_of(self, run: Run, now: float) -> str:
        seen = self._seen.get(run.id)
        if seen is None or seen.last_step != run.last_step:
            self._seen[run.id] = _Seen(run.last_step, now)
            return ""
        if seen.said:
            return ""
        found = note_silence(self._store, run.id, Pause(quiet_s=now - seen.at, alive=_alive(run)))
        if found is None:
            return ""
        self._seen[run.id] = _Seen(run.last_step, seen.at, said=True)
        return found.statement


def _is_watched(run: Run) -> bool:
    return run.state is RunState.RUNNING and run.role is RunRole.TRAINING


def _alive(run: Run) -> bool | None:
    """None for a training elsewhere, and while nobody has begun: a process that is gone is seen by its lock."""
    folder = Path(run.folder)
    numbers = segment_numbers(folder) if folder.is_dir() else []
    return is_running(folder, numbers[-1]) if numbers else None
