"""Which code a training elsewhere ran. Shows R801-2.7: what was not committed is stored as a patch, found by search."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from elsewhere import ApiProcess, Trainings

from context_store import Store
from contracts.enums import TimelineKind

TRAIN = "run = lathe_log.init('p', run={run!r})\nrun.log({{'loss': 1.0}}, step=8)\nassert run.finish()\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Around the folder in which trainings start; the spool and the like are ignored."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".gitignore").write_text("spool\nhome\n")
    (tmp_path / "train.py").write_text("LR = 0.1\nKEY = None\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_uncommitted_changes_of_a_training_elsewhere_are_stored(
    api: ApiProcess, trainings: Trainings, store: Store, repository: Path
) -> None:
    api.start()
    head = git(repository, "rev-parse", "HEAD")
    trainings.run(TRAIN.format(run="clean"))
    (clean,) = store.runs.segments("clean")
    assert clean.code_version == head
    assert clean.environment["git.dirty"] is False

    (repository / "train.py").write_text("LR = 0.3\nKEY = 'sk-abcdefghijklmnopqrstuvwx'\n")
    (repository / "balance.py").write_text("ROUTER = 'loads \\u0000 anew'\n")
    (repository / "weights.bin").write_bytes(b"\0" * 100_000)
    git(repository, "add", "balance.py")
    before = git(repository, "count-objects", "-v"), git(repository, "status", "--porcelain")
    trainings.run(TRAIN.format(run="dirty"))
    assert before == (git(repository, "count-objects", "-v"), git(repository, "status", "--porcelain"))
    (segment,) = store.runs.segments("dirty")
    assert (segment.environment["git.dirty"], segment.environment["git.commit"]) == (True, head)
    assert segment.code_version.startswith("worktree-")
    found = {hunk.path: hunk.text for hunk in store.code.hunks("p", segment.code_version)}
    assert found == {
        "balance.py": "+ROUTER = 'loads \\u0000 anew'\n",
        "train.py": "-LR = 0.1\n-KEY = None\n+LR = 0.3\n+KEY = '[redacted key]'\n",
    }
    (event,) = store.timeline.list("dirty", kinds=[TimelineKind.CODE])
    assert (event.step, event.detail) == (7, {"commit": segment.code_version, "head": head})
    title = f"uncommitted changes on {head[:12]}: balance.py"
    assert title in [hit.title for hit in store.search.find("loads router anew")]
    new = store.code.commits("p", head, segment.code_version)
    assert [commit.hash for commit in new] == [segment.code_version], "also where the commit itself is not stored"

    (repository / "weights.bin").unlink()
    assert store.code.ingest_working_tree("p", repository) == new[0], "here and elsewhere it has one name"


def test_every_rank_says_where_it_runs(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    for rank in (0, 1):
        more = {"RANK": str(rank), "WORLD_SIZE": "2", "LATHE_START": "one launch"}
        trainings.run(TRAIN.format(run="ranks"), more=more)
    found = store.environment.at("ranks")
    assert [(place.rank, place.host) for place in found.ranks] == [(0, platform.node()), (1, platform.node())]


def test_what_is_no_patch_is_refused_and_the_rest_is_kept(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    trainings.run(
        """
run = lathe_log.init("p", run="r")
run.log({"loss": 1.0})
for patch in ("diff --git a/x b/x\\n@@ -1,9 +1,99999999999 @@\\n", "\\x01not a commit\\n"):
    line = {"step": 0, "head": "a" * 40, "version": "worktree-" + "b" * 40, "patch": patch, "wall_time": 1.0}
    run._write({"kind": "patch", **line}, 1)
run.log({"loss": 2.0})
assert run.flush() is False
"""
    )
    assert store.series.read("r", "loss").values.tolist() == [1.0, 2.0]
    assert store.code.hunks("p", "worktree-" + "b" * 40) == []
