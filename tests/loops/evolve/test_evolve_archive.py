"""The archive of a run in the repository of somebody else's scaffold."""

import subprocess
from pathlib import Path

import pytest

from contracts.errors import RepositoryError
from loops.evolve.archive import Archive


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / "agent.sh").write_text("#!/bin/sh\n")
    (folder / "agent.sh").chmod(0o755)
    (folder / "prompt.md").write_text("Work.\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "first")
    return folder


def test_what_can_be_executed_still_can_in_candidates(foreign: Path, tmp_path: Path) -> None:
    start = _git(foreign, "rev-parse", "HEAD")
    archive = Archive.adopt(foreign, "r", start)
    files = {**archive.files(start), "prompt.md": "Work hard.\n", "more.md": "More.\n"}
    commit = archive.commit(files, parent=start, number=1, message="one")
    assert _git(foreign, "diff", "--name-only", start, commit).split() == ["more.md", "prompt.md"]
    same = archive.commit(archive.files(start), parent=start, number=2, message="same")
    assert archive.tree_of(same) == archive.tree_of(start)
    laid_out = archive.export(commit, tmp_path)
    modes = {path.name: path.stat().st_mode & 0o777 for path in laid_out.iterdir()}
    assert modes == {"agent.sh": 0o755, "prompt.md": 0o644, "more.md": 0o644}


def test_a_file_that_is_no_text_is_named(foreign: Path) -> None:
    (foreign / "weights.bin").write_bytes(b"\xff\xfe\x80")
    _git(foreign, "add", "-A")
    _git(foreign, "commit", "-qm", "second")
    with pytest.raises(RepositoryError, match=r"weights\.bin of the scaffold is no text"):
        Archive(foreign, "r").files("HEAD")
