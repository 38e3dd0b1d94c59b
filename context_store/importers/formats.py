"""The seam of an importer: a format says which files are its own, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from context_store.importers.items import Items

HEAD_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class Columnar:
    """How rows of a table or JSON lines are to be read: the names of its step and time columns.

    `values` empty: every numeric column. `rename`: name in the file -> name in the store.
    """

    step: str = ""
    time: str = ""
    values: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What lies under the given path: regular files, sorted. `root`: the path itself, absolute, a file or a folder."""

    root: Path
    files: tuple[Path, ...]
    columnar: Columnar = field(default_factory=Columnar)

    @property
    def folder(self) -> Path:
        return self.root if self.root.is_dir() else self.root.parent

    def without(self, claimed: Sequence[Path]) -> Tree:
        taken = set(claimed)
        return replace(self, files=tuple(path for path in self.files if path not in taken))


@dataclass(frozen=True, kw_only=True)
class Source:
    """Files that are read together. `companions` only describe them: configuration, metadata, summaries."""

    files: tuple[Path, ...]
    companions: tuple[Path, ...] = ()
    columnar: Columnar = field(default_factory=Columnar)
    uri: str = ""  # of what is not a file
    growing: bool = False  # a last line without an end is still being written

    @property
    def claimed(self) -> tuple[Path, ...]:
        return (*self.files, *self.companions)


@dataclass(frozen=True, kw_only=True)
class Format:
    """`find` gives the sources of this format in a tree; `read` gives their content and never raises for a damaged
    part: it yields a Problem and goes on with what is sound.
    """

    name: str
    find: Callable[[Tree], list[Source]]
    read: Callable[[Source], Items]


def listing(folder: Path) -> list[Path]:
    """What lies directly in a folder, sorted; nothing when it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


@cache
def head(path: Path) -> bytes:
    """The first bytes of a file; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""
