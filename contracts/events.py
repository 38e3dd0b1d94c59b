"""Training events: what a training appends to its run folder, and how a line is framed.

A run folder is `<run>/segment-000/events.log` plus `<run>/checkpoints/step-000120/`. One event is one line
`crc32 json\\n`; a torn last line is ignored and read again later. NaN and both infinities survive. A segment
is one start or resume, written by exactly one process. Anything that can write such lines is a training to Lathe.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from contracts.errors import LogFormatError

Scalar = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class SegmentStarted:
    """First event of a segment: everything that is known before the first step."""

    kind: ClassVar[str] = "segment_started"
    run_id: str
    segment: int
    start_step: int  # steps already completed; 0 for a fresh start
    code_version: str  # commit hash, or "" when the project is not under git
    seed: int
    dp_size: int
    start_checkpoint: str  # path, "" for random weights
    config: Mapping[str, Scalar]  # declared, flat, dotted keys
    environment: Mapping[str, Scalar]  # packages, python, cpu, threads, host
    wall_time: float  # unix seconds


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Values measured at one optimizer step (1-based: after the first step it is 1)."""

    kind: ClassVar[str] = "metrics"
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Effective:
    """What was really used from this step on, where it differs from the last such event (dotted keys)."""

    kind: ClassVar[str] = "effective"
    step: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class DataRead:
    """Identity of the ordered samples of one step, and the position in the global order after it."""

    kind: ClassVar[str] = "data_read"
    step: int
    sample_hash: str  # of the ordered global sample ids
    position: int  # samples consumed so far


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved:
    """A checkpoint that is complete on disk; `sha256` covers its content."""

    kind: ClassVar[str] = "checkpoint_saved"
    step: int
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class CodeExecuted:
    """Which project files the process imported (content hash) and which of their lines it ran."""

    kind: ClassVar[str] = "code_executed"
    step: int
    modules: Mapping[str, str]  # path relative to the project -> sha256
    lines: Mapping[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Last event of a segment that ended by itself. `reason`: completed, stopped or failed."""

    kind: ClassVar[str] = "finished"
    step: int
    reason: str
    message: str = ""
    remedy: str = ""


Event = SegmentStarted | Metrics | Effective | DataRead | CheckpointSaved | CodeExecuted | Finished
_TYPES: dict[str, type[Any]] = {
    t.kind: t for t in (SegmentStarted, Metrics, Effective, DataRead, CheckpointSaved, CodeExecuted, Finished)
}


def encode(event: Event) -> bytes:
    """One framed line."""
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    body = json.dumps({"kind": event.kind, **fields}, separators=(",", ":"), ensure_ascii=False).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(line: bytes, *, where: str) -> Event:
    """Inverse of `encode` (without the newline). Raises LogFormatError naming `where`."""
    checksum, _, body = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(body):
            raise ValueError("checksum differs")
        fields = json.loads(body)
        event: Event = _TYPES[fields.pop("kind")](**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFormatError(
            f"{where}: not a training event ({error})",
            remedy="the lines before it are sound and were kept; restore the file or remove the damaged line",
        ) from error
    return event


@dataclass(frozen=True, kw_only=True)
class Read:
    """One event with the byte offset behind it, at which reading can go on."""

    event: Event
    end_offset: int


def read_events(path: Path, *, offset: int = 0) -> Iterator[Read]:
    """Events of `events.log` from `offset` on. Stops silently at a torn last line."""
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            start, offset = offset, offset + len(line)
            yield Read(event=decode(line[:-1], where=f"{path} at byte {start}"), end_offset=offset)


def segment_folder(run_folder: Path, segment: int) -> Path:
    """Where a segment's `events.log` lies."""
    return run_folder / f"segment-{segment:03d}"
