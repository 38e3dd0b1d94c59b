"""Configuration as the store keeps it: flat, dotted keys, scalars. From mappings, command lines and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.events import Scalar

_MAX_TEXT = 1 << 20


def flat(fields: Mapping[Any, Any], prefix: str = "") -> dict[str, Scalar]:
    """Nested mappings, to any depth, become dotted keys; lists, and what is no scalar, their JSON text.

    Where a key that has a dot itself would hide a nested one, the later of the two is told apart by quotes.
    """
    found: dict[str, Scalar] = {}
    waiting = [(f"{prefix}{key}", key, value) for key, value in reversed(list(fields.items()))]
    while waiting:
        name, last, value = waiting.pop()
        if isinstance(value, Mapping) and value:
            waiting += [(f"{name}.{key}", key, each) for key, each in reversed(list(value.items()))]
            continue
        if name in found:
            name = f"{name.removesuffix(str(last))}'{last}'"
        found[name] = "{}" if isinstance(value, Mapping) else _scalar(value)
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
