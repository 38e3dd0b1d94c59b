"""The two tiers of points: what is logged goes to the hot tail, and from there into sealed chunks.

A point is (series, segment, step, value); arrival decides between values of one step (context_store.arrays). What is
in the tail arrived after what is sealed. Loads, seals and deletes of one run exclude each other by `lock_run`, and each
of them is one transaction: a killed process leaves the state before or after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sqlalchemy as sa

from context_store import frames, sealed
from context_store.arrays import FIRST_STEP, LAST_STEP, Points
from context_store.database import driver
from context_store.frames import Frame
from contracts.errors import NotFound

# The tail of a segment is sealed by whoever makes it this large. As many frames as a chunk has points: no merging.
SEAL_FRAMES = 1024
SEAL_POINTS = 4_000_000
_BULK_FRAMES = 256  # a load of this many frames is sealed at once instead of passing through the tail
_SLICE_POINTS = 500_000  # bounds the memory of sealing


def lock_run(connection: sa.Connection, run_id: str) -> int:
    """Until the transaction ends nobody else writes or deletes points of this run. Returns the run's number.

    Raises NotFound.
    """
    raw = driver(connection)
    raw.execute("SELECT pg_advisory_xact_lock(hashtextextended('points:' || %s, 0))", [run_id])
    return run_number(connection, run_id)


def run_number(connection: sa.Connection, run_id: str) -> int:
    """What points know a run by: never given again, not even when the run is deleted and made anew."""
    row = driver(connection).execute("SELECT number FROM run WHERE id = %s", [run_id]).fetchone()
    if row is None:
        raise NotFound(f"no run '{run_id}'", remedy="create the run before its points are written")
    return int(row[0])


def append(connection: sa.Connection, number: int, segment: int, logged: Sequence[Frame]) -> int:
    """Store frames of one segment of a locked run; returns how many points are new, 0 for a replay."""
    if not logged:
        return 0
    if len(logged) >= _BULK_FRAMES:
        return write(connection, number, _slices(segment, logged))
    sealed_step = _sealed_step(connection, number, segment)
    fresh = [frame for frame in logged if sealed_step is None or frame.step > sealed_step]
    late = [frame for frame in logged if sealed_step is not None and frame.step <= sealed_step]
    fresh += _unsealed(connection, segment, late)
    if not fresh:
        return 0
    inserted = frames.insert(connection, number, segment, fresh)
    if inserted.tail_frames >= SEAL_FRAMES or inserted.tail_points >= SEAL_POINTS:
        seal(connection, number)
    return inserted.num_points


def write(connection: sa.Connection, number: int, parts: Iterable[Points]) -> int:
    """Store many points of a locked run as chunks, part by part; returns how many are new."""
    seal(connection, number)
    new = 0
    for part in parts:
        new += sealed.merge(connection, part)
        for segment in np.unique(part.segments).tolist():
            highest = int(part.steps[part.segments == segment].max())
            driver(connection).execute(_RAISE_SEALED, {"number": number, "segment": segment, "step": highest})
    return new


def read(
    connection: sa.Connection, run_id: str, series: Sequence[int], lo: int | None = None, hi: int | None = None
) -> Points:
    """Both tiers of these series of a run between the inclusive steps, distinct and sorted."""
    if not series:
        return Points.join([])
    first, last = FIRST_STEP if lo is None else lo, LAST_STEP if hi is None else hi
    query = "SELECT number, segment, num_frames FROM run JOIN tail ON run_number = number WHERE id = %s"
    tails = driver(connection).execute(query, [run_id], binary=True).fetchall()
    found = sealed.read(connection, series, [segment for _, segment, _ in tails], first, last)
    if any(num_frames for _, _, num_frames in tails):
        tail = frames.read(connection, tails[0][0], np.array(sorted(series), np.int32), first, last)
        found = Points.join([found, tail]).distinct()
    return found


def seal(connection: sa.Connection, number: int, *, last: bool = False) -> int:
    """Move the tail of a locked run into chunks; reads see no difference. Returns how many points the tail had.

    `last`: no more points are expected, so small chunks are joined whatever it costs.
    """
    num_points = sum(row[0] for row in driver(connection).execute(_TAIL_POINTS, [number]).fetchall())
    if not num_points:
        return 0
    sets = [frames.unpack(packed) for packed in frames.packed_sets(connection, number)]
    ids = np.unique(np.concatenate(sets))
    for part in np.array_split(ids, min(len(ids), -(-num_points // _SLICE_POINTS))):
        sealed.merge(connection, frames.read(connection, number, part, FIRST_STEP, LAST_STEP), last=last)
    driver(connection).execute(_FORGET_TAIL, {"number": number})
    driver(connection).execute("DELETE FROM frame WHERE run_number = %s", [number])
    return int(num_points)


def _slices(segment: int, logged: Sequence[Frame]) -> Iterator[Points]:
    """Frames as points, a bounded number at a time, frames in order."""
    start = size = 0
    for index, frame in enumerate(logged):
        if size > _SLICE_POINTS:
            yield frames.points_of(segment, logged[start:index])
            start, size = index, 0
        size += len(frame.series.ids)
    yield frames.points_of(segment, logged[start:])


def _sealed_step(connection: sa.Connection, number: int, segment: int) -> int | None:
    """The highest step of the segment that was ever sealed. Sees to it that the segment has a row in `tail`."""
    query = "SELECT sealed_step FROM tail WHERE run_number = %s AND segment = %s"
    row = driver(connection).execute(query, [number, segment]).fetchone()
    if row is None:
        insert = "INSERT INTO tail (run_number, segment, num_frames, num_points) VALUES (%s, %s, 0, 0)"
        driver(connection).execute(insert, [number, segment])
        return None
    return row[0] if row[0] is None else int(row[0])


def _unsealed(connection: sa.Connection, segment: int, late: Sequence[Frame]) -> list[Frame]:
    """Frames that are not wholly among the sealed points."""
    if not late:
        return []
    sets = {frame.series.packed: frame.series.ids for frame in late}
    ids = np.unique(np.concatenate(list(sets.values())))
    steps = [frame.step for frame in late]
    known = sealed.read(connection, ids.tolist(), [segment], min(steps), max(steps))
    known = known.take(np.argsort(known.steps, kind="stable"))
    missing = []
    for frame in late:
        start, end = np.searchsorted(known.steps, [frame.step, frame.step + 1])
        if not _holds(known.take(slice(int(start), int(end))), frame):
            missing.append(frame)
    return missing


def _holds(known: Points, frame: Frame) -> bool:
    """Are the frame's values among the points of its step, which are sorted by series?"""
    ids, wanted = frame.series.ids, frame.array()
    if len(known) == len(wanted) and (known.series == ids).all():
        return known.values.tobytes() == wanted.tobytes()
    there = set(zip(known.series.tolist(), known.values.view(np.int64).tolist(), strict=True))
    return there.issuperset(zip(ids.tolist(), wanted.view(np.int64).tolist(), strict=True))


_TAIL_POINTS = "SELECT num_points FROM tail WHERE run_number = %s AND num_frames > 0"
_RAISE_SEALED = """
    INSERT INTO tail (run_number, segment, num_frames, num_points, sealed_step)
    VALUES (%(number)s, %(segment)s, 0, 0, %(step)s)
    ON CONFLICT (run_number, segment) DO UPDATE SET sealed_step = greatest(tail.sealed_step, excluded.sealed_step)
"""
_FORGET_TAIL = """
    UPDATE tail SET num_frames = 0, num_points = 0, sealed_step = greatest(sealed_step, (
        SELECT max(step) FROM frame WHERE frame.run_number = tail.run_number AND frame.segment = tail.segment))
    WHERE run_number = %(number)s AND num_frames > 0
"""
