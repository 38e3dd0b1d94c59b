"""Records of a W&B transaction log (wandb/proto/wandb_internal.proto), read without wandb.

Record: history 2, config 5, alert 10, metric 12, run 17, exit 18, environment 26. Items have nested_key 2 (or key 1)
and value_json 16, in which NaN and infinities stand bare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from context_store.importers.configs import arguments, flat
from context_store.importers.protobuf import fields, signed, varint
from contracts.events import Scalar

_HISTORY, _CONFIG, _ALERT, _METRIC, _RUN, _EXIT, _ENVIRONMENT = 2, 5, 10, 12, 17, 18, 26
_NAMES = {1: "os", 2: "python", 6: "program", 11: "root", 12: "host", 14: "executable", 18: "gpu", 25: "cuda"}


@dataclass(kw_only=True)
class Description:
    """What one file says besides its history. `step_metrics`: name or pattern -> the metric that is its x axis.

    `start`: a digest of its first record of the run, which has the time to the nanosecond.
    """

    start: str = ""
    run_id: str = ""
    project: str = ""
    name: str = ""
    started_at: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Scalar] = field(default_factory=dict)
    step_metrics: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    runtime_s: float = 0.0
    forked_from: str = ""
    alerts: list[tuple[str, str]] = field(default_factory=list)


def history_of(record: bytes) -> bytes | None:
    """The history in a record, None for every other record. Records begin with their number and then their content."""
    try:
        position = varint(record, 1)[1] if record[:1] == b"\x08" else 0
        if record[position : position + 1] != b"\x12":
            return None
        length, begin = varint(record, position + 1)
    except ValueError:
        return None
    return record[begin : begin + length]


def row_of(history: bytes) -> dict[str, float]:
    """The numbers of a row by name, `_step` and `_timestamp` too. Raises ValueError where it is damaged."""
    row: dict[str, float] = {}
    position, end = 0, len(history)
    while position < end:
        tag, length, begin = history[position], history[position + 1], position + 2
        if length >= 0x80:
            length, begin = varint(history, position + 1)
        position = begin + length
        if position > end:
            raise ValueError("an item reaches beyond its row")
        if tag == 0x0A:
            name, text = _item(history, begin, position)
            try:
                row[name] = float(text)
            except ValueError:
                _add_other(row, name, text)
        elif tag == 0x12 and "_step" not in row:
            numbers = [value for key, value in fields(history[begin:position]) if key == 1 and isinstance(value, int)]
            row["_step"] = float(signed(numbers[0])) if numbers else 0.0
    return row


_known_keys: dict[bytes, str] = {}


def _item(data: bytes, position: int, end: int) -> tuple[str, bytes]:
    """Name and JSON text. Keys come again in every row, so their bytes are looked up as a whole."""
    begin = position
    while position < end and data[position] in (0x0A, 0x12):  # key, nested_key
        length = data[position + 1]
        position += 2
        if length >= 0x80:
            length, position = varint(data, position - 1)
        position += length
    raw = data[begin:position]
    name = _known_keys.get(raw) or _name_of(raw)
    if data[position : position + 2] != b"\x82\x01":  # value_json
        return name, b"null"
    length = data[position + 2]
    position += 3
    if length >= 0x80:
        length, position = varint(data, position - 1)
    return name, data[position : position + length]


def _name_of(raw: bytes) -> str:
    if len(_known_keys) > 1_000_000:
        _known_keys.clear()
    parts = [value.decode(errors="replace") for _, value in fields(raw) if isinstance(value, bytes)]
    name = _known_keys[raw] = ".".join(parts)
    return name


def _add_other(row: dict[str, float], name: str, text: bytes) -> None:
    """Objects of numbers become names with dots, as W&B shows them; media, text and histograms are no numbers."""
    value = _json(text)
    if isinstance(value, bool):
        row[name] = float(value)
    elif isinstance(value, dict) and "_type" not in value:
        for key, item in flat(value, f"{name}.").items():
            if isinstance(item, int | float) and not isinstance(item, bool):
                row[key] = float(item)


def describe(record: bytes, found: Description) -> None:
    """Add what a record that is no history says. Raises ValueError where it is damaged."""
    for number, value in fields(record):
        if not isinstance(value, bytes):
            continue
        if number == _CONFIG:
            _configure(value, found.config)
        elif number == _METRIC:
            metric = _texts(value)
            name = metric.get(1) or metric.get(2) or ""
            if name and metric.get(4):
                found.step_metrics[name] = metric[4]
        elif number == _RUN:
            _describe_run(value, found)
        elif number == _EXIT:
            exit_fields = {key: item for key, item in fields(value) if isinstance(item, int)}
            found.exit_code = _int32(exit_fields.get(1, 0))
            found.runtime_s = float(exit_fields.get(2, 0))
        elif number == _ENVIRONMENT:
            found.environment |= _environment(value)
        elif number == _ALERT:
            alert = _texts(value)
            found.alerts.append((alert.get(1, ""), alert.get(2, "")))


def _describe_run(message: bytes, found: Description) -> None:
    texts = _texts(message)
    found.start = found.start or hashlib.sha256(message).hexdigest()[:16]
    found.run_id, found.project = texts.get(1, found.run_id), texts.get(3, found.project)
    found.name = texts.get(8, found.name)
    for key, value in fields(message):
        if not isinstance(value, bytes):
            continue
        if key == 4:
            _configure(value, found.config)
        elif key == 17:
            found.started_at = _timestamp(value)
        elif key == 21:
            found.environment |= _git(value)
        elif key == 23:
            found.forked_from = _texts(value).get(1, "")


def _configure(message: bytes, config: dict[str, Any]) -> None:
    """ConfigRecord: update 1, remove 2."""
    for key, item in fields(message):
        if key not in (1, 2) or not isinstance(item, bytes):
            continue
        path, text = _config_item(item)
        if not path or path[0] == "_wandb":
            continue
        place = config
        for part in path[:-1]:
            place = place.setdefault(part, {})
        if key == 1:
            place[path[-1]] = _json(text)
        else:
            place.pop(path[-1], None)


def _config_item(message: bytes) -> tuple[list[str], bytes]:
    path: list[str] = []
    text = b"null"
    for key, value in fields(message):
        if isinstance(value, bytes) and key in (1, 2):
            path.append(value.decode(errors="replace"))
        elif isinstance(value, bytes) and key == 16:
            text = value
    return path, text


def _environment(message: bytes) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    words: list[str] = []
    for key, value in fields(message):
        if isinstance(value, int):
            if key in (16, 19):
                found["cpu_count" if key == 16 else "gpu_count"] = value
        elif key in _NAMES:
            found[_NAMES[key]] = value.decode(errors="replace")
        elif key == 5:
            words.append(value.decode(errors="replace"))
        elif key == 9:
            found |= _git(value)
    return found | arguments(words)


def _git(message: bytes) -> dict[str, Scalar]:
    texts = _texts(message)
    named = {"git.remote": texts.get(1, ""), "git.commit": texts.get(2, "")}
    return {key: value for key, value in named.items() if value}


def metadata(content: Mapping[str, Any]) -> dict[str, Scalar]:
    """`wandb-metadata.json` in the words of `Description.environment`."""
    named = {"os": "os", "python": "python", "program": "program", "root": "root", "host": "host", "gpu": "gpu"}
    found: dict[str, Scalar] = {ours: content[key] for key, ours in named.items() if isinstance(content.get(key), str)}
    for key, ours in (("gpu_count", "gpu_count"), ("cpu_count", "cpu_count"), ("cudaVersion", "cuda")):
        if isinstance(content.get(key), str | int):
            found[ours] = content[key]
    git = content.get("git")
    if isinstance(git, Mapping):
        found |= {f"git.{key}": git[key] for key in ("remote", "commit") if isinstance(git.get(key), str)}
    words = content.get("args")
    return found | (arguments([str(word) for word in words]) if isinstance(words, list) else {})


def _texts(message: bytes) -> dict[int, str]:
    return {key: value.decode(errors="replace") for key, value in fields(message) if isinstance(value, bytes)}


def _timestamp(message: bytes) -> float:
    parts = {key: value for key, value in fields(message) if isinstance(value, int)}
    return parts.get(1, 0) + parts.get(2, 0) / 1e9


def _int32(value: int) -> int:
    return signed(value)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def numbers_in(texts: Iterator[tuple[str, Any]]) -> dict[str, float]:
    """Those that are numbers."""
    return {key: float(value) for key, value in texts if isinstance(value, int | float) and not isinstance(value, bool)}
