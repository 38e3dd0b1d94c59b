"""The late kinds: that each is laid out as it says. What they do to a training is not looked at here."""

import ast
import shutil
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.trainrca.decoys import decoys
from benchmarks.trainrca.editing import Config, Data, Repo
from benchmarks.trainrca.kinds import LATE_KINDS, Kind, all_kinds, load_kinds
from benchmarks.trainrca.making import PROJECTS
from benchmarks.trainrca.plan import plan
from control_plane.demo.changes import apply
from control_plane.git import Git

LATE = load_kinds(LATE_KINDS)


def test_there_are_six_of_several_families() -> None:
    assert len(LATE) == 6
    assert all(kind.late for kind in LATE)
    assert len({kind.family for kind in LATE}) >= 4
    assert len({kind.name for kind in all_kinds()}) == len(all_kinds())  # a name stands for one kind


def test_they_come_last_in_the_plan() -> None:
    names = {kind.name for kind in LATE}
    order = [each.kind in names for each in plan(all_kinds())]
    assert order == sorted(order)
    assert any(order)


@pytest.mark.parametrize("kind", LATE, ids=lambda kind: kind.name)
def test_code_still_parses_after_every_commit_and_each_reverts_alone(kind: Kind, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(PROJECTS[kind.trainer], folder, ignore=shutil.ignore_patterns("__pycache__"))
    for change in islice(decoys(folder, kind.trainer, 1), 30):  # whatever a team did before
        if change.edits[0].before:
            apply(change, folder)
    repo = Repo(folder, 1, iter(()))
    repo.begin()
    git = Git(folder)
    sound = git("rev-parse", "HEAD^{tree}")
    cause = kind.apply(Config(repo=repo, file="config.json"), repo, Data(repo=repo, file="data.json"))
    hashes = [target.removeprefix("commit:") for target in cause.targets]
    assert hashes
    assert git("rev-list", "--reverse", "HEAD").split()[1:] == hashes
    for each in hashes:
        for path in git("diff", "--name-only", f"{each}~1", each).split():
            ast.parse(git("show", f"{each}:{path}"), path)
    for each in hashes:
        git("revert", "--no-edit", each)
    assert git("rev-parse", "HEAD^{tree}") == sound
