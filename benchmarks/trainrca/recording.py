"""Raw outputs of trainings, kept so that none is executed twice: a backend in front of the one that trains.

    CACHE/CODE/CASE/SEED/DIGEST.tar.gz    events of one segment and how it ended

CODE is the hash of what trains, DIGEST that of the launch: code version, fields, start checkpoint, last step. Nothing
here knows what a run was for, and no verdict is kept.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from contracts.backend import Launch, Outcome, TrainerBackend
from contracts.events import CheckpointSaved, Event, SegmentStarted, encode, read_events, segment_folder

ROOT = Path(__file__).parents[2]
_TRAINS = ("contracts", "kernels", "trainer", "control_plane/backends")
_RUN = "RUN_FOLDER"  # stands for the run's folder in kept events
_KEPT = ("completed", "failed")  # ends that come again; not what a machine or a limit did


def code_hash() -> str:
    """Content hash of everything of ours that a training executes."""
    digest = hashlib.sha256()
    for folder in _TRAINS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Recording:
    """A TrainerBackend. After `turn_to(CASE, FOLDER)` the segments in FOLDER stand for those of the run called CASE.

    `fresh`: keep everything, read nothing. `spent_s` is the time that what was read took when it was executed.
    """

    name = "recording"

    def __init__(self, inner: TrainerBackend, cache: Path, *, fresh: bool) -> None:
        self._inner = inner
        self._cache = cache / code_hash()
        self._case_id = ""
        self._recorded: Path | None = None
        self._fresh = fresh
        self._launches: dict[tuple[str, int], Launch] = {}
        self._done: dict[tuple[str, int], Outcome] = {}
        self._seen: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self.spent_s = 0.0
        self.num_executed = 0

    def turn_to(self, case_id: str, recorded: Path) -> None:
        """What is submitted from now on belongs to this case."""
        with self._lock:
            self._case_id, self._recorded = case_id, recorded
            self._seen.clear()

    def submit(self, launch: Launch) -> None:
        """From the case, from the cache, or by training."""
        key = (launch.run_id, launch.segment)
        with self._lock:
            self._launches[key] = launch
            if key in self._done:
                return
            if self._is_recorded(launch):
                assert self._recorded is not None
                self._done[key] = lay_segment(self._recorded, launch)
                return
            file = self._file(launch)
            if file.exists() and not self._fresh:
                self._done[key] = outcome = unpack(file, launch)
                self.spent_s += outcome.wall_s
                return
            self.num_executed += 1
        self._inner.submit(launch)

    def poll(self, run_id: str, segment: int) -> Outcome | None:
        """As the backend behind; what ended by itself is kept."""
        with self._lock:
            if (done := self._done.get((run_id, segment))) is not None:
                return done
        outcome = self._inner.poll(run_id, segment)
        if outcome is not None:
            with self._lock:
                launch = self._launches[run_id, segment]
                self._done[run_id, segment] = outcome
                if outcome.reason in _KEPT:
                    pack(self._file(launch), launch, outcome)
        return outcome

    def cancel(self, run_id: str, segment: int) -> None:
        """As the backend behind."""
        self._inner.cancel(run_id, segment)

    def close(self) -> None:
        """As the backend behind."""
        self._inner.close()

    def _is_recorded(self, launch: Launch) -> bool:
        if self._recorded is None or launch.run_id != self._case_id:
            return False
        return (segment_folder(self._recorded, launch.segment) / "events.log").exists()

    def _file(self, launch: Launch) -> Path:
        """Equal launches of different runs are repeats of each other, and each has a file."""
        start = launch.start_checkpoint and "/".join(Path(launch.start_checkpoint).parts[-3:])
        content = [launch.code_version, sorted(launch.overrides.items()), start, launch.max_step, launch.segment]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        runs = self._seen.setdefault(f"{digest}-{launch.seed}", [])
        if launch.run_id not in runs:
            runs.append(launch.run_id)
        number = runs.index(launch.run_id)
        return self._cache / self._case_id / str(launch.seed) / f"{digest}{f'-{number}' if number else ''}.tar.gz"


def pack(file: Path, launch: Launch, outcome: Outcome) -> None:
    """Keep events and end of a segment, whole or not at all; not its checkpoints."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as draft:
        folder = Path(draft)
        keep_segment(launch, outcome, folder / "segment")
        with tarfile.open(folder / "new.tar.gz", "w:gz") as archive:
            archive.add(folder / "segment", arcname=".")
        (folder / "new.tar.gz").replace(file)


def unpack(file: Path, launch: Launch) -> Outcome:
    """Lay a kept segment where the launch wants it."""
    with tempfile.TemporaryDirectory() as draft, tarfile.open(file) as archive:
        for each in archive:
            archive.extract(tarfile.data_filter(each, draft) if hasattr(tarfile, "data_filter") else each, draft)
        return _lay(Path(draft), launch)


def keep_segment(launch: Launch, outcome: Outcome, target: Path) -> None:
    """Write `events.log` and `outcome.json` of a segment that ended, with no path of this machine."""
    target.mkdir(parents=True)
    log = segment_folder(launch.folder, launch.segment) / "events.log"
    events = (each.event for each in read_events(log)) if log.exists() else iter(())
    (target / "events.log").write_bytes(b"".join(encode(_away(event, launch)) for event in events))
    (target / "outcome.json").write_text(json.dumps(asdict(replace(outcome, run_id=""))))


def lay_segment(recorded: Path, launch: Launch) -> Outcome:
    """Lay a recorded segment of a case, and the checkpoints it wrote."""
    outcome = _lay(segment_folder(recorded, launch.segment), launch)
    for _, inside in kept_checkpoints(recorded, launch.segment):
        if (recorded / inside).is_dir():
            shutil.copytree(recorded / inside, launch.folder / inside, dirs_exist_ok=True)
    return outcome


def kept_checkpoints(recorded: Path, segment: int) -> list[tuple[int, str]]:
    """Step and path inside the run's folder of each checkpoint that a kept segment wrote, there or not."""
    saved = [each for each in _events(segment_folder(recorded, segment)) if isinstance(each, CheckpointSaved)]
    return [(each.step, each.path.removeprefix(f"{_RUN}/")) for each in saved]


def _lay(kept: Path, launch: Launch) -> Outcome:
    folder = segment_folder(launch.folder, launch.segment)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.log").write_bytes(b"".join(encode(_here(event, launch)) for event in _events(kept)))
    fields: dict[str, Any] = json.loads((kept / "outcome.json").read_text())
    return Outcome(**{**fields, "run_id": launch.run_id, "segment": launch.segment})


def _events(folder: Path) -> Iterable[Event]:
    return [each.event for each in read_events(folder / "events.log")]


def _away(event: Event, launch: Launch) -> Event:
    if isinstance(event, CheckpointSaved):
        return replace(event, path=event.path.replace(launch.run_folder, _RUN))
    if isinstance(event, SegmentStarted):
        return replace(event, run_id="", start_checkpoint="")
    return event


def _here(event: Any, launch: Launch) -> Any:
    if isinstance(event, CheckpointSaved):
        return replace(event, path=event.path.replace(_RUN, launch.run_folder))
    if isinstance(event, SegmentStarted):
        return replace(event, run_id=launch.run_id, segment=launch.segment, start_checkpoint=launch.start_checkpoint)
    return event
