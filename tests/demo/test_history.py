"""The laid-out project: same seed, same hashes; every commit comes off and goes on alone; no truth inside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import UserInputError
from control_plane.demo.changes import Change, Edit, apply
from control_plane.demo.faults import FAULTS, HEALTHY, Fault, find_fault
from control_plane.demo.history import History, lay_out, plan
from control_plane.git import Git

EVERY = (*FAULTS, HEALTHY)
LOAD = """
import sys
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import recipe
    print(recipe.recipe().config.steps)
    sys.path.remove(folder)
    for name in {"recipe", "balance", "groups", "loader", "report", "schedule"}:
        del sys.modules[name]
"""
SEEDS = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, History]:
    folder = tmp_path_factory.mktemp("projects")
    return {fault.name: lay_out(folder / fault.name, fault, 1) for fault in EVERY}


def _merges(git: Git, *, ancestor: str, ours: str, theirs: str) -> bool:
    """True when the three-way merge, which reverts and picks are, has no conflict."""
    base = git("commit-tree", ancestor + "^{tree}", "-m", "base")
    sides = [git("commit-tree", side + "^{tree}", "-p", base, "-m", "side") for side in (ours, theirs)]
    return git.attempt("merge-tree", "--write-tree", *sides).returncode == 0


def test_the_list_of_faults_is_frozen() -> None:
    """Shows issue 2: at least five kinds and an interaction, selectable by these names."""
    assert [fault.name for fault in FAULTS] == [
        "over_balance", "layer_skip", "router_muon", "leftover_pages", "norm_decay", "loader_order", "interaction"
    ]  # fmt: skip
    assert find_fault("healthy") is HEALTHY


def test_an_unknown_fault_is_refused_with_the_known_names() -> None:
    with pytest.raises(UserInputError, match="over_balance"):
        find_fault("no_such_fault")


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_the_same_seed_gives_the_same_hashes(fault: Fault, laid_out: dict[str, History], tmp_path: Path) -> None:
    again = lay_out(tmp_path / "elsewhere", fault, 1)
    first = laid_out[fault.name]
    assert (again.base, again.commits, again.faulty) == (first.base, first.commits, first.faulty)


def test_laying_out_twice_finds_the_finished_project(laid_out: dict[str, History]) -> None:
    first = laid_out["over_balance"]
    assert lay_out(first.project, find_fault("over_balance"), 1) == first


def test_a_half_written_project_is_made_anew(tmp_path: Path, laid_out: dict[str, History]) -> None:
    draft = tmp_path / "project.draft"
    draft.mkdir()
    (draft / "left_over.py").write_text("broken")
    history = lay_out(tmp_path / "project", HEALTHY, 1)
    assert history.commits == laid_out["healthy"].commits
    assert not draft.exists()


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_fault_lies_after_the_last_resume(fault: Fault, seed: int) -> None:
    """At least 12 commits, and the faulty ones only in the window that the second resume brings in."""
    changes = plan(fault, seed)
    faulty = fault.changes(seed)
    assert len(changes) >= 12
    assert set(faulty) <= set(changes[7:])
    assert [change for change in changes if change in set(faulty)] == list(faulty)


def test_the_place_of_the_fault_and_the_order_of_the_others_vary() -> None:
    fault = find_fault("over_balance")
    plans = [plan(fault, seed) for seed in range(1, 9)]
    assert len({changes.index(fault.changes(1)[0]) for changes in plans}) > 2
    assert len({tuple(change.subject for change in changes[:7]) for changes in plans}) == len(plans)


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_every_commit_reverts_and_picks_alone(fault: Fault, laid_out: dict[str, History]) -> None:
    history = laid_out[fault.name]
    git = Git(history.project)
    parents = (history.base, *history.commits)
    for parent, commit in zip(parents, history.commits, strict=False):
        assert _merges(git, ancestor=commit, ours=history.head, theirs=parent), f"revert of {commit}"
        assert _merges(git, ancestor=parent, ours=history.base, theirs=commit), f"pick of {commit}"


def test_the_recipe_loads_at_every_commit(laid_out: dict[str, History], tmp_path: Path) -> None:
    """At the base, at every commit of one history, and at each faulty commit and head; one process, fresh modules."""
    folders = []
    for history in laid_out.values():
        everything = history.commits if history is laid_out["interaction"] else (*history.faulty, history.head)
        for commit in dict.fromkeys((history.base, *everything)):
            folders.append(str(tmp_path / str(len(folders))))
            Git(history.project)("worktree", "add", "--detach", folders[-1], commit)
    done = subprocess.run([sys.executable, "-c", LOAD, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["240"] * len(folders)


def test_nothing_in_the_project_names_a_fault(laid_out: dict[str, History]) -> None:
    """The truth lies outside what is judged (design section 5)."""
    for history in laid_out.values():
        said = Git(history.project)("log", "-p", "--all").lower()
        for word in (*(fault.name for fault in FAULTS), "fault", "truth", "lathe", "demo"):
            assert not re.search(rf"\b{word}\b", said), f"{history.project.name}: {word}"


def test_an_edit_that_fits_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    change = Change(subject="twice", edits=(Edit(path="a.py", before="x = 1\n", after="x = 2\n"),))
    with pytest.raises(UserInputError, match="occurs 2 times"):
        apply(change, tmp_path)
