"""Checkpoints of a foreign training: found by a glob, kept by hard links, so that its own clean-up does no harm."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from contracts.events import CheckpointSaved
from control_plane.backends.command_spec import CheckpointSection
from control_plane.disk import explained

_CHUNK = 1 << 20
_FOLDER = re.compile(r"^step-(\d+)$")
_Fingerprint = tuple[tuple[str, int, int], ...]


class CheckpointWatch:
    """Finds what is new below `output` and keeps it as `<kept>/step-000120/<its own name>`."""

    def __init__(self, section: CheckpointSection, output: Path, kept: Path) -> None:
        self._section = section
        self._output = output
        self._kept = kept
        self._looks: dict[Path, _Fingerprint] = {}
        self._done: set[Path] = set()

    def look(self, *, logged: int, ended_well: bool = False) -> list[CheckpointSaved]:
        """Those that are complete, oldest first.

        Complete: unchanged since the last look, and the log stands at its step or, without a marker, behind it, since
        then the training has gone on. `ended_well`: it ended by itself, so all that is there is complete.
        Raises EnvironmentFault.
        """
        found = []
        for step, path in self._candidates():
            if path in self._done or not (ended_well or self._is_settled(path, step, logged)):
                continue
            self._done.add(path)
            if (kept := self._keep(step, path)) is not None:
                found.append(kept)
        return found

    def _candidates(self) -> list[tuple[int, Path]]:
        found = []
        for path in self._output.glob(self._section.glob):
            match = re.search(self._section.step, path.relative_to(self._output).as_posix())
            if match and match[1].isdigit() and (not self._section.marker or (path / self._section.marker).exists()):
                found.append((int(match[1]), path))
        return sorted(found)

    def _is_settled(self, path: Path, step: int, logged: int) -> bool:
        before, now = self._looks.get(path), _fingerprint(path)
        self._looks[path] = now
        return before == now and (logged >= step if self._section.marker else logged > step)

    def _keep(self, step: int, path: Path) -> CheckpointSaved | None:
        """None when the training removed it meanwhile."""
        folder = self._kept / f"step-{step:06d}"
        with explained(folder):
            if not folder.exists() and not self._link(path, folder):
                return None
            digest, size_bytes = _content(folder)
        return CheckpointSaved(step=step, path=str(folder), sha256=digest, size_bytes=size_bytes)

    def _link(self, path: Path, folder: Path) -> bool:
        """The same files at a second place, whole or not at all; False when they are gone."""
        draft = self._kept / f".{folder.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            if path.is_dir():
                shutil.copytree(path, draft / path.name, copy_function=os.link)
            else:
                os.link(path, draft / path.name)
        except OSError:
            shutil.rmtree(draft)
            if path.exists():
                raise
            return False
        draft.rename(folder)
        return True


def checkpoint_step(folder: str) -> int:
    """Step of a kept checkpoint; 0 for ""."""
    match = _FOLDER.match(Path(folder).name)
    return int(match[1]) if match else 0


def own_path(folder: str) -> str:
    """The checkpoint under its own name, as its training wants it; "" for ""."""
    return str(next(Path(folder).iterdir())) if folder else ""


def _files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def _fingerprint(path: Path) -> _Fingerprint:
    found = []
    for file in _files(path):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        found.append((str(file), stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _content(folder: Path) -> tuple[str, int]:
    """sha256 over names and contents, and the size in bytes."""
    digest, size_bytes = hashlib.sha256(), 0
    for path in _files(folder):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size_bytes += len(chunk)
    return digest.hexdigest(), size_bytes
