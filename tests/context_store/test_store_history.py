"""Timeline and git history: what changed before an onset. Shows R801-2.7 (130 commits, 106 fields)."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest
from training_log import Training, append, make_run, started, steps

from context_store import Store, diff_config
from context_store.records import ConfigChange, Project, TimelineEvent
from contracts.enums import TimelineKind
from contracts.errors import NotFound, RepositoryError
from contracts.events import DataRead, Effective, Metrics, Scalar


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, check=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, subject: str, **files: str) -> str:
    """Write files (`name__py` is name.py), commit, return the hash."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def history(folder: Path, versions: list[str]) -> list[str]:
    """One commit for each version of balance.py, all in one call of git; returns the hashes."""
    stream = ""
    for number, text in enumerate(versions):
        subject = f"version {number}"
        stream += f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1000 + number} +0000\n"
        stream += f"data {len(subject)}\n{subject}\nM 644 inline balance.py\ndata {len(text)}\n{text}\n"
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=stream, text=True, check=True)
    return git(folder, "rev-list", "--reverse", "main").splitlines()


@pytest.fixture
def repository(tmp_path: Path, store: Store) -> Path:
    """An empty repository of project `p`."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    store.projects.put(Project(id="p", path=str(folder)))
    return folder


# --- configuration and timeline


def test_diff_names_added_removed_and_changed_fields() -> None:
    nan = float("nan")
    before: dict[str, Scalar] = {"a": 1, "b": True, "c": nan, "d": "x", "e": None}
    after: dict[str, Scalar] = {"a": 1.0, "b": 1, "c": nan, "e": None, "f": None}
    assert diff_config(before, after) == (
        ConfigChange(key="b", before=True, after=1, status="changed"),
        ConfigChange(key="d", before="x", after=None, status="removed"),
        ConfigChange(key="f", before=None, after=None, status="added"),
    )


def test_a_resume_tells_every_difference_of_106_fields(training: Training) -> None:
    fields: dict[str, Scalar] = {f"group{i % 7}.field{i}": i for i in range(103)}
    fields |= {"long": "a" * 9000, "data.mixture.library": 0.5, "clip": float("inf")}
    changed = fields | {"group0.field0": -1, "long": "b" * 9000, "data.mixture.library": 0.7}
    training.log(started(config=fields), Effective(step=1, values={"param_group.head": "adamw", "group0.field0": 0}))
    training.log(*steps(1, 10))
    training.log(
        started(
            segment=1,
            start_step=8,
            config=changed,
            code_version="decade",
            environment={"python": "3.12"},
            start_checkpoint="/c/8",
            seed=2,
        ),
        Effective(step=9, values={"param_group.head": "muon", "group0.field0": -1}),
        segment=1,
    )
    training.ship()
    events = training.store.timeline.list("run-1")
    assert {(event.kind.value, event.title, event.step) for event in events} == {
        ("config", f"long {'a' * 39}… -> {'b' * 39}…", 8),
        ("resume", "resumed at step 8", 8),
        ("code", "code c0ffee -> decade", 8),
        ("config", "group0.field0 0 -> -1", 8),
        ("config", "seed 1 -> 2", 8),
        ("data", "data.mixture.library 0.5 -> 0.7", 8),
        ("environment", "environment python 3.11 -> 3.12", 8),
        ("config", "effective param_group.head adamw -> muon", 9),
    }
    assert training.store.runs.declared("run-1", 1)["clip"] == float("inf")
    near = training.store.timeline.list("run-1", lo=5, hi=8, kinds=[TimelineKind.CONFIG])
    assert {event.detail["key"] for event in near} == {"group0.field0", "seed", "long"}


def test_a_fork_is_compared_with_its_parent(training: Training, tmp_path: Path) -> None:
    training.log(*steps(1, 10))
    training.ship()
    make_run(training.store, "rr-1", parent_run_id="run-1", parent_step=5)
    append(tmp_path / "rr-1", 0, started(run_id="rr-1", start_step=5, code_version="facade"))
    training.store.ingest.ship("rr-1", tmp_path / "rr-1")
    kinds = [event.kind for event in training.store.timeline.list("rr-1")]
    assert kinds == [TimelineKind.FORK, TimelineKind.CODE]


def test_a_hand_written_event_is_stored_once(training: Training) -> None:
    event = TimelineEvent(run_id="run-1", segment=0, step=3, kind=TimelineKind.NOTE, title="new disk", detail={"n": 1})
    long = training.store.timeline.add(dataclasses.replace(event, title="x" * 5000, step=1))
    assert len(long.title) == 200
    stored = training.store.timeline.add(event)
    assert training.store.timeline.add(event) == stored
    assert stored.id > 0
    assert training.store.timeline.list("run-1") == [long, stored]
    with pytest.raises(NotFound):
        training.store.timeline.add(TimelineEvent(run_id="?", segment=0, step=0, kind=TimelineKind.NOTE, title=""))


# --- git

BALANCE = '''\
import torch

SCALE = 1.0


class Router:
    width = 3

    def forward(self, x):
        return x


def loss(probs):
    """Mean."""
    return probs.mean()
'''


def test_130_commits_with_hunks_and_symbols(store: Store, repository: Path) -> None:
    hashes = history(repository, [BALANCE.replace("width = 3", f"width = {number}") for number in range(3, 133)])
    assert store.code.ingest("p", repository) == 130
    assert store.code.ingest("p", repository) == 0
    between = store.code.commits("p", after=hashes[9], upto=hashes[19])
    assert [entry.hash for entry in between] == hashes[10:20]
    assert [entry.hash for entry in store.code.commits("p", None, hashes[-1])] == hashes
    assert store.code.commits("p", hashes[5], hashes[5]) == []
    assert (between[0].author, between[0].parents, between[0].subject) == ("Ada", (hashes[9],), "version 10")
    (hunk,) = store.code.hunks("p", hashes[10])
    assert (hunk.path, hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) == ("balance.py", 7, 1, 7, 1)
    assert hunk.symbols == ("Router.width",)
    assert hunk.text == "-    width = 12\n+    width = 13\n"


def test_symbols_of_additions_removals_and_odd_lines(store: Store, repository: Path) -> None:
    commit(repository, "start", balance__py=BALANCE)
    changed = (
        BALANCE.replace("SCALE = 1.0", "SCALE = 2.0")
        .replace('    """Mean."""\n', "")
        .replace("return x\n", "return x * 2\n")
    )
    second = commit(repository, "three places", balance__py=changed, notes__txt="--- a/fake\n+++ b/fake\n@@ -1 +1 @@\n")
    third = commit(repository, "broken", balance__py=changed + "def (\n", notes__txt="")
    git(repository, "mv", "balance.py", "route.py")
    fourth = commit(repository, "pure rename")
    store.code.ingest("p", repository)
    hunks = store.code.hunks("p", second)
    assert [(hunk.path, hunk.symbols) for hunk in hunks] == [
        ("balance.py", ("SCALE",)),
        ("balance.py", ("Router.forward",)),
        ("balance.py", ("loss",)),
        ("notes.txt", ()),
    ]
    assert hunks[-1].text == "+--- a/fake\n++++ b/fake\n+@@ -1 +1 @@\n"
    assert [hunk.symbols for hunk in store.code.hunks("p", third)] == [(), ()]
    (renamed,) = store.code.hunks("p", fourth)
    assert (renamed.path, renamed.new_lines) == ("route.py", 0)
    assert "rename from balance.py" in renamed.text


def test_branches_merges_and_increments(store: Store, repository: Path) -> None:
    base = commit(repository, "base", a__py="A = 1\n")
    git(repository, "checkout", "-q", "-b", "side")
    side = commit(repository, "side", b__py="B = 1\n")
    git(repository, "checkout", "-q", "main")
    main = commit(repository, "main", a__py="A = 2\n")
    assert store.code.ingest("p", repository) == 3
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = git(repository, "rev-parse", "HEAD")
    assert store.code.ingest("p", repository) == 1
    assert {entry.hash for entry in store.code.commits("p", main, merge)} == {side, merge}
    assert store.code.commits("p", main, merge)[-1].hash == merge
    assert store.code.commits("p", base, side)[0].hash == side
    assert store.code.hunks("p", merge) == []


def test_bad_repositories_are_named_with_a_remedy(store: Store, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    git(broken, "init", "-q")
    commit(broken, "one", a__py="A = 1\n")
    for path in (broken / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    for path in (tmp_path / "missing", tmp_path / "plain", repository, broken):
        with pytest.raises(RepositoryError, match=path.name) as caught:
            store.code.ingest("p", path)
        assert caught.value.remedy
    with pytest.raises(RepositoryError, match="no commit 'abc'"):
        store.code.commits("p", None, "abc")


def test_what_was_read_before_the_damage_is_kept(store: Store, repository: Path) -> None:
    first = commit(repository, "one", a__py="A = 1\n")
    second = commit(repository, "two", a__py="A = 2\n")
    blob = git(repository, "rev-parse", f"{second}:a.py")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError):
        store.code.ingest("p", repository)
    assert [entry.hash for entry in store.code.commits("p", None, first)] == [first]
    assert len(store.code.hunks("p", first)) == 1
    (repository / "a.py").write_text("A = 2\n")
    git(repository, "hash-object", "-w", "a.py")
    assert store.code.ingest("p", repository) == 1, "a repaired repository goes on where it stopped"
    assert len(store.code.hunks("p", second)) == 1


def test_keys_in_code_are_redacted_but_code_is_not_mistaken_for_addresses(store: Store, repository: Path) -> None:
    key = "hf_" + "Ab1" * 12
    first = commit(repository, "leak", a__py=f"TOKEN = '{key}'\ny = x@weights.view(3)\n")
    store.code.ingest("p", repository)
    (hunk,) = store.code.hunks("p", first)
    assert hunk.text == "+TOKEN = '[redacted key]'\n+y = x@weights.view(3)\n"


# --- by tokens


def test_what_changed_before_an_onset_is_found_by_tokens_as_by_step(training: Training) -> None:
    """Shows R801-2.7: tied to step and token count; here the length of a sample changes on the way."""
    fields: dict[str, Scalar] = {"data.seq_len": 100}
    fields |= {f"group{i % 7}.field{i}": i for i in range(105)}
    training.log(started(config=fields), Effective(step=1, values={"data.seq_len": 100}), *reads(1, 10))
    training.log(*steps(1, 10), Effective(step=11, values={"data.seq_len": 200}), *reads(11, 20), *steps(11, 20))
    later = fields | {"group0.field0": -1, "data.seq_len": 200}
    training.log(started(segment=1, start_step=15, config=later), *reads(16, 30), *steps(16, 30), segment=1)
    training.ship()
    timeline = training.store.timeline
    seen = timeline.tokens_seen("run-1")
    assert [seen.at(step) for step in (0, 1, 10, 11, 15, 30, 31)] == [0, 800, 8000, 9600, 16000, 40000, None]
    onset = seen.at(18)
    assert onset is not None
    events = timeline.list("run-1")
    near = {event.title for event in seen.between(events, onset - 5000, onset)}
    assert "group0.field0 0 -> -1" in near
    assert {event.step for event in seen.between(events, None, 15_999)} == {11}
    assert seen.between(events, None, None) == events


def test_a_count_of_its_own_goes_before_what_the_configuration_says(training: Training) -> None:
    training.log(started(config={"data.seq_len": 100}), *reads(1, 10))
    training.log(*(Metrics(step=step, values={"tokens_seen": 1e6 * step}) for step in (2, 6)))
    training.ship()
    seen = training.store.timeline.tokens_seen("run-1")
    assert [seen.at(step) for step in (1, 2, 4, 6, 7)] == [1e6, 2e6, 4e6, 6e6, None]


def test_tokens_that_nobody_recorded_are_not_guessed(training: Training) -> None:
    training.log(started(config={}), *reads(1, 10), *steps(1, 10))
    training.ship()
    note = TimelineEvent(run_id="run-1", segment=0, step=3, kind=TimelineKind.NOTE, title="new disk")
    stored = training.store.timeline.add(note)
    seen = training.store.timeline.tokens_seen("run-1")
    assert (seen.at(3), seen.between([stored], 0, None)) == (None, [])


def reads(lo: int, hi: int) -> list[DataRead]:
    """Eight samples a step."""
    return [DataRead(step=step, sample_hash=str(step), position=8 * step) for step in range(lo, hi + 1)]
