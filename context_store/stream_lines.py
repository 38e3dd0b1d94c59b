"""The lines of a stream: those of contracts.events except the first event of a segment; notes; uncommitted changes.

A line comes from another process over the network, so its fields are checked here before anything is loaded.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from context_store.dictionary import MAX_NAME_CHARACTERS
from context_store.git_log import WORKTREE
from contracts.enums import TimelineKind
from contracts.errors import LogFormatError
from contracts.events import CheckpointSaved, DataRead, Effective, Event, Finished, Metrics, Scalar

_MAX_STEP = 2**63 - 1
_WRITABLE_KINDS = frozenset(TimelineKind) - {TimelineKind.APPROVAL, TimelineKind.CHECKPOINT, TimelineKind.RESUME}


@dataclass(frozen=True, kw_only=True)
class Patch:
    """The code a training began with differed from the commit `head`: as `patch` says, and `version` names both."""

    kind: ClassVar[str] = "patch"
    step: int
    head: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
    version: Annotated[str, Field(pattern=rf"^{WORKTREE}[0-9a-f]{{40,64}}$")]
    patch: str
    wall_time: float


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that changed or happened at a step, in the words of who logs. `what`: a TimelineKind."""

    kind: ClassVar[str] = "note"
    step: int
    what: TimelineKind
    title: str
    detail: Mapping[str, Scalar]
    wall_time: float


_KINDS: dict[str, type[Any]] = {
    each.kind: each for each in (Metrics, Effective, DataRead, CheckpointSaved, Finished, Note, Patch)
}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in _KINDS.items()}
_FIELDS = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in _KINDS.items()}


def parse_lines(data: bytes, *, where: str, offset: int) -> list[Event | Note | Patch]:
    """All or nothing. Raises LogFormatError naming `where` and the position of the line it cannot take."""
    found: list[Event | Note | Patch] = []
    for line in data.splitlines(keepends=True):
        try:
            found.append(_parse(line))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise LogFormatError(
                f"{where} at byte {offset}: {_reason(error)}",
                remedy="leave this line out and send the rest; nothing of this piece was kept",
            ) from error
        offset += len(line)
    return found


def _parse(line: bytes) -> Event | Note | Patch:
    checksum, _, body = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or int(checksum, 16) != zlib.crc32(body):
        raise ValueError("torn or damaged line")
    fields = json.loads(body)
    kind = fields.pop("kind")
    if kind not in _ADAPTERS or fields.keys() - _FIELDS[kind]:
        raise ValueError(f"no line of a stream: {kind}, {sorted(fields)}")
    event: Event | Note | Patch = _ADAPTERS[kind].validate_python(fields)
    _check(event)
    return event


def _check(event: Event | Note | Patch) -> None:
    """What the types let through but no row can hold."""
    if abs(getattr(event, "step", 0)) > _MAX_STEP:
        raise ValueError("the step does not fit 64 bits")
    if isinstance(event, Note) and event.what not in _WRITABLE_KINDS:
        raise ValueError(f"events of kind {event.what} are not written by trainings")
    names = getattr(event, "values", {})
    if any(not 0 < len(name) <= MAX_NAME_CHARACTERS for name in names):
        raise ValueError(f"a name that is empty or has more than {MAX_NAME_CHARACTERS} characters")
    text = _text(event)
    text.encode()  # lone surrogates
    if "\0" in text or ("\\u0000" in text and not isinstance(event, Patch)):
        raise ValueError("text with a NUL")


def _text(event: Event | Note | Patch) -> str:
    if isinstance(event, Patch):
        return event.patch
    if isinstance(event, Metrics):
        return "".join(event.values)
    return json.dumps(dataclasses.asdict(event), ensure_ascii=False)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) or type(error).__name__
