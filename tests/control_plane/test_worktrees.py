"""Code versions by git worktree: real repositories, real git."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_project import git

from contracts.errors import RepositoryError
from control_plane.git import head_commit
from control_plane.worktrees import CodeVersion, Worktrees

FIRST = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"


class History:
    """A repository with four commits: two independent edits, then one on top of the first edit's line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        self.start = self._commit(FIRST, "start")
        self.top = self._commit(FIRST.replace("one", "ONE"), "top")
        self.bottom = self._commit(FIRST.replace("one", "ONE").replace("nine", "NINE"), "bottom")
        self.again = self._commit(FIRST.replace("one", "uno").replace("nine", "NINE"), "again")

    def _commit(self, text: str, subject: str) -> str:
        (self.folder / "recipe.py").write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", subject)
        return git(self.folder, "rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "project")


@pytest.fixture
def worktrees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "worktrees")


def test_a_plain_version_is_the_commit_itself(history: History, worktrees: Worktrees) -> None:
    tree = worktrees.materialise(history.folder, CodeVersion(base=history.top))
    assert tree.commit == history.top
    assert tree.diff == ""
    assert (tree.project / "recipe.py").read_text() == FIRST.replace("one", "ONE")


def test_a_revert_gives_the_tree_and_the_exact_diff(history: History, worktrees: Worktrees) -> None:
    tree = worktrees.materialise(history.folder, CodeVersion(base=history.again, revert=(history.bottom,)))
    text = (tree.project / "recipe.py").read_text()
    assert text == FIRST.replace("one", "uno")
    copy = history.folder.parent / "copy"
    git(history.folder, "worktree", "add", "-q", "--detach", str(copy), history.again)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=tree.diff, text=True, check=True)
    assert (copy / "recipe.py").read_text() == text


def test_a_pick_adds_one_change_to_an_older_version(history: History, worktrees: Worktrees) -> None:
    tree = worktrees.materialise(history.folder, CodeVersion(base=history.start, pick=(history.bottom,)))
    assert (tree.project / "recipe.py").read_text() == FIRST.replace("nine", "NINE")


def test_the_order_of_the_lists_does_not_matter(history: History, worktrees: Worktrees) -> None:
    one = CodeVersion(base=history.again, revert=(history.top, history.again))
    two = CodeVersion(base=history.again, revert=(history.again, history.top))
    assert worktrees.materialise(history.folder, one).tree == worktrees.materialise(history.folder, two).tree


def test_a_patch_that_does_not_apply_names_the_file(history: History, worktrees: Worktrees) -> None:
    with pytest.raises(RepositoryError, match=r"conflicts in recipe\.py"):
        worktrees.materialise(history.folder, CodeVersion(base=history.again, revert=(history.top,)))


def test_a_patch_without_an_effect_is_refused(history: History, worktrees: Worktrees) -> None:
    with pytest.raises(RepositoryError, match="changes nothing"):
        worktrees.materialise(history.folder, CodeVersion(base=history.again, pick=(history.bottom,)))


def test_the_checkout_of_the_person_stays_untouched(history: History, worktrees: Worktrees) -> None:
    (history.folder / "recipe.py").write_text("half an edit\n")
    (history.folder / "new.py").write_text("not added\n")
    before = git(history.folder, "status", "--porcelain=v2", "--branch")
    tree = worktrees.materialise(history.folder, CodeVersion(base=history.again, revert=(history.bottom,)))
    worktrees.commit_on_branch(history.folder, tree, "lathe/fix-1")
    assert git(history.folder, "status", "--porcelain=v2", "--branch") == before
    assert git(history.folder, "rev-parse", "main") == history.again


def test_the_branch_is_made_once_and_never_overwritten(history: History, worktrees: Worktrees) -> None:
    fixed = worktrees.materialise(history.folder, CodeVersion(base=history.again, revert=(history.bottom,)))
    other = worktrees.materialise(history.folder, CodeVersion(base=history.again, revert=(history.again,)))
    commit = worktrees.commit_on_branch(history.folder, fixed, "lathe/fix-1")
    assert worktrees.commit_on_branch(history.folder, fixed, "lathe/fix-1") == commit
    assert git(history.folder, "reflog", "lathe/fix-1", "--format=%H").split() == [commit]
    with pytest.raises(RepositoryError, match="another content"):
        worktrees.commit_on_branch(history.folder, other, "lathe/fix-1")
    with pytest.raises(RepositoryError, match="no branch of Lathe"):
        worktrees.commit_on_branch(history.folder, fixed, "main")


