"""Texts from a file of JSON lines: `text`, and if there are `id`, `label`; every other short field is a slice."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from contracts.errors import UserInputError

_MAX_VALUES = 20  # of a slice: a field with more different ones tells texts apart, not slices
LENGTH = "length"  # the one slice that every set of texts has
_LENGTHS = ("short", "middling", "long")
Shape = TypeVar("Shape", bound=BaseModel)
Identity = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    text: Annotated[str, StringConstraints(min_length=1)]
    id: Identity | None = None
    label: str | None = None


class _Label(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Identity
    label: str


@dataclass(frozen=True, kw_only=True)
class Documents:
    """`labels`: what was given, by id; `slices`: attribute -> value of each text. All in the order of the file.
    `sha256` of all of it; `texts_sha256` of ids and texts alone, by which older cases know their documents."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    slices: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, str]
    sha256: str
    texts_sha256: str

    def place(self) -> dict[str, int]:
        """Id -> number of the text."""
        return {name: number for number, name in enumerate(self.ids)}

    def write(self, path: Path) -> None:
        """From which `read_documents` makes the same."""
        lines = []
        for number, (name, text) in enumerate(zip(self.ids, self.texts, strict=True)):
            label = {"label": self.labels[name]} if name in self.labels else {}
            own = {key: values[number] for key, values in self.slices.items() if key != LENGTH}
            lines.append(json.dumps({**own, "id": name, "text": text, **label}))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_documents(path: Path, labels: Path | None = None) -> Documents:
    """Raises UserInputError that names the line."""
    lines = [_parsed(_Line, path, number, line) for number, line in _lines(path)]
    if not lines:
        raise UserInputError(f"{path} holds no text", remedy='write one JSON object a line: {"text": "..."}')
    ids = _named(lines)
    if len(set(ids)) != len(ids):
        twice = next(name for number, name in enumerate(ids) if name in ids[:number])
        raise UserInputError(f"two texts of {path} are called '{twice}'", remedy="give each its own `id`")
    given = {name: line.label for name, line in zip(ids, lines, strict=True) if line.label is not None}
    if labels is not None:
        given |= {each.id: each.label for each in read_labels(labels)}
    if unknown := sorted(given.keys() - set(ids)):
        raise UserInputError(f"a label is for '{unknown[0]}', which is no text", remedy="use the ids of the documents")
    texts = tuple(line.text for line in lines)
    slices = _slices(lines, texts)
    return Documents(
        ids=ids, texts=texts, slices=slices, labels=given,
        sha256=_sha256([ids, texts, sorted(given.items()), sorted(slices.items())]), texts_sha256=_sha256([ids, texts]),
    )  # fmt: skip


def _named(lines: Sequence[_Line]) -> tuple[str, ...]:
    """Their ids; texts without one are called by what they say, and numbered where several say the same."""
    seen: Counter[str] = Counter()
    names = []
    for line in lines:
        name = line.id or hashlib.sha256(line.text.encode(errors="replace")).hexdigest()[:16]
        seen[name] += line.id is None
        names.append(name if line.id is not None or seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(names)


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_labels(path: Path) -> list[_Label]:
    """JSON lines with `id` and `label`. Raises UserInputError that names the line."""
    return [_parsed(_Label, path, number, line) for number, line in _lines(path)]


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserInputError(f"{path} cannot be read: {error}", remedy="name a file of JSON lines in UTF-8") from None
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _parsed(shape: type[Shape], path: Path, number: int, line: str) -> Shape:
    try:
        return shape.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise UserInputError(
            f"{path} line {number}: {where}: {first['msg']}", remedy='write one JSON object a line: {"text": "..."}'
        ) from None


def _slices(lines: list[_Line], texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Fields of words or numbers with few different values, and the third of the lengths that a text lies in."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted({key for line in lines for key in (line.model_extra or {})}):
        values = tuple(str((line.model_extra or {}).get(name, "")) for line in lines)
        if 1 < len(set(values)) <= _MAX_VALUES:
            found[name] = values
    lengths = np.array([len(text) for text in texts])
    thirds = np.searchsorted(np.quantile(lengths, [1 / 3, 2 / 3]), lengths)
    return {**found, LENGTH: tuple(_LENGTHS[third] for third in thirds)}


def row_with_text(number: int, line: str) -> dict[str, Any]:
    """One JSON object with a `text`. Raises UserInputError that names the line."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserInputError(f"line {number} is no JSON: {error}", remedy='write {"text": "..."}') from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise UserInputError(f"line {number} has no text", remedy='write {"text": "..."}')
    return row
