"""Writes small files of foreign formats, byte by byte, as their owners do; and reads a source without a store."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from context_store.importers import Columnar, Report, discover
from context_store.importers.items import Columns, Ended, Fact, FoundNegative, FoundRun, FoundSegment, Problem

Import = Callable[..., Report]

# --- what a reader found, without a store


@dataclass
class Part:
    """A segment with its points: (name of the source, step) -> values in order."""

    found: FoundSegment
    points: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    ended: Ended | None = None

    def series(self, name: str) -> dict[int, float]:
        return {step: values[-1] for (each, step), values in self.points.items() if each == name}


@dataclass
class FoundWhole:
    found: FoundRun
    parts: list[Part] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    negatives: list[FoundNegative] = field(default_factory=list)


@dataclass
class Content:
    runs: list[FoundWhole] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_all(path: Path, columnar: Columnar | None = None) -> Content:
    content = Content()
    for each in discover(str(path), columnar)[0]:
        for item in each.format.read(each.source):
            match item:
                case Problem():
                    content.problems.append(item)
                case FoundRun():
                    content.runs.append(FoundWhole(item))
                case FoundSegment():
                    content.runs[-1].parts.append(Part(item))
                case Columns():
                    for name, (steps, values) in item.columns.items():
                        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
                            content.runs[-1].parts[-1].points.setdefault((name, step), []).append(value)
                case Fact():
                    content.runs[-1].facts.append(item)
                case FoundNegative():
                    content.runs[-1].negatives.append(item)
                case Ended():
                    content.runs[-1].parts[-1].ended = item
    return content


# --- protobuf


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def message(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def text(number: int, value: str) -> bytes:
    return message(number, value.encode())


# --- TensorBoard


def crc32c(data: bytes) -> int:
    """Bit by bit, as RFC 3720 appendix B.4 defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tf_frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def tf_event(wall: float, step: int, *content: bytes) -> bytes:
    head = b"\x09" + struct.pack("<d", wall)
    return head + (b"\x10" + varint(step) if step else b"") + b"".join(content)


def tf_scalar(tag: str, value: float) -> bytes:
    return message(5, message(1, text(1, tag) + b"\x15" + struct.pack("<f", value)))


def tf_tensor(tag: str, value: float) -> bytes:
    """As TF2 writes a scalar: a tensor of one float and the plugin's name."""
    tensor = b"\x08\x01" + message(2, b"") + message(4, struct.pack("<f", value))
    return message(5, message(1, text(1, tag) + message(8, tensor) + message(9, message(1, text(1, "scalars")))))


def tf_file(folder: Path, moment: int, events: Iterable[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{moment}.host.1.0"
    version = tf_event(float(moment), 0, text(3, "brain.Event:2"))
    path.write_bytes(b"".join(tf_frame(event) for event in (version, *events)))
    return path


# --- W&B


def wandb_item(key: str, value: object, field_number: int = 1) -> bytes:
    return message(field_number, text(2, key) + message(16, json.dumps(value).encode()))


def wandb_history(row: Mapping[str, object]) -> bytes:
    return message(2, b"".join(wandb_item(key, value) for key, value in row.items()))


def wandb_run(run_id: str, project: str, name: str, config: Mapping[str, object], start: int = 1_700_000_000) -> bytes:
    settings = b"".join(wandb_item(key, value) for key, value in config.items())
    content = text(1, run_id) + text(3, project) + message(4, settings) + text(8, name)
    return message(17, content + message(17, b"\x08" + varint(start)))


def wandb_exit(code: int) -> bytes:
    return message(18, b"\x08" + varint(code))


def wandb_log(records: Iterable[bytes]) -> bytes:
    """LevelDB's log format with W&B's header: 32 KiB blocks, zlib's crc over type and data."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for number, record in enumerate(records, 1):
        data, first = b"\x08" + varint(number) + record, True
        while True:
            left = 32_768 - len(out) % 32_768
            if left < 7:
                out += bytes(left)
                left = 32_768
            piece, data = data[: left - 7], data[left - 7 :]
            kind = (1 if first else 4) if not data else (2 if first else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not data:
                break
    return bytes(out)


def wandb_folder(root: Path, moment: str, run_id: str, records: Iterable[bytes]) -> Path:
    folder = root / f"offline-run-{moment}-{run_id}"
    folder.mkdir(parents=True)
    path = folder / f"run-{run_id}.wandb"
    path.write_bytes(wandb_log(records))
    return path
