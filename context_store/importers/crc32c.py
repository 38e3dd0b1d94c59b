"""CRC-32C (Castagnoli) of many records at once, in numpy: eight bytes of every record a step.

With a zero initial state a CRC is linear over GF(2): zeros before a record change nothing, and the CRC of two strips
is the first's, shifted by the second's length, xor the second's. So records are padded in front to whole words, and
long ones are cut into strips.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]
Index = NDArray[np.int64]

_POLYNOMIAL = 0x82F63B78  # reflected
_STRIP = 1024
_BATCH_BYTES = 1 << 23
_MASK_DELTA = np.uint32(0xA282EAD8)


def masked(crcs: Words) -> Words:
    """As TFRecord stores them (tensorflow/core/lib/hash/crc32c.h)."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA


def crc32c(data: Bytes, starts: Index, lengths: Index) -> Words:
    """CRC of `data[start : start + length]` for each record."""
    found = np.empty(len(starts), np.uint32)
    short = lengths <= _STRIP
    found[short] = _linear(data, starts[short], lengths[short]) ^ _shifted_ones()[lengths[short]]
    for row in np.flatnonzero(~short):
        found[row] = _long(data, int(starts[row]), int(lengths[row]))
    return ~found


def _long(data: Bytes, start: int, length: int) -> int:
    head = length % _STRIP
    starts = np.arange(start + head, start + length, _STRIP, dtype=np.int64)
    strips = _linear(data, starts, np.full(len(starts), _STRIP, np.int64))
    begin = _linear(data, np.array([start], np.int64), np.array([head], np.int64))
    state = int(begin[0]) ^ int(_shifted_ones()[head])
    t0, t1, t2, t3 = _strip_tables()
    for strip in strips.tolist():
        state = t0[state & 255] ^ t1[state >> 8 & 255] ^ t2[state >> 16 & 255] ^ t3[state >> 24] ^ strip
    return state


def _linear(data: Bytes, starts: Index, lengths: Index) -> Words:
    """CRC with a zero initial state and no final inversion; no record longer than a strip."""
    found = np.zeros(len(starts), np.uint32)
    words = -(-lengths // 8)
    for width in np.unique(words[words > 0]).tolist():
        rows = np.flatnonzero(words == width)
        step = max(1, _BATCH_BYTES // (8 * width))
        for lo in range(0, len(rows), step):
            part = rows[lo : lo + step]
            found[part] = _same_width(data, starts[part], lengths[part], width)
    return found


def _same_width(data: Bytes, starts: Index, lengths: Index, width: int) -> Words:
    index = (starts + lengths)[:, None] + np.arange(-8 * width, 0, dtype=np.int64)
    np.maximum(index, 0, out=index)
    block = data[index]
    padding = 8 * width - lengths
    for column in range(int(padding.max())):
        block[padding > column, column] = 0
    halves = np.ascontiguousarray(block.view("<u2").T)
    a0, a1, a2, a3 = _tables()
    state = np.zeros(len(starts), np.uint32)
    for row in range(0, 4 * width, 4):
        low = halves[row] ^ state.astype(np.uint16)
        high = halves[row + 1] ^ (state >> np.uint32(16)).astype(np.uint16)
        state = a0[low] ^ a1[high] ^ a2[halves[row + 2]] ^ a3[halves[row + 3]]
    return state


@cache
def _byte_tables() -> list[Words]:
    """`tables[k][b]`: the state after byte b and k zero bytes."""
    state = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        state = np.where(state & 1, state >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), state >> np.uint32(1))
    tables = [state]
    for _ in range(7):
        state = tables[0][state & 255] ^ state >> np.uint32(8)
        tables.append(state)
    return tables


@cache
def _tables() -> tuple[Words, Words, Words, Words]:
    """By 16-bit halves of eight bytes, the first half first."""
    tables = _byte_tables()
    halves = np.arange(65536)
    first, second, third, fourth = (tables[7 - 2 * k][halves & 255] ^ tables[6 - 2 * k][halves >> 8] for k in range(4))
    return first, second, third, fourth


@cache
def _shifted_ones() -> Words:
    """The all-ones initial state after 0 .. _STRIP zero bytes."""
    table = _byte_tables()[0].tolist()
    states = [0xFFFFFFFF]
    for _ in range(_STRIP):
        states.append(table[states[-1] & 255] ^ states[-1] >> 8)
    return np.array(states, np.uint32)


@cache
def _strip_tables() -> tuple[list[int], list[int], list[int], list[int]]:
    """A state after _STRIP zero bytes, by its four bytes."""
    table = _byte_tables()[0]
    found = []
    for shift in (0, 8, 16, 24):
        state = np.arange(256, dtype=np.uint32) << np.uint32(shift)
        for _ in range(_STRIP):
            state = table[state & 255] ^ state >> np.uint32(8)
        found.append(state.tolist())
    return found[0], found[1], found[2], found[3]
