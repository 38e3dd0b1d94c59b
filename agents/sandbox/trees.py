"""Reading, copying and removing folders that untrusted code has filled. No link is ever followed.

The caller makes sure that no process of the sandbox is alive meanwhile.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agents.sandbox.protocol import MAX_DEPTH, Change, ChangeKind, Exported
from contracts.errors import UserInputError

_OPAQUE = "user.overlay.opaque"
_BLOCK_BYTES = 1 << 20
_MAX_LINKS = 40  # the kernel follows as many


class EntryKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a socket, pipe or device, or a folder that cannot be read


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One path of a merged tree and the file on the host that holds it."""

    path: str
    kind: EntryKind
    source: str
    status: os.stat_result


def merged(layers: Sequence[Path]) -> Iterator[Entry]:
    """What an overlay of `layers` (top first) shows, folders before what is in them.

    Kernel documentation, overlayfs: a character device 0/0 hides the name in all layers below; a folder with the
    attribute overlay.opaque hides all folders of its name below. Raises UserInputError below MAX_DEPTH.
    """
    pending: list[tuple[str, list[str]]] = [("", [str(layer) for layer in layers])]
    while pending:
        prefix, folders = pending.pop()
        if prefix.count("/") > MAX_DEPTH:
            raise UserInputError(
                f"folders in the workspace nest deeper than {MAX_DEPTH}", remedy="discard the workspace, or flatten it"
            )
        for name, sources in sorted(_by_name(folders).items()):
            entry, below = _topmost(prefix + name, sources)
            if entry is not None:
                yield entry
            if below:
                pending.append((f"{prefix}{name}/", below))


def _by_name(folders: Sequence[str]) -> dict[str, list[tuple[str, os.stat_result]]]:
    names: dict[str, list[tuple[str, os.stat_result]]] = {}
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.setdefault(entry.name, []).append((entry.path, entry.stat(follow_symlinks=False)))
    return names


def _topmost(path: str, sources: Sequence[tuple[str, os.stat_result]]) -> tuple[Entry | None, list[str]]:
    """The entry visible at `path`, if any, and the folders that are merged below it, top first."""
    source, status = sources[0]
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return None, []
    kind = _kind(source, status)
    entry = Entry(path=path, kind=kind, source=source, status=status)
    if kind != EntryKind.FOLDER:
        return entry, []
    below: list[str] = []
    for source, status in sources:
        if _kind(source, status) != EntryKind.FOLDER:
            break
        below.append(source)
        if _is_opaque(source):
            break
    return entry, below


def _kind(source: str, status: os.stat_result) -> EntryKind:
    if stat.S_ISREG(status.st_mode):
        return EntryKind.FILE
    if stat.S_ISLNK(status.st_mode):
        return EntryKind.LINK
    if stat.S_ISDIR(status.st_mode) and os.access(source, os.R_OK | os.X_OK, follow_symlinks=False):
        return EntryKind.FOLDER
    return EntryKind.OTHER


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def changes(before: Sequence[Path], after: Sequence[Path]) -> tuple[Change, ...]:
    """Files and links that differ between two stacks of layers, sorted by path. Folders are not listed."""
    old = {entry.path: entry for entry in merged(before) if entry.kind != EntryKind.FOLDER}
    new = {entry.path: entry for entry in merged(after) if entry.kind != EntryKind.FOLDER}
    found = [_change(path, ChangeKind.DELETED, old[path]) for path in old.keys() - new.keys()]
    found += [_change(path, ChangeKind.ADDED, new[path]) for path in new.keys() - old.keys()]
    both = old.keys() & new.keys()
    found += [_change(path, ChangeKind.MODIFIED, new[path]) for path in both if not _same(old[path], new[path])]
    return tuple(sorted(found, key=lambda change: change.path))


def _change(path: str, kind: ChangeKind, entry: Entry) -> Change:
    return Change(path=path, kind=kind, size_bytes=0 if kind == ChangeKind.DELETED else entry.status.st_size)


def _same(left: Entry, right: Entry) -> bool:
    if left.source == right.source:
        return True
    if left.kind != right.kind or left.status.st_size != right.status.st_size:
        return False
    if left.kind == EntryKind.LINK:
        return os.readlink(left.source) == os.readlink(right.source)
    executable = (left.status.st_mode ^ right.status.st_mode) & stat.S_IXUSR
    return left.kind == EntryKind.FILE and not executable and _same_content(left.source, right.source)


def _same_content(left: str, right: str) -> bool:
    try:
        with open(_open_regular(left), "rb") as one, open(_open_regular(right), "rb") as two:
            while block := one.read(_BLOCK_BYTES):
                if block != two.read(_BLOCK_BYTES):
                    return False
            return not two.read(1)
    except PermissionError:
        return False


