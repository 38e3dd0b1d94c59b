"""Sealed points: how a chunk is packed, and the header that is its first rollup.

Payloads, by their first byte:
  1  zstd(step differences, then the values' bytes plane by plane): written by the first version, still read
  2  first step, stride, n; zstd(value planes): steps of one stride
  3  n; zstd(step planes, value planes): any steps
Planes hold byte 0 of all entries, then byte 1, and so on, of zigzag-coded differences. Values are differenced as
integers in the order of the floats, so that neighbours on a smooth curve share their high bytes. Every bit survives.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

CHUNK_POINTS = 1024
BLOCK_CHUNKS = 32  # worked on at once: what fits into the processor's cache
_LEVEL = 3
_FIRST, _STRIDED, _ANY_STEPS = 1, 2, 3
_STRIDED_HEAD, _ANY_HEAD = struct.Struct("<BqqI"), struct.Struct("<BI")
_MAGNITUDE = np.int64(2**63 - 1)


@dataclass(frozen=True, kw_only=True)
class Header:
    """`min`, `max`, `sum` cover finite values and are None when there is none; `first`, `last` any value."""

    step_lo: int
    step_hi: int
    n: int
    min: float | None
    max: float | None
    sum: float | None
    first: float
    last: float
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int


def headers(steps: NDArray[np.int64], values: NDArray[np.float64]) -> list[Header]:
    """Of chunks of equal length: `steps` and `values` [K, N], N at least one, steps ascending (equal ones allowed)."""
    finite = np.isfinite(values)
    some = finite.any(axis=1)
    with np.errstate(over="ignore"):
        sums = np.where(finite, values, 0.0).sum(axis=1)
    columns = (
        steps[:, 0],
        steps[:, -1],
        np.where(finite, values, np.inf).min(axis=1),
        np.where(finite, values, -np.inf).max(axis=1),
        sums,
        values[:, 0],
        values[:, -1],
        np.isnan(values).sum(axis=1),
        np.isposinf(values).sum(axis=1),
        np.isneginf(values).sum(axis=1),
        some,
    )
    return [
        Header(
            step_lo=lo,
            step_hi=hi,
            n=steps.shape[1],
            min=least if known else None,
            max=greatest if known else None,
            sum=total if known else None,
            first=first,
            last=last,
            nan_count=nans,
            pos_inf_count=highs,
            neg_inf_count=lows,
        )
        for lo, hi, least, greatest, total, first, last, nans, highs, lows, known in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def encode(steps: NDArray[np.int64], values: NDArray[np.float64]) -> list[bytes]:
    """Payloads of chunks of equal length: `steps` and `values` [K, N]."""
    n = steps.shape[1]
    value_planes = _planes(_differences(_ordered(values)))
    strides = steps[:, 1] - steps[:, 0] if n > 1 else np.zeros(len(steps), np.int64)
    strided = (np.diff(steps, axis=1) == strides[:, None]).all(axis=1)
    compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress
    if strided.all():
        firsts = zip(steps[:, 0].tolist(), strides.tolist(), value_planes, strict=True)
        return [_STRIDED_HEAD.pack(_STRIDED, first, stride, n) + compress(planes) for first, stride, planes in firsts]
    step_planes = _planes(_differences(steps))
    both = np.concatenate([step_planes, value_planes], axis=1)
    return [_ANY_HEAD.pack(_ANY_STEPS, n) + compress(planes) for planes in both]


class Decoded(NamedTuple):
    """The points of several chunks, one chunk after the other."""

    lengths: NDArray[np.int64]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


def decode(payloads: Sequence[bytes]) -> Decoded:
    """Inverse of `encode`, for payloads of any kind and length together."""
    decompress = zstandard.ZstdDecompressor().decompress
    others: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
    strided: dict[int, list[int]] = defaultdict(list)
    lengths = np.zeros(len(payloads), np.int64)
    for index, payload in enumerate(payloads):
        if payload[0] == _STRIDED:
            lengths[index] = _STRIDED_HEAD.unpack_from(payload)[3]
            strided[int(lengths[index])].append(index)
        else:
            others[index] = _decode_any(payload)
            lengths[index] = len(others[index][0])
    ends = np.cumsum(lengths)
    found = Decoded(lengths, np.empty(ends[-1] if len(ends) else 0, np.int64), np.empty(ends[-1] if len(ends) else 0))
    for index, (steps, values) in others.items():
        found.steps[ends[index] - lengths[index] : ends[index]] = steps
        found.values[ends[index] - lengths[index] : ends[index]] = values
    for n, indices in strided.items():
        numbers = np.arange(n, dtype=np.int64)
        for start in range(0, len(indices), BLOCK_CHUNKS):
            block = indices[start : start + BLOCK_CHUNKS]
            raw = b"".join([decompress(payloads[index][_STRIDED_HEAD.size :]) for index in block])
            for index, row in zip(block, _values(_summed(raw, 0, len(block), n)), strict=True):
                _, first, stride, _ = _STRIDED_HEAD.unpack_from(payloads[index])
                place = slice(ends[index] - n, ends[index])
                found.values[place] = row
                np.multiply(numbers, stride, out=found.steps[place])
                found.steps[place] += first
    return found


def _decode_any(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One chunk whose steps have no stride."""
    decompress = zstandard.ZstdDecompressor().decompress
    if payload[0] == _ANY_STEPS:
        raw, n = decompress(payload[_ANY_HEAD.size :]), _ANY_HEAD.unpack_from(payload)[1]
        return _summed(raw, 0, 1, n)[0], _values(_summed(raw, 8 * n, 1, n))[0]
    return _decode_first(decompress(payload[1:]))


