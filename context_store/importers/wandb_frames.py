"""The frames of a `.wandb` transaction log: LevelDB's log format with a header and zlib's CRC-32.

Header: `:W&B`, u16 0xBEE1, u8 version. Then blocks of 32 KiB with chunks of u32 crc (over type and data), u16 length,
u8 type (1 whole, 2 first, 3 middle, 4 last), zero padding where fewer than 7 bytes are left.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from context_store.importers.items import Problem

MAGIC = b":W&B"
_BLOCK, _CHUNK = 32_768, struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_TYPE_CRC = [zlib.crc32(bytes([kind])) for kind in range(5)]


def read_records(path: Path) -> Iterator[bytes | Problem]:
    """Whole records. A damaged chunk costs its record and what else stands in its block."""
    data = path.read_bytes()
    position, size = 7, len(data)
    parts: list[bytes] | None = None
    while True:
        left = _BLOCK - position % _BLOCK
        if left < 7:
            position += left
        if position + 7 > size:
            break
        crc, length, kind = _CHUNK.unpack_from(data, position)
        if kind == 0 and length == 0:  # reserved, never written
            position += _BLOCK - position % _BLOCK
            continue
        begin, end = position + 7, position + 7 + length
        if end > size:
            break
        payload = data[begin:end]
        if kind > _LAST or end > position - position % _BLOCK + _BLOCK or zlib.crc32(payload, _TYPE_CRC[kind]) != crc:
            yield _damage(path, position, "a damaged chunk; read on at the next block")
            position += _BLOCK - position % _BLOCK
            parts = None
            continue
        position = end
        if kind == _WHOLE:
            yield payload
        elif kind == _FIRST:
            parts = [payload]
        elif parts is not None:
            parts.append(payload)
        if kind == _LAST:
            if parts is not None:
                yield b"".join(parts)
            parts = None
    if parts is not None or position < size:
        yield _damage(path, min(position, size), "torn: the file ends inside a record")


def _damage(path: Path, position: int, what: str) -> Problem:
    return Problem(file=str(path), position=f"byte {position}", what=what)
