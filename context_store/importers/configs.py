"""Configuration as the store keeps it: flat, dotted keys, scalars. From mappings, command lines and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.events import Scalar

_MAX_TEXT = 4000


def flat(fields: Mapping[Any, Any], prefix: str = "") -> dict[str, Scalar]:
    """Nested mappings become dotted keys; lists, and what is no scalar, their JSON text."""
    found: dict[str, Scalar] = {}
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.") if value else {name: "{}"}
        else:
            found[name] = _scalar(value)
    return found


def arguments(words: Sequence[str], prefix: str = "args.") -> dict[str, Scalar]:
    """`--name value`, `--name=value`, `name=value` and bare switches of a command line, by name."""
    found: dict[str, Scalar] = {}
    position = 0
    while position < len(words):
        word = str(words[position])
        name, equals, value = word.lstrip("-").partition("=")
        following = str(words[position + 1]) if position + 1 < len(words) else "-"
        if word.startswith("-") and not equals and not following.startswith("--"):
            value, equals = (following, "=") if position + 1 < len(words) else ("", "")
            position += 1
        found[f"{prefix}{name}"] = parsed(value) if equals else True
        position += 1
    return found


def parsed(text: str) -> Scalar:
    """A number, true, false, null, or the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        words: dict[str, Scalar] = {"True": True, "False": False, "None": None}
        return words.get(text, number_or_text(text))
    return value if isinstance(value, str | int | float | bool | None) else text


def number_or_text(text: str) -> Scalar:
    try:
        return float(text)
    except ValueError:
        return text


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML or JSON file. Raises ValueError when it is neither or no mapping."""
    import yaml

    text = path.read_bytes().decode("utf-8-sig")
    try:
        value = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(value, dict):
        raise ValueError("no mapping")
    return value


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if isinstance(value, bool | int | float | None):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)[:_MAX_TEXT]
