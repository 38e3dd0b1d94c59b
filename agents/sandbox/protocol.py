"""Where agent-written code runs: the seam, its values, and the handles of its workspaces.

`Sandbox` has two implementations here, `NamespaceSandbox` (isolated) and `UnsafeSubprocess` (not isolated, refused for
untrusted code unless a person allows it); a container or microVM service on a larger machine is a third one with the
same five methods (RC2-10.1 on one machine; RC2-10.5 for files: the memory of processes is not kept).

A workspace belongs to the process that opened the sandbox: what shall outlive it is exported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from contracts.errors import UserInputError

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_DEPTH = 128  # of folders in a workspace: deeper ones end the command, and are neither compared nor exported


class Trust(StrEnum):
    """Who wrote the code. Everything an agent wrote is untrusted."""

    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"


class Outcome(StrEnum):
    """Why a command ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"


class ChangeKind(StrEnum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


_NO_LIMIT = 1 << 62
_LEAST_OPEN_FILES = 8  # to start a program takes some


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one command may use: `cpu_s`, `open_files` and `file_bytes` each process, the rest all together.

    `processes` counts threads too. `disk_bytes` and `files` count what the workspace's writable layer holds; a folder
    that cannot be counted (closed to its owner, when that is us) is too much. `scratch_bytes` is the size of /tmp and
    of /dev/shm each, on top of `memory_bytes` where no control group bounds memory; each holds at most `files` files,
    and one for every 4096 bytes of its size. Output beyond `output_bytes` (for each of stdout and stderr) is read and
    dropped.
    """

    wall_s: float = 15.0
    cpu_s: int = 15
    memory_bytes: int = 1 << 30
    processes: int = 128
    open_files: int = 256
    file_bytes: int = 256 << 20
    disk_bytes: int = 1 << 30
    files: int = 100_000
    scratch_bytes: int = 64 << 20
    output_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 < value < _NO_LIMIT or (item.name != "wall_s" and value != int(value)):
                raise UserInputError(
                    f"limit {item.name} cannot be {value}",
                    remedy="give a number above zero and below 2^62, a whole one for all but wall_s",
                )
        if self.open_files < _LEAST_OPEN_FILES:
            raise UserInputError(
                f"limit open_files cannot be {self.open_files}: no program could start",
                remedy=f"give at least {_LEAST_OPEN_FILES}",
            )


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder of the host that the command can read and never write: an evaluator, data, a toolchain.

    `target` is the absolute path inside; empty means the same path as outside, which every implementation supports.
    A unix socket or pipe below `source` can be talked to, and its files can be locked: mount only what holds none that
    matters.
    """

    source: Path
    target: str = ""

    def __post_init__(self) -> None:
        for name, text in (("source", str(self.source)), ("target", self.target)):
            if not _is_word(text):
                raise UserInputError(
                    f"a mount's {name} cannot be {text!r}: no path holds a NUL or half a character",
                    remedy=f"give the {name} another name",
                )

    @property
    def inside(self) -> str:
        return self.target or str(self.source.absolute())

    def must_exist(self) -> None:
        if not self.source.exists():
            raise UserInputError(f"{self.source} does not exist and cannot be mounted", remedy="name an existing path")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One execution. It starts in the workspace, sees only `env` and gets no network unless `proxy` is given.

    `proxy` is the unix socket of an `agents.sandbox.proxy.EgressProxy`; inside, HTTP_PROXY points to it.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    mounts: tuple[Mount, ...] = ()
    proxy: Path | None = None
    trust: Trust = Trust.UNTRUSTED

    def __post_init__(self) -> None:
        names = [name for name in self.env if not name or "=" in name]
        if not any(self.argv[:1]) or names or not all(map(_is_word, (*self.argv, *self.env, *self.env.values()))):
            raise UserInputError(
                "the command is empty, or holds what no program can be given (a NUL, or '=' in a variable's name)",
                remedy="give a program and its words, and variables with plain names",
            )


def _is_word(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, kw_only=True)
class Result:
    """How the command ended and what it printed. Everything in it but `outcome` is under the command's control.

    `exit_code` is set when `outcome` is EXITED (127: not found, 126: not executable, as in a shell), `signal` when it
    died by one. `cpu_s` counts all its processes, but of a command that had to be ended only those that had ended
    before. `peak_memory_bytes` is that of its largest process, or more when all together were seen to hold more.
    """

    outcome: Outcome
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, kw_only=True)
class Change:
    """One path, relative to the workspace, that differs from what the workspace was created with."""

    path: str
    kind: ChangeKind
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What `export` wrote. `skipped` are links that lead outside, sockets, pipes, devices, and what may not be read."""

    files: int
    size_bytes: int
    skipped: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Reaped:
    """Leftovers of dead processes that were removed."""

    owners: int
    folders: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What this implementation really enforces on this machine. `uid` is the host's user id the code runs as."""

    name: str
    isolated: bool
    uid: int
    cgroups: tuple[str, ...]
    notes: tuple[str, ...]


class Snapshot(Protocol):
    """An immutable state of a workspace. It outlives the workspace it was taken of."""

    @property
    def id(self) -> str: ...

    def fork(self) -> Workspace: ...

    def discard(self) -> None: ...


class Workspace(Protocol):
    """A folder of its own for commands. Busy while a command runs in it: then every method raises UserInputError."""

    @property
    def id(self) -> str: ...

    def snapshot(self) -> Snapshot: ...

    def fork(self) -> Workspace:
        """A second workspace that goes on from the same state; neither sees what the other does from now on."""

    def diff(self) -> tuple[Change, ...]:
        """Against the folder the workspace, or the ancestor it was forked from, was created with; sorted by path.

        Raises UserInputError when folders nest deeper than MAX_DEPTH.
        """

    def export(self, target: Path, *, max_bytes: int = 1 << 30) -> Exported:
        """Copies the state to `target`, which must not exist. No set-id bits; no link that leads outside.

        Raises UserInputError when it would exceed `max_bytes` (apparent size, so that sparse files count) or MAX_DEPTH;
        nothing is left at `target` then.
        """

    def discard(self) -> None: ...


class Sandbox(Protocol):
    """Runs commands in workspaces. Safe to use from several threads."""

    def create(self, source: Path | None = None) -> Workspace:
        """A workspace with a copy of the folder `source`, or an empty one.

        Raises UserInputError for a source that is no folder, holds the sandbox's own, or cannot be read.
        """

    def run(self, workspace: Workspace, command: Command) -> Result:
        """Runs one command to its end or its limits; when it returns, no process of it is left.

        Raises NotPermitted (untrusted code where that is not allowed), UserInputError (busy workspace, impossible
        mount), EnvironmentFault (the machine refuses a piece of the isolation).
        """

    def facts(self) -> Facts: ...

    def reap(self) -> Reaped:
        """Removes what processes that died without closing have left below the same root."""

    def close(self) -> None:
        """Ends running commands, whose `run` raises UserInputError, and discards all workspaces and snapshots."""
