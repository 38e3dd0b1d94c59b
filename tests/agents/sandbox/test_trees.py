"""Reading layers that untrusted code has filled."""

import os
import stat
from pathlib import Path

import pytest

from agents.sandbox import trees
from contracts.errors import UserInputError


def layer(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def whiteout(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("this kernel lets no ordinary user make a whiteout")


def shown(*layers: Path) -> dict[str, str]:
    entries = trees.merged(layers)
    return {entry.path: Path(entry.source).read_text() for entry in entries if entry.kind == trees.EntryKind.FILE}


def test_upper_layers_hide_lower_ones(tmp_path: Path) -> None:
    bottom = layer(tmp_path / "0", {"a": "0", "d/x": "0", "d/y": "0", "gone/z": "0", "file": "0"})
    middle = layer(tmp_path / "1", {"a": "1", "d/x": "1", "file/inside": "1"})
    whiteout(tmp_path / "1" / "gone")
    top = layer(tmp_path / "2", {"gone/new": "2", "d/w": "2"})
    assert shown(top, middle, bottom) == {
        "a": "1", "d/w": "2", "d/x": "1", "d/y": "0", "file/inside": "1", "gone/new": "2",
    }  # fmt: skip


def test_an_opaque_folder_hides_what_is_below(tmp_path: Path) -> None:
    bottom = layer(tmp_path / "0", {"d/x": "0"})
    top = layer(tmp_path / "1", {"d/y": "1"})
    try:
        os.setxattr(top / "d", "user.overlay.opaque", b"y")
    except OSError:
        pytest.skip("this file system has no user attributes")
    assert shown(top, bottom) == {"d/y": "1"}


def test_a_copy_follows_no_link_and_leaves_special_files_out(tmp_path: Path) -> None:
    source = layer(tmp_path / "source", {"a": "x"})
    (tmp_path / "secret").write_text("secret")
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    target = tmp_path / "target"
    target.mkdir()
    trees.copy_tree([source], target, os.geteuid())
    assert sorted(path.name for path in target.iterdir()) == ["a", "folder", "link"]
    assert (target / "folder").is_symlink()


def test_removal_needs_no_path_to_the_bottom_and_no_rights(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (tmp_path / "kept").write_text("kept")
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    for _ in range(300):
        os.mkdir("d" * 30)
        os.symlink(tmp_path, "link")
        os.chdir("d" * 30)
    os.fchdir(here)
    os.close(here)
    (folder / "closed").mkdir()
    (folder / "closed" / "x").write_text("x")
    (folder / "closed").chmod(0)
    (folder / ".removed-0").write_text("in the way")
    with pytest.raises(UserInputError, match="nest deeper"):
        list(trees.merged([folder]))
    trees.remove(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
