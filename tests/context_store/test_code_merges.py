"""What a merge itself changed: nothing where git joins two sides by itself, hunks where a person did more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from training_log import make_run

from context_store import Store

BASE = "def penalty():\n    return 1.0\n\n\ndef gate():\n    return 2.0\n\n\ndef other():\n    return 3.0\n"


@pytest.fixture
def repository(store: Store, tmp_path: Path) -> Path:
    """Project `p`: `side` changes gate, `main` changes penalty."""
    make_run(store)
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "base", BASE)
    git(folder, "checkout", "-q", "-b", "side")
    commit(folder, "side", BASE.replace("2.0", "20.0"))
    git(folder, "checkout", "-q", "main")
    commit(folder, "main", BASE.replace("1.0", "10.0"))
    return folder


def git(folder: Path, *arguments: str, expect: int = 0) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done.stdout.strip()


def commit(folder: Path, subject: str, text: str) -> str:
    (folder / "balance.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def test_a_merge_that_changes_more_has_that_as_its_hunk(store: Store, repository: Path) -> None:
    git(repository, "merge", "-q", "--no-ff", "--no-commit", "side")
    joined = BASE.replace("1.0", "10.0").replace("2.0", "20.0")
    merge = commit(repository, "merge", joined.replace("3.0", "30.0"))
    store.code.ingest("p", repository)
    (hunk,) = store.code.hunks("p", merge)
    assert (hunk.path, hunk.symbols) == ("balance.py", ("other",))
    assert [line for line in hunk.text.splitlines() if line[0] in "+-"] == ["-    return 3.0", "+    return 30.0"]
    assert "other" in store.search.find("balance merge other")[0].body


def test_merges_one_after_the_other_are_each_compared_with_their_own_parents(store: Store, repository: Path) -> None:
    merges = []
    for number in (4, 5, 6):
        git(repository, "checkout", "-q", "-b", f"side-{number}")
        (repository / f"side_{number}.py").write_text("x = 1\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", f"side {number}")
        git(repository, "checkout", "-q", "main")
        git(repository, "merge", "-q", "--no-ff", "--no-commit", f"side-{number}")
        merges.append(commit(repository, "merge", (repository / "balance.py").read_text() + f"last_{number} = 1\n"))
    store.code.ingest("p", repository)
    for number, merge in zip((4, 5, 6), merges, strict=True):
        (hunk,) = store.code.hunks("p", merge)
        assert hunk.text == f"+last_{number} = 1\n"


def test_a_merge_that_drops_a_side_says_what_is_gone(store: Store, repository: Path) -> None:
    git(repository, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    merge = git(repository, "rev-parse", "HEAD")
    store.code.ingest("p", repository)
    (hunk,) = store.code.hunks("p", merge)
    assert [line for line in hunk.text.splitlines() if line[0] in "+-"] == ["-    return 20.0", "+    return 2.0"]


def test_a_settled_conflict_is_what_the_merge_changed(store: Store, repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "third", "main~1")
    commit(repository, "third", BASE.replace("1.0", "11.0"))
    git(repository, "merge", "-q", "main", expect=1)
    merge = commit(repository, "merge", BASE.replace("1.0", "10.5"))
    store.code.ingest("p", repository)
    (hunk,) = store.code.hunks("p", merge)
    assert "+    return 10.5" in hunk.text
    assert hunk.symbols == ("penalty",)


def test_a_plain_merge_has_none(store: Store, repository: Path) -> None:
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "side")
    store.code.ingest("p", repository)
    assert store.code.hunks("p", git(repository, "rev-parse", "HEAD")) == []


def octopus(repository: Path) -> None:
    """`main`, `side` and two more, joined in one commit that is not made yet."""
    for number in (7, 8):
        git(repository, "checkout", "-q", "-b", f"side-{number}", "main~1")
        (repository / f"side_{number}.py").write_text("x = 1\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", f"side {number}")
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "--no-commit", "side", "side-7", "side-8")


def test_an_octopus_that_changes_more_has_that_as_its_hunk(store: Store, repository: Path) -> None:
    octopus(repository)
    merge = commit(repository, "octopus", (repository / "balance.py").read_text().replace("3.0", "30.0"))
    before = git(repository, "count-objects", "-v")
    store.code.ingest("p", repository)
    assert git(repository, "count-objects", "-v") == before, "nothing is written to the repository"
    assert len(store.code.commit("p", merge).parents) == 4
    (hunk,) = store.code.hunks("p", merge)
    assert (hunk.path, hunk.symbols, hunk.text) == ("balance.py", ("other",), "-    return 3.0\n+    return 30.0\n")


def test_a_plain_octopus_has_none(store: Store, repository: Path) -> None:
    octopus(repository)
    git(repository, "commit", "-q", "-m", "octopus")
    store.code.ingest("p", repository)
    assert len(store.code.commit("p", git(repository, "rev-parse", "HEAD")).parents) == 4
    assert store.code.hunks("p", git(repository, "rev-parse", "HEAD")) == []
