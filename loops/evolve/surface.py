"""What a candidate may change. A diff that touches anything else is refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from contracts.errors import NotPermitted

Files = Mapping[str, str]
EDITABLE = (
    "prompts/*.md",
    "skills/*.md",
    "mechanisms/*.py",
    "graph.py",
    "mechanism.py",
    "params.json",
    "proposer.json",
)
_SHAPES: Mapping[str, Mapping[str, Any]] = {"proposer.json": {"focus": 1.0, "bundle": 1}}  # where it is not there yet
_LARGEST = 1e9  # not a number is none that is smaller


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Patterns of editable files (`*` does not cross folders) and how large a scaffold may become.

    `fixed`: files that no pattern makes editable. `settings`: the file whose keys stay; `refuses` says why changed
    settings, given (before, after), are none that were declared, or "".
    """

    editable: tuple[str, ...] = EDITABLE
    fixed: tuple[str, ...] = ()
    settings: str = "params.json"
    refuses: Callable[[Mapping[str, Any], Mapping[str, Any]], str] = lambda before, after: ""
    max_lines: int = 600
    max_bytes: int = 64_000
    max_line: int = 400

    def check(self, before: Files, after: Files, secrets: Collection[str]) -> None:
        """Raises NotPermitted with the first reason: outside the surface, too large, unreadable, or knows a task."""
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        for name in changed:
            if not self.covers(name):
                raise _refused(f"{name} is not part of the scaffold's editable surface")
        for name in changed:
            _check_text(name, after.get(name, ""), self.max_line)
            if name in _SHAPES or name in before:
                self._check_shape(name, before.get(name) or json.dumps(_SHAPES.get(name, {})), after.get(name))
            for secret in sorted(secrets):
                if secret in after.get(name, "") and secret not in before.get(name, ""):
                    raise _refused(f"{name} names the task or file '{secret}'")
        if sum(len(text.encode()) for text in after.values()) > self.max_bytes:
            raise _refused(f"the scaffold would have more than {self.max_bytes} bytes")
        if sum(text.count("\n") for text in after.values()) > self.max_lines:
            raise _refused(f"the scaffold would have more than {self.max_lines} lines")

    def covers(self, name: str) -> bool:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or not name.isprintable() or name in self.fixed:
            return False
        return any(len(parts) == each.count("/") + 1 and fnmatchcase(name, each) for each in self.editable)

    def _check_shape(self, name: str, before: str, after: str | None) -> None:
        """A setting keeps its type, and none that was there goes: whoever reads them here may rely on both."""
        if not name.endswith(".json"):
            return
        old, new = json.loads(before or "{}"), json.loads(after or "{}")
        for key, value in old.items():
            if key not in new and name == self.settings:
                raise _refused(f"{name} no longer has {key}")
            if key in new and type_of(new[key]) != type_of(value):
                raise _refused(f"{name}: {key} must be {type_of(value)}")
        if name == self.settings and (why := self.refuses(old, new)):
            raise _refused(f"{name}: {why}")


def _check_text(name: str, text: str, max_line: int) -> None:
    if any(len(line) > max_line for line in text.splitlines()):
        raise _refused(f"{name} has a line of more than {max_line} letters")
    if "\0" in text:
        raise _refused(f"{name} is no text")
    if name.endswith(".py"):
        try:
            compile(text, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _refused(f"{name} is no Python: {type(error).__name__}") from error
    if name.endswith(".json"):
        try:
            fine = isinstance(json.loads(text or "{}"), dict)
        except (ValueError, RecursionError):
            fine = False
        if not fine:
            raise _refused(f"{name} is no JSON object")


def type_of(value: Any) -> str:
    """In words; values of one setting are all of one."""
    if isinstance(value, bool) or value is None:
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number" if abs(value) < _LARGEST else "no finite number"
    if isinstance(value, list):
        return "a list of names" if all(isinstance(each, str) for each in value) else "a list of other things"
    return "a text" if isinstance(value, str) else "an object"


def _refused(reason: str) -> NotPermitted:
    return NotPermitted(reason, remedy="change only what the run's surface declares, and nothing about its tasks")


def params_of(files: Files) -> dict[str, Any]:
    """params.json of a scaffold."""
    found: dict[str, Any] = json.loads(files["params.json"])
    return found
