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


def test_a_copy_takes_no_more_disk_than_the_original(tmp_path: Path) -> None:
    """Hard links and holes: untrusted code must not make us write what it did not have to write itself."""
    source = layer(tmp_path / "source", {"a": "x" * 100_000})
    os.link(source / "a", source / "b")
    with open(source / "hole", "wb") as file:
        file.write(b"head")
        file.seek(50 << 20)
        file.write(b"middle")
        file.truncate(1 << 30)
    target = tmp_path / "target"
    target.mkdir()
    trees.copy_tree([source], target, os.geteuid())
    assert (target / "a").samefile(target / "b")
    assert (target / "b").read_text() == "x" * 100_000
    copied = (target / "hole").stat()
    assert (copied.st_size, copied.st_blocks * 512 < 1 << 20) == (1 << 30, True)
    with open(target / "hole", "rb") as file:
        assert file.read(4) == b"head"
        file.seek(50 << 20)
        assert file.read(7) == b"middle\0"


def test_links_that_cannot_be_followed_are_not_exported(tmp_path: Path) -> None:
    source = layer(tmp_path / "source", {"a": "x"})
    (source / "good").symlink_to("a")
    (source / "dangling").symlink_to("none")
    for number in range(1500):
        (source / f"chain-{number}").symlink_to(f"chain-{number + 1}")
    exported = trees.export([source], tmp_path / "out", 1 << 20)
    assert exported.files + len(exported.skipped) == 1503
    assert {"good", "dangling"}.isdisjoint(exported.skipped)
    assert "chain-0" in exported.skipped


@pytest.mark.parametrize("target", ["there", "file/below"])
def test_an_export_that_cannot_be_made_is_the_callers_mistake(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserInputError, match="cannot export"):
        trees.export([tmp_path / "there"], tmp_path / target, 1 << 20)


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
