"""Workspaces made of overlay layers, and the folder on disk that holds them.

Nothing is mounted here: a layer is a plain folder, and the overlay exists only in the mount namespace of a running
command, so a crash leaves folders and never a mount. The layout below `root`:

    <owner>.lock        locked by the owning process and its launcher for as long as one of them lives; holds the name
                        of their control group
    <owner>/<layer>/fs  what the layer holds; <layer>/work belongs to the kernel

A fork seals the writable layer, so that both sides read it, and gives each an empty one: its cost does not depend on
the size of the workspace. Layers are counted and removed with their last user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.sandbox import trees
from agents.sandbox.launcher import cgroups
from agents.sandbox.protocol import Change, Exported, Reaped
from contracts.errors import DiskFull, UserInputError

MAX_LAYERS = 32  # the kernel takes 500; each look-up of a missing name asks every one of them


@contextlib.contextmanager
def disk_full_is_said() -> Iterator[None]:
    """Turns "no space left" into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull("no space left for a sandbox workspace", remedy="free disk space and try again") from error


def was_closed() -> UserInputError:
    return UserInputError("the sandbox was closed", remedy="close it when its commands have ended, or open a new one")


class LayerStore:
    """The layers of one owning process. `uid` owns their contents. Safe to use from several threads."""

    def __init__(self, root: Path, uid: int) -> None:
        self._uid = uid
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._users: Counter[str] = Counter()
        root = root.absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.owner, self.lock_descriptor = _lock_new_owner(root)
        self.folder = root / self.owner
        self.folder.mkdir(mode=0o711)
        self._lock_file = root / f"{self.owner}.lock"

    def path(self, layer: str) -> Path:
        return self.folder / layer / "fs"

    def paths(self, layers: Sequence[str]) -> list[Path]:
        return [self.path(layer) for layer in layers]

    def keep_open(self, layer: str) -> None:
        """Gives us back the folder that its owner has closed to itself and so, when that is the same user, to us.

        Raises UserInputError when the sandbox was closed.
        """
        self._must_be_open()
        path = self.path(layer)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            path.chmod(0o755)

    def renew_work(self, layer: str) -> None:
        """Gives the kernel an empty work folder. It refuses one that a volatile overlay has used.

        Volatile: it does not write the whole disk back at the end of each command. A layer that a crash of the machine
        loses belongs to an owner that is dead too.
        """
        work = f"{self.folder}/{layer}/work"
        if os.listdir(work):
            trees.remove(work)
            self._make_folder(work, 0o755)

    def _make_folder(self, path: str, mode: int) -> None:
        os.mkdir(path, mode)
        if self._uid != os.geteuid():
            os.chown(path, self._uid, self._uid)

    def new(self) -> str:
        """An empty layer with no user yet."""
        with self._lock:
            layer = str(next(self._numbers))
        path = f"{self.folder}/{layer}"
        self._must_be_open()
        with disk_full_is_said():
            self._make_folder(path, 0o700)
            self._make_folder(f"{path}/fs", 0o755)
            self._make_folder(f"{path}/work", 0o755)
        return layer

    @property
    def closed(self) -> bool:
        return not self.folder.exists()

    def _must_be_open(self) -> None:
        if self.closed:
            raise was_closed()

    def new_import(self, source: Path) -> str:
        """A layer with a copy of a folder that a caller named. Raises UserInputError."""
        if not source.is_dir():
            raise UserInputError(f"{source} is not a folder", remedy="name an existing folder")
        if self.folder.resolve().is_relative_to(source.resolve()):
            raise UserInputError(
                f"{source} holds the sandbox's own folder {self.folder.parent}, so it cannot be copied there",
                remedy="name a folder without it, or open the sandbox in another folder",
            )
        try:
            return self.new_copy([source])
        except OSError as error:
            raise UserInputError(
                f"{source} cannot be copied: {error}",
                remedy="name a folder of plain files that nobody changes meanwhile",
            ) from error

    def new_copy(self, sources: Sequence[Path]) -> str:
        """A layer with a merged copy of `sources`, top first."""
        layer = self.new()
        try:
            with disk_full_is_said():
                trees.copy_tree(sources, self.path(layer), self._uid)
        except BaseException:
            trees.remove(f"{self.folder}/{layer}")
            raise
        return layer

    def hold(self, layers: Sequence[str]) -> None:
        with self._lock:
            self._users.update(layers)

    def release(self, layers: Sequence[str]) -> None:
        with self._lock:
            self._users.subtract(layers)
            unused = [layer for layer in set(layers) if self._users[layer] <= 0]
            for layer in unused:
                del self._users[layer]
        for layer in unused:
            with contextlib.suppress(FileNotFoundError):  # the sandbox is being closed
                trees.remove(f"{self.folder}/{layer}")

    def close(self) -> None:
        """For a launcher that has ended; also when it was killed and left its control group."""
        if self.folder.exists():
            if group := self._lock_file.read_text():
                cgroups.remove_parent(group)
            while self.folder.exists():
                with contextlib.suppress(FileNotFoundError):  # a workspace is being discarded
                    trees.remove(self.folder)
            self._lock_file.unlink()
            os.close(self.lock_descriptor)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Layer names: those that are only read, top first, the writable one, and those a diff compares with."""

    lowers: tuple[str, ...]
    upper: str
    base: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.lowers, self.upper, *self.base)


class LayeredSnapshot:
    """An immutable stack of layers; see `protocol.Snapshot`. A fork is of the kind of workspace it was taken of."""

    def __init__(self, kind: type[LayeredWorkspace], store: LayerStore, stack: Stack) -> None:
        self.id = f"snapshot-{stack.upper}"
        self._kind, self._store = kind, store
        self._lowers, self._base = stack.lowers, stack.base
        self._discarded = False
        store.hold((*self._lowers, *self._base))

    def fork(self) -> LayeredWorkspace:
        if self._discarded:
            raise UserInputError(f"{self.id} was discarded", remedy="take a new snapshot")
        return self._kind(self._store, self._lowers, self._base)

    def discard(self) -> None:
        if not self._discarded:
            self._discarded = True
            self._store.release((*self._lowers, *self._base))


class LayeredWorkspace:
    """A stack of layers, the top one writable; see `protocol.Workspace`."""

    def __init__(self, store: LayerStore, lowers: tuple[str, ...], base: tuple[str, ...]) -> None:
        self._store = store
        self._busy = threading.Lock()
        self._discarded = False
        self._stack = self._new_stack(lowers, base)
        self.id = f"workspace-{self._stack.upper}"
        store.hold(self._stack.all)

    def _new_stack(self, lowers: tuple[str, ...], base: tuple[str, ...]) -> Stack:
        return Stack(lowers=lowers, upper=self._store.new(), base=base)

    @property
    def store(self) -> LayerStore:
        return self._store

    @contextlib.contextmanager
    def occupied(self) -> Iterator[Stack]:
        """The stack, for one user at a time. Raises UserInputError when busy or discarded."""
        if not self._busy.acquire(blocking=False):
            raise UserInputError(f"{self.id} is busy with a command", remedy="wait for it, or fork before you start it")
        try:
            if self._discarded:
                raise UserInputError(f"{self.id} was discarded", remedy="create or fork a new workspace")
            self._store.keep_open(self._stack.upper)
            yield self._stack
        finally:
            self._busy.release()

    def snapshot(self) -> LayeredSnapshot:
        with self.occupied():
            return LayeredSnapshot(type(self), self._store, self._sealed())

    def fork(self) -> LayeredWorkspace:
        with self.occupied():
            stack = self._sealed()
            return type(self)(self._store, stack.lowers, stack.base)

    def diff(self) -> tuple[Change, ...]:
        with self.occupied() as stack:
            now = (stack.upper, *stack.lowers)
            return trees.changes(self._store.paths(stack.base), self._store.paths(now))

    def export(self, target: Path, *, max_bytes: int = 1 << 30) -> Exported:
        with self.occupied() as stack, disk_full_is_said():
            return trees.export(self._store.paths((stack.upper, *stack.lowers)), target, max_bytes)

    def discard(self) -> None:
        if self._discarded or self._store.closed:
            return
        with self.occupied() as stack:
            self._discarded = True
            self._store.release(stack.all)

    def _sealed(self) -> Stack:
        """The stack after what was written has moved to a layer that is only read from now on."""
        stack = self._stack
        if os.listdir(self._store.path(stack.upper)):
            lowers: tuple[str, ...] = (stack.upper, *stack.lowers)
            if len(lowers) > MAX_LAYERS:
                lowers = (self._store.new_copy(self._store.paths(lowers)),)
            self._stack = self._new_stack(lowers, stack.base)
            self._store.hold(self._stack.all)
            self._store.release(stack.all)
        return self._stack


def reap(root: Path) -> Reaped:
    """Removes the folders and control groups of owners that died without closing."""
    owners = folders = 0
    for lock_file in sorted(root.glob("*.lock")):
        with contextlib.suppress(FileNotFoundError), open(lock_file, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # the owner, or what it started, is alive
            if os.fstat(file.fileno()).st_ino != lock_file.stat().st_ino:
                continue  # it was closed meanwhile, and the name is another owner's
            folder = lock_file.with_suffix("")
            if group := file.read().decode():
                cgroups.remove_parent(group)
            if folder.exists():
                folders += sum(1 for _ in folder.iterdir())
                trees.remove(folder)
            lock_file.unlink()
            owners += 1
    return Reaped(owners=owners, folders=folders)


def _lock_new_owner(root: Path) -> tuple[str, int]:
    """A new owner's name and the descriptor of its lock file, which appears locked: no reaper can come between."""
    hidden = root / f".new-{os.getpid()}-{threading.get_ident()}"
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        for number in itertools.count():
            owner = f"owner-{os.getpid()}-{number}"
            with contextlib.suppress(FileExistsError):
                os.link(hidden, root / f"{owner}.lock")
                return owner, descriptor
    finally:
        hidden.unlink()
    raise AssertionError("an endless count has ended")
