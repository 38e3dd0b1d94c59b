"""TensorBoard event files: frames (TFRecord) and the events in them, decoded in numpy where they look alike.

Frame: u64 length, u32 masked crc32c of it, payload, u32 masked crc32c. Event: wall_time = 1, step = 2 (absent when 0),
file_version = 3, summary = 5 {value = 1 {tag = 1, simple_value = 2, tensor = 8, metadata = 9}}, session_log = 7.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from context_store.importers.crc32c import Bytes, Index, crc32c, masked
from context_store.importers.items import Problem
from context_store.importers.tfevents_slow import Event, parse_event

_LENGTH = struct.Struct("<Q")
_FRAMES_A_TIME = 100_000
_HEADER, _FOOTER = 12, 4


@dataclass(frozen=True, kw_only=True)
class Scalars:
    """Parallel arrays in the order of the file; `tags[tag[i]]` names point i. `events`: what is no plain scalar."""

    tags: list[str]
    tag: NDArray[np.int32]
    step: NDArray[np.int64]
    wall: NDArray[np.float64]
    value: NDArray[np.float64]
    events: list[Event]

    def __len__(self) -> int:
        return len(self.step)


def read_scalars(path: Path) -> Iterator[Scalars | Problem]:
    """Batches of bounded size. A torn end is reported, a damaged record too; what follows it is read."""
    size = path.stat().st_size
    if not size:
        return
    data = np.memmap(path, np.uint8, mode="r")
    position = 0
    while position < size:
        starts, lengths, position, torn = _frames(data, position)
        good, problems, resume = _check(path, data, starts, lengths)
        if len(good):
            yield _decode(data, starts[good], lengths[good])
        yield from problems
        if resume is not None or torn:
            bad = resume if resume is not None else position
            found = _next_frame(data, bad + 1)
            what = "torn: the file ends inside a record" if found is None else f"damaged; read on at byte {found}"
            yield Problem(file=str(path), position=f"byte {bad}", what=what)
            position = size if found is None else found


def _frames(data: Bytes, position: int) -> tuple[Index, Index, int, bool]:
    """Payloads of the next frames, where reading stopped, and whether that is inside a frame."""
    begins = [position]
    view, size, unpack = data.data, len(data), _LENGTH.unpack_from
    last = size - _HEADER - _FOOTER
    while len(begins) <= _FRAMES_A_TIME and position <= last:
        end = position + _HEADER + _FOOTER + unpack(view, position)[0]
        if end > size:
            break
        begins.append(end)
        position = end
    found = np.array(begins, np.int64)
    torn = position < size and len(begins) <= _FRAMES_A_TIME
    return found[:-1] + _HEADER, np.diff(found) - _HEADER - _FOOTER, position, torn


def _check(path: Path, data: Bytes, starts: Index, lengths: Index) -> tuple[Index, list[Problem], int | None]:
    """Sound frames, problems with payloads, and the byte of the first frame whose length is damaged."""
    heads = starts - _HEADER
    eight = np.full(len(starts), 8, np.int64)
    wrong = masked(crc32c(data, heads, eight)) != _u32(data, heads + 8)
    resume = None
    if wrong.any():
        first = int(np.argmax(wrong))
        resume = int(heads[first])
        starts, lengths = starts[:first], lengths[:first]
    damaged = masked(crc32c(data, starts, lengths)) != _u32(data, starts + lengths)
    what = "the checksum of the record differs; the record was left out"
    problems = [
        Problem(file=str(path), position=f"byte {int(starts[row]) - _HEADER}", what=what)
        for row in np.flatnonzero(damaged)[:20]
    ]
    return np.flatnonzero(~damaged), problems, resume


def _next_frame(data: Bytes, position: int) -> int | None:
    """The next byte at which a length stands together with its checksum, and its record is whole."""
    block = 1 << 18
    while position + _HEADER + _FOOTER <= len(data):
        heads = np.arange(position, min(position + block, len(data) - _HEADER - _FOOTER + 1), dtype=np.int64)
        fits = masked(crc32c(data, heads, np.full(len(heads), 8, np.int64))) == _u32(data, heads + 8)
        for head in heads[fits].tolist():
            length = _LENGTH.unpack_from(data.data, head)[0]
            if head + _HEADER + length + _FOOTER <= len(data):
                return int(head)
        position += block
    return None


def _u32(data: Bytes, positions: Index) -> NDArray[np.uint32]:
    block = data[positions[:, None] + np.arange(4)]
    return np.ascontiguousarray(block).view("<u4").reshape(-1)


# --- decoding


def _decode(data: Bytes, starts: Index, lengths: Index) -> Scalars:
    """Events of one scalar all have the same form up to their tag; others are parsed one by one."""
    lo, hi = int(starts[0]), int(starts[-1] + lengths[-1])
    block = np.asarray(data[lo:hi])
    block = np.concatenate([block, np.zeros(16, np.uint8)])  # so that looking ahead stays inside
    begin, end = starts - lo, starts - lo + lengths
    plain, step, tag_at, tag_length = _plain(block, begin, end)
    rows = np.flatnonzero(plain)
    tags, tag, same = _tags(block, tag_at[rows], tag_length[rows])
    plain[rows[~same]] = False
    rows, tag = rows[same], tag[same]
    wall = _fixed(block, begin[rows] + 1, "<f8")
    value = _fixed(block, end[rows] - 4, "<f4").astype(np.float64)
    others = np.flatnonzero(~plain)
    if not len(others):
        return Scalars(tags=tags, tag=tag, step=step[rows], wall=wall, value=value, events=[])
    raw = block.tobytes()
    events = [parse_event(raw[begin[row] : end[row]]) for row in others.tolist()]
    return _merge(Scalars(tags=tags, tag=tag, step=step[rows], wall=wall, value=value, events=events), rows, others)


def _plain(block: Bytes, begin: Index, end: Index) -> tuple[NDArray[np.bool_], Index, Index, Index]:
    """Which events are wall_time, step and one value of tag and simple_value; their steps, and where the tags lie."""
    last = len(block) - 1
    at = np.minimum(begin + 9, last)
    ok = (end - begin > 16) & (block[begin] == 0x09)
    has_step = block[at] == 0x10
    at = at + has_step
    step = np.zeros(len(begin), np.int64)
    going = has_step.copy()
    for shift in range(0, 63, 7):
        if not going.any():
            break
        byte = block[np.minimum(at, last)]
        step[going] |= (byte[going].astype(np.int64) & 0x7F) << shift
        at = at + going
        going &= byte >= 0x80
    ok &= ~going
    for tag_byte in (0x2A, 0x0A):  # summary, value: each reaches to the end, and is shorter than 128 bytes
        ok &= block[np.minimum(at, last)] == tag_byte
        length = block[np.minimum(at + 1, last)]
        at = at + 2
        ok &= (length < 0x80) & (at + length == end)
    ok &= block[np.minimum(at, last)] == 0x0A
    tag_length = block[np.minimum(at + 1, last)].astype(np.int64)
    tag_at = at + 2
    ok &= (tag_length < 0x80) & (tag_at + tag_length + 5 == end)
    ok &= block[np.minimum(tag_at + tag_length, last)] == 0x15
    return ok, step, tag_at, tag_length


def _tags(block: Bytes, at: Index, lengths: Index) -> tuple[list[str], NDArray[np.int32], NDArray[np.bool_]]:
    """Names, the name of each row, and the rows whose bytes are really those of the name (hashes may collide)."""
    if not len(at):
        return [], np.empty(0, np.int32), np.ones(0, np.bool_)
    width = int(lengths.max())
    text = block[np.minimum(at[:, None] + np.arange(width), len(block) - 1)]
    text[np.arange(width) >= lengths[:, None]] = 0
    weights = np.random.default_rng(0).integers(1, 2**63, width, dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        keys = (text * weights).sum(axis=1, dtype=np.uint64) + lengths.astype(np.uint64)
    _, first, tag = np.unique(keys, return_index=True, return_inverse=True)
    same = (text == text[first][tag]).all(axis=1) & (lengths == lengths[first][tag])
    names = [text[row, : lengths[row]].tobytes().decode(errors="replace") for row in first]
    return names, tag.astype(np.int32), same


def _fixed(block: Bytes, at: Index, kind: str) -> NDArray[np.float64]:
    size = np.dtype(kind).itemsize
    raw = np.ascontiguousarray(block[at[:, None] + np.arange(size)])
    found: NDArray[np.float64] = raw.view(kind).reshape(-1)
    return found


def _merge(plain: Scalars, rows: Index, others: Index) -> Scalars:
    """Scalars of the events that were parsed one by one take their place in the order of the file."""
    points = [(row, *point) for row, event in zip(others.tolist(), plain.events, strict=True) for point in event.points]
    if not points:
        return plain
    tags, numbers = list(plain.tags), {name: index for index, name in enumerate(plain.tags)}
    for _, name, *_ in points:
        if name not in numbers:
            numbers[name] = len(tags)
            tags.append(name)
    order = np.argsort(np.concatenate([rows, [point[0] for point in points]]), kind="stable")
    return Scalars(
        tags=tags,
        tag=np.concatenate([plain.tag, [numbers[point[1]] for point in points]])[order].astype(np.int32),
        step=np.concatenate([plain.step, [point[2] for point in points]])[order].astype(np.int64),
        wall=np.concatenate([plain.wall, [point[3] for point in points]])[order],
        value=np.concatenate([plain.value, [point[4] for point in points]])[order],
        events=plain.events,
    )
