"""Sealed points: a compressed payload and a header that is their first rollup."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

CHUNK_POINTS = 1024
_FORMAT = b"\x01"


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


def header(steps: NDArray[np.int64], values: NDArray[np.float64]) -> Header:
    """`steps` ascending without repetition, at least one."""
    finite = values[np.isfinite(values)]
    return Header(
        step_lo=int(steps[0]),
        step_hi=int(steps[-1]),
        n=len(steps),
        min=float(finite.min()) if len(finite) else None,
        max=float(finite.max()) if len(finite) else None,
        sum=float(finite.sum()) if len(finite) else None,
        first=float(values[0]),
        last=float(values[-1]),
        nan_count=int(np.isnan(values).sum()),
        pos_inf_count=int(np.isposinf(values).sum()),
        neg_inf_count=int(np.isneginf(values).sum()),
    )


def encode(steps: NDArray[np.int64], values: NDArray[np.float64]) -> bytes:
    """Step differences, then the values' bytes plane by plane, zstd-compressed. Every bit of a value survives."""
    deltas = np.diff(steps, prepend=np.int64(0)).astype("<i8").tobytes()
    planes = values.astype("<f8").view(np.uint8).reshape(-1, 8).T.tobytes()
    return _FORMAT + zstandard.ZstdCompressor(level=3).compress(deltas + planes)


def decode(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Inverse of `encode`."""
    raw = zstandard.ZstdDecompressor().decompress(payload[len(_FORMAT) :])
    n = len(raw) // 16
    steps = np.cumsum(np.frombuffer(raw, dtype="<i8", count=n), dtype=np.int64)
    planes = np.frombuffer(raw, dtype=np.uint8, offset=8 * n).reshape(8, n)
    values = np.ascontiguousarray(planes.T).view("<f8").reshape(n)
    return steps, values.astype(np.float64, copy=False)
