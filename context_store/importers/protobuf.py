"""The wire format of Protocol Buffers (protobuf.dev, "Encoding"): fields of a message, without its schema."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Value = int | bytes


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """(field number, value): a varint as int, everything else as its bytes. Raises ValueError where it is torn."""
    position, end = 0, len(message)
    while position < end:
        key, position = varint(message, position)
        wire = key & 7
        if wire == BYTES:
            length, position = varint(message, position)
        elif wire == VARINT:
            value, position = varint(message, position)
            yield key >> 3, value
            continue
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if position + length > end:
            raise ValueError("a field reaches beyond its message")
        yield key >> 3, message[position : position + length]
        position += length


def varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position behind it. Raises ValueError."""
    value = shift = 0
    try:
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
    except IndexError as error:
        raise ValueError("a torn number") from error


def signed(value: int) -> int:
    """An int64 from its varint."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: bytes) -> float:
    return float(_DOUBLE.unpack(data)[0])


def single(data: bytes) -> float:
    return float(_FLOAT.unpack(data)[0])