def _ordered(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The floats' bits as integers that stand in the order of the floats."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return bits ^ ((bits >> 63) & _MAGNITUDE)


def _values(ordered: NDArray[np.int64]) -> NDArray[np.float64]:
    """Inverse of `_ordered`, in place."""
    signs = ordered >> 63
    signs &= _MAGNITUDE
    ordered ^= signs
    return ordered.view(np.float64)


def _differences(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Zigzag-coded differences along the last axis, the first from 0; they wrap around, and so does `_summed`."""
    differences = np.diff(numbers, axis=1, prepend=np.int64(0))
    signs = differences >> 63
    differences <<= 1
    differences ^= signs
    return differences


def _planes(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """[K, N] -> [K, 8, N] bytes."""
    k, n = numbers.shape
    octets = numbers.astype("<i8", copy=False).view(np.uint8).reshape(k, n, 8)
    planes = np.empty((k, 8, n), np.uint8)
    for octet in range(8):
        planes[:, octet] = octets[:, :, octet]
    return planes


def _summed(raw: bytes, offset: int, k: int, n: int) -> NDArray[np.int64]:
    """Inverse of planes of differences: K x N numbers from `offset` on."""
    planes = np.frombuffer(raw, np.uint8, count=8 * k * n, offset=offset).reshape(k, 8, n)
    octets = np.empty((k, n, 8), np.uint8)
    for octet in range(8):
        octets[:, :, octet] = planes[:, octet]
    coded = octets.view("<u8").reshape(k, n).astype(np.uint64, copy=False)
    signs = coded & np.uint64(1)
    np.negative(signs, out=signs)
    coded >>= np.uint64(1)
    coded ^= signs
    differences = coded.view(np.int64)
    return np.cumsum(differences, axis=1, out=differences)


def _decode_first(raw: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    n = len(raw) // 16
    steps = np.cumsum(np.frombuffer(raw, dtype="<i8", count=n), dtype=np.int64)
    planes = np.frombuffer(raw, dtype=np.uint8, offset=8 * n).reshape(8, n)
    return steps, np.ascontiguousarray(planes.T).view("<f8").reshape(n).astype(np.float64, copy=False)
