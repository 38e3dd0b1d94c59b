"""Segments of a run folder as Lathe hands them out: each belongs to one owner and is made whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from contracts.backend import Launch
from contracts.errors import LogFormatError, NotFound
from contracts.events import Scalar, SegmentStarted, read_events, segment_folder
from control_plane.disk import explained


def claim_segment(run_folder: Path, owner: str, describe: Callable[[int], Launch]) -> Launch:
    """The launch of the segment that belongs to `owner`: the one it got before, else `describe(next number)`.

    `owner` names the reason, for instance an effect's key, so that a repeated request gets the same segment.
    Raises DiskFull, EnvironmentFault.
    """
    with explained(run_folder):
        run_folder.mkdir(parents=True, exist_ok=True)
        while True:
            numbers = segment_numbers(run_folder)
            for number in numbers:
                if segment_owner(run_folder, number) == owner:
                    return read_launch(run_folder, number)
            launch = describe(len(numbers))
            if _create(run_folder, owner, launch):
                return launch


def segment_numbers(run_folder: Path) -> list[int]:
    """Ascending numbers of the segments in the folder."""
    return sorted(int(path.name.removeprefix("segment-")) for path in run_folder.glob("segment-[0-9]*"))


def segment_number(run_folder: Path, owner: str) -> int:
    """The segment that was handed out to `owner`. Raises NotFound."""
    for number in segment_numbers(run_folder):
        if segment_owner(run_folder, number) == owner:
            return number
    raise NotFound(f"{run_folder} has no segment of {owner}", remedy="restore the run folder")


def started_config(run_folder: Path, segment: int) -> Mapping[str, Scalar]:
    """The whole config that a segment began with; empty when its log does not say."""
    log = segment_folder(run_folder, segment) / "events.log"
    events = (read.event for read in read_events(log)) if log.exists() else iter(())
    return next((event.config for event in events if isinstance(event, SegmentStarted)), {})


def read_launch(run_folder: Path, segment: int) -> Launch:
    """What the segment was started with. Raises NotFound without a launch.json, LogFormatError for a damaged one."""
    path = segment_folder(run_folder, segment) / "launch.json"
    try:
        return Launch.from_json(path.read_text())
    except FileNotFoundError as error:
        raise NotFound(f"{path} is gone", remedy="restore the run folder, or begin another run") from error
    except (ValueError, TypeError) as error:
        raise LogFormatError(
            f"{path} is damaged: {error}", remedy="restore it from a backup, or begin another run"
        ) from error


def segment_owner(run_folder: Path, segment: int) -> str:
    """Who it belongs to; "" when it was not handed out here."""
    path = segment_folder(run_folder, segment) / "owner"
    return path.read_text() if path.exists() else ""


def _create(run_folder: Path, owner: str, launch: Launch) -> bool:
    """False when somebody else took the number meanwhile."""
    draft = Path(tempfile.mkdtemp(prefix=".claim-", dir=run_folder))
    (draft / "owner").write_text(owner)
    (draft / "launch.json").write_text(launch.to_json())
    try:
        os.rename(draft, segment_folder(run_folder, launch.segment))
    except OSError:
        shutil.rmtree(draft)
        if not segment_folder(run_folder, launch.segment).exists():
            raise
        return False
    return True
