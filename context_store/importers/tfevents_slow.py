"""Single TensorBoard events of any form: tensors with one number, text, hyperparameters, session marks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from context_store.importers.configs import flat
from context_store.importers.protobuf import double, fields, signed, single
from contracts.events import Scalar

_FLOAT, _DOUBLE, _INT32, _STRING, _INT64, _BOOL = 1, 2, 3, 7, 9, 10
_CONTENT = {_FLOAT: "<f4", _DOUBLE: "<f8", _INT32: "<i4", _INT64: "<i8", 14: "<u2", 19: "<f2"}  # 14 bfloat16, 19 half
_BFLOAT16, _HALF = 14, 19
_SESSION_START = 1
Point = tuple[str, int, float, float]  # tag, step, wall, value


@dataclass(frozen=True, kw_only=True)
class Event:
    """`started_at_step`: a writer that goes on here and withdraws what was logged at this step and after it."""

    step: int = 0
    wall: float = 0.0
    points: tuple[Point, ...] = ()
    config: Mapping[str, Scalar] = field(default_factory=dict)
    started_at_step: int | None = None


def parse_event(message: bytes) -> Event:
    """An event that cannot be parsed is empty: its checksum was right, so it is of a kind that we do not know."""
    try:
        return _event(message)
    except (ValueError, IndexError, TypeError):
        return Event()


def _event(message: bytes) -> Event:
    step, wall, started = 0, 0.0, False
    values: list[bytes] = []
    for number, value in fields(message):
        if number == 1 and isinstance(value, bytes):
            wall = double(value)
        elif number == 2 and isinstance(value, int):
            step = signed(value)
        elif number == 5 and isinstance(value, bytes):
            values += [item for key, item in fields(value) if key == 1 and isinstance(item, bytes)]
        elif number == 7 and isinstance(value, bytes):
            started = any(key == 1 and item == _SESSION_START for key, item in fields(value))
    points: list[Point] = []
    config: dict[str, Scalar] = {}
    for value in values:
        tag, number_found, found = _value(value)
        config |= found
        if number_found is not None:
            points.append((tag, step, wall, number_found))
    mark = step if started else None
    return Event(step=step, wall=wall, points=tuple(points), config=config, started_at_step=mark)


def _value(message: bytes) -> tuple[str, float | None, dict[str, Scalar]]:
    tag, number, config = "", None, {}
    tensor = metadata = b""
    for key, value in fields(message):
        if key == 1 and isinstance(value, bytes):
            tag = value.decode(errors="replace")
        elif key == 2 and isinstance(value, bytes):
            number = single(value)
        elif key == 8 and isinstance(value, bytes):
            tensor = value
        elif key == 9 and isinstance(value, bytes):
            metadata = value
    plugin, content = _plugin(metadata)
    if plugin == "hparams":
        config = _hyperparameters(content)
    elif tensor:
        number, text = _tensor(tensor)
        if plugin == "text":
            config = _text_config(tag, text)
    return tag, number, config


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    name, content = "", b""
    for key, value in fields(metadata):
        if key == 1 and isinstance(value, bytes):
            for part, item in fields(value):
                if part == 1 and isinstance(item, bytes):
                    name = item.decode(errors="replace")
                elif part == 2 and isinstance(item, bytes):
                    content = item
    return name, content


def _tensor(message: bytes) -> tuple[float | None, str]:
    """The number of a tensor that holds one, or its first text."""
    kind, content, found, text = 0, b"", None, ""
    size = 1
    for key, value in fields(message):
        if key == 1 and isinstance(value, int):
            kind = value
        elif key == 2 and isinstance(value, bytes):
            size = _size(value)
        elif key == 4 and isinstance(value, bytes):
            content = value
        elif key == 5 and isinstance(value, bytes) and len(value) == 4:
            found = single(value)
        elif key == 6 and isinstance(value, bytes) and len(value) == 8:
            found = double(value)
        elif key in (7, 10, 11) and (isinstance(value, int) or len(value) == 1):
            found = float(signed(value) if isinstance(value, int) else value[0])
        elif key == 8 and isinstance(value, bytes) and not text:
            text = value.decode(errors="replace")
    if size != 1 or kind == _STRING:
        return None, text
    return (_content(kind, content) if content else found), text


def _size(shape: bytes) -> int:
    """Number of elements; 1 for a scalar."""
    size = 1
    for key, dimension in fields(shape):
        if key == 2 and isinstance(dimension, bytes):
            size *= next(
                (signed(value) for part, value in fields(dimension) if part == 1 and isinstance(value, int)), 0
            )
    return size


def _content(kind: int, content: bytes) -> float | None:
    if kind not in _CONTENT:
        return None
    raw = np.frombuffer(content, _CONTENT[kind])
    if len(raw) != 1:
        return None
    return float((raw.astype("<u4") << 16).view("<f4")[0] if kind == _BFLOAT16 else raw[0])


def _hyperparameters(content: bytes) -> dict[str, Scalar]:
    """`session_start_info.hparams` of the hparams plugin."""
    found: dict[str, Scalar] = {}
    for key, info in fields(content):
        if key != 3 or not isinstance(info, bytes):
            continue
        for part, entry in fields(info):
            if part == 1 and isinstance(entry, bytes):
                pair = dict(fields(entry))
                name, value = pair.get(1, b""), pair.get(2, b"")
                if isinstance(name, bytes) and isinstance(value, bytes):
                    found[name.decode(errors="replace")] = _struct_value(value)
    return found


def _struct_value(message: bytes) -> Scalar:
    for key, value in fields(message):
        if key == 2 and isinstance(value, bytes):
            return double(value)
        if key == 3 and isinstance(value, bytes):
            return value.decode(errors="replace")
        if key == 4:
            return bool(value)
    return None


def _text_config(tag: str, text: str) -> dict[str, Scalar]:
    """A configuration that was logged as JSON text, under the name of its tag."""
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    name = tag.removesuffix("/text_summary")
    return flat(content, "" if name == "args" else f"{name}.") if isinstance(content, dict) else {}