def _open_regular(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def export(layers: Sequence[Path], target: Path, max_bytes: int) -> Exported:
    """See `Workspace.export`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir()
    except OSError as error:
        raise UserInputError(
            f"cannot export to {target}: {error.strerror}",
            remedy="name a folder that does not exist yet, where you may make one",
        ) from error
    try:
        return _export(layers, target, max_bytes)
    except BaseException:
        remove(target)
        raise


def _export(layers: Sequence[Path], target: Path, max_bytes: int) -> Exported:
    size_bytes = files = 0
    skipped, links = [], []
    for entry in merged(layers):
        place = target / entry.path
        if entry.kind == EntryKind.FOLDER:
            place.mkdir()
        elif entry.kind == EntryKind.LINK:
            links.append(entry)
        elif entry.kind == EntryKind.OTHER:
            skipped.append(entry.path)
        else:
            size_bytes += entry.status.st_size
            if size_bytes > max_bytes:
                raise UserInputError(
                    f"the workspace holds more than {max_bytes} bytes",
                    remedy="export with a larger max_bytes, or delete what is not needed",
                )
            try:
                copy_file(entry.source, str(place), entry.status)
                files += 1
            except PermissionError:
                skipped.append(entry.path)
    texts = {link.path: os.readlink(link.source) for link in links}
    lead_outside = _leading_outside(texts)
    for path in texts.keys() - lead_outside:
        os.symlink(texts[path], target / path)
    return Exported(
        files=files + len(links) - len(lead_outside),
        size_bytes=size_bytes,
        skipped=tuple(sorted([*skipped, *lead_outside])),
    )


def _leading_outside(texts: Mapping[str, str]) -> set[str]:
    """Those of the links (path -> what it says) whose way, through the other links, leaves the tree at any point.

    Also when it would come back by the name of a folder that leads here: an export may be moved. And those that go
    round, or through more links after each other than the kernel follows, or deeper than any folder is.
    """
    ends: dict[str, str | None] = {}
    return {path for path in texts if _end(path, texts, ends, 1) is None}


def _end(path: str, texts: Mapping[str, str], ends: dict[str, str | None], num_links: int) -> str | None:
    """Where a link leads, below the top; None for outside. `ends` holds what is already known."""
    if path in ends:
        return ends[path]
    place: str | None = path.rpartition("/")[0]
    if num_links > _MAX_LINKS or texts[path].startswith("/"):
        place = None
    for name in texts[path].split("/"):
        if place is None or place.count("/") > MAX_DEPTH:
            place = None
            break
        if name == "..":
            place = place.rpartition("/")[0] if place else None
        elif name not in ("", "."):
            there = f"{place}/{name}" if place else name
            place = _end(there, texts, ends, num_links + 1) if there in texts else there
    ends[path] = place
    return place


def copy_file(source: str, target: str, status: os.stat_result) -> None:
    """Content, permission bits without set-id, and times. Holes stay holes. Raises OSError."""
    with open(_open_regular(source), "rb") as read, open(target, "xb") as write:
        for start, end in _written_parts(read.fileno(), status.st_size):
            write.seek(start)
            while start < end and (sent := os.sendfile(write.fileno(), read.fileno(), start, end - start)):
                start += sent
        os.ftruncate(write.fileno(), status.st_size)
        os.fchmod(write.fileno(), status.st_mode & 0o777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _written_parts(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what is no hole."""
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # only a hole is left
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def copy_tree(layers: Sequence[Path], target: Path, uid: int) -> None:
    """A merged copy that keeps every link, owned by `uid`. Sockets, pipes and devices are left out.

    It takes no more disk than the original: holes stay holes, and names of one file stay names of one file. Raises
    UserInputError for what we may not read.
    """
    copies: dict[tuple[int, int], str] = {}
    for entry in merged(layers):
        place = str(target / entry.path)
        if entry.kind == EntryKind.FOLDER:
            os.mkdir(place, entry.status.st_mode & 0o777 | stat.S_IRWXU)
        elif entry.kind == EntryKind.LINK:
            os.symlink(os.readlink(entry.source), place)
        elif entry.kind == EntryKind.FILE:
            identity = (entry.status.st_dev, entry.status.st_ino)
            original = copies.setdefault(identity, place) if entry.status.st_nlink > 1 else place
            if original != place:
                os.link(original, place)
                continue
            _copy_readable(entry, place)
        elif stat.S_ISDIR(entry.status.st_mode):
            raise _unreadable(entry)
        else:
            continue
        if uid != os.geteuid():
            os.chown(place, uid, uid, follow_symlinks=False)


def _copy_readable(entry: Entry, place: str) -> None:
    try:
        copy_file(entry.source, place, entry.status)
    except PermissionError as error:
        raise _unreadable(entry) from error


def _unreadable(entry: Entry) -> UserInputError:
    return UserInputError(f"{entry.path} cannot be read, so not copied", remedy="give its owner the right to read it")


def remove(folder: str | Path) -> None:
    """Removes a folder however deep it nests and whatever its permissions are: nothing is opened by a long path."""
    top = os.fspath(folder)
    os.chmod(top, stat.S_IRWXU)
    moved = (f"{top}/.removed-{number}" for number in itertools.count())
    pending = [top]
    while pending:
        current = pending.pop()
        for entry in _entries(current):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
            elif not _remove_empty(entry.path):
                pending.append(entry.path if current == top else _move(entry.path, moved))
        if current != top:
            os.rmdir(current)
    os.rmdir(top)


def _remove_empty(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError:
        os.chmod(folder, stat.S_IRWXU)
        return False
    return True


def _move(folder: str, names: Iterator[str]) -> str:
    """Moves a folder to the first free name, so that it can be opened by a short path."""
    target = next(name for name in names if not os.path.lexists(name))
    os.rename(folder, target)
    return target


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)