def test_many_at_once(history: History, worktrees: Worktrees) -> None:
    versions = [
        CodeVersion(base=history.start),
        CodeVersion(base=history.again, revert=(history.bottom,)),
        CodeVersion(base=history.start, pick=(history.bottom,)),
    ] * 3
    with ThreadPoolExecutor(6) as pool:
        trees = list(pool.map(lambda code: worktrees.materialise(history.folder, code), versions))
    assert len({tree.project for tree in trees}) == 3
    for tree in trees:
        assert git(tree.project, "rev-parse", "HEAD^{tree}") == tree.tree
        assert git(tree.project, "status", "--porcelain") == ""


def test_a_damaged_worktree_is_repaired(history: History, worktrees: Worktrees) -> None:
    tree = worktrees.materialise(history.folder, CodeVersion(base=history.top))
    (tree.project / "recipe.py").unlink()
    again = worktrees.materialise(history.folder, CodeVersion(base=history.top))
    assert (again.project / "recipe.py").is_file()
    (tree.project / ".git").unlink()
    worktrees.materialise(history.folder, CodeVersion(base=history.top))
    assert git(tree.project, "rev-parse", "HEAD") == history.top


def test_a_project_in_a_subfolder(history: History, worktrees: Worktrees) -> None:
    part = history.folder / "part"
    part.mkdir()
    (part / "recipe.py").write_text("x = 1\n")
    git(history.folder, "add", "-A")
    git(history.folder, "commit", "-q", "-m", "part")
    tree = worktrees.materialise(part, CodeVersion(base="HEAD"))
    assert (tree.project / "recipe.py").read_text() == "x = 1\n"
    with pytest.raises(RepositoryError, match="has no folder part/"):
        worktrees.materialise(part, CodeVersion(base=history.start))


@pytest.mark.parametrize("damage", ["missing", "no repository", "no commit", "lost object"])
def test_a_bad_repository_is_named_with_its_remedy(damage: str, tmp_path: Path, worktrees: Worktrees) -> None:
    project = tmp_path / "project"
    if damage != "missing":
        project.mkdir()
    if damage == "no commit":
        git(project, "init", "-q")
    if damage == "lost object":
        project.rmdir()
        commit = History(project).again
        (project / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(RepositoryError) as caught:
        worktrees.materialise(project, CodeVersion(base="HEAD"))
    assert str(project) in caught.value.message
    assert caught.value.remedy


def test_uncommitted_changes_are_refused_unless_the_last_commit_is_wanted(history: History) -> None:
    (history.folder / "recipe.py").write_text("half an edit\n")
    with pytest.raises(RepositoryError, match="uncommitted"):
        head_commit(history.folder, allow_uncommitted=False)
    assert head_commit(history.folder, allow_uncommitted=True) == history.again


def test_a_merge_without_what_it_changed_itself_keeps_both_sides(history: History, worktrees: Worktrees) -> None:
    """What a merge joins are commits of their own; left out or picked is only what it did besides."""
    folder = history.folder
    git(folder, "checkout", "-q", "-b", "side", history.start)
    (folder / "side.py").write_text("side = 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "side")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "--no-commit", "side")
    joined = FIRST.replace("one", "uno").replace("nine", "NINE")
    (folder / "recipe.py").write_text(joined.replace("five", "FIVE"))
    git(folder, "commit", "-q", "-a", "-m", "merge")
    merge = git(folder, "rev-parse", "HEAD")
    tree = worktrees.materialise(folder, CodeVersion(base=merge, revert=(merge,)))
    assert (tree.project / "recipe.py").read_text() == joined
    assert (tree.project / "side.py").is_file()
    picked = worktrees.materialise(folder, CodeVersion(base=history.start, pick=(merge,)))
    assert (picked.project / "recipe.py").read_text() == FIRST.replace("five", "FIVE")
    assert not (picked.project / "side.py").exists()
