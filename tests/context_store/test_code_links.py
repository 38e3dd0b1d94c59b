"""Hunk -> fields it reads -> statistics it bears on; dirty trees; renames. Shows R801-2.7 and R801-2.9 (joins)."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from training_log import Training, append, make_run, scalars, started, steps

from context_store import Store
from context_store.field_reads import FieldNames
from context_store.links import family
from context_store.records import Project


@dataclass(frozen=True)
class Bears:
    name: str
    words: frozenset[str]
    statistics: tuple[str, ...]


TOPICS = (
    Bears("load balance", frozenset({"balance", "coef"}), (r"max_vio", r"balance_loss")),
    Bears("optimizer", frozenset({"lr", "clip"}), (r"grad_norm",)),
)
BALANCE = """\
def penalty(probs, config):
    scale = 1.0
    return config.balance.coef * probs.mean() * scale


def unrelated(x):
    return x
"""
CONFIG = scalars(moe__balance__coef=0.01, moe__z__coef=0.1, optim__router__lr=0.1, optim__head__lr=0.2, seed=1)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, check=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, subject: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, store: Store) -> Path:
    """Project `p` with balance.py and a run of 48 layers."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "balance.py").write_text(BALANCE)
    commit(folder, "start")
    make_run(store)
    store.projects.put(Project(id="p", path=str(folder)))
    values = {f"max_vio/layers.{layer}": 1.0 for layer in range(48)} | {"grad_norm/head": 1.0, "tokens": 1.0}
    append(tmp_path / "run-1", 0, started(config=CONFIG), *steps(1, 3, values))
    store.ingest.ship("run-1", tmp_path / "run-1")
    return folder


def link(store: Store, repository: Path) -> int:
    store.code.ingest("p", repository)
    return store.links.link("p", repository, TOPICS)


def test_a_hunk_leads_to_the_field_it_reads_and_on_to_the_statistics(store: Store, repository: Path) -> None:
    (repository / "balance.py").write_text(BALANCE.replace("scale = 1.0", "scale = 2.0"))
    inside = commit(repository, "scale")
    (repository / "balance.py").write_text(BALANCE.replace("config.balance.coef", "config.balance.coef / 2"))
    named = commit(repository, "half")
    (repository / "tool.py").write_text("def tool():\n    return 1\n")
    unrelated = commit(repository, "tool")
    assert link(store, repository) == 4
    (around,) = {(each.field, each.how.partition(";")[0]) for each in store.links.of_commit("p", inside) if each.field}
    assert around == ("moe.balance.coef", "penalty reads config.balance.coef")
    direct = [each for each in store.links.of_commit("p", named) if each.field]
    assert {each.how.partition(";")[0] for each in direct} == {"a changed line reads config.balance.coef"}
    assert {each.statistic for each in direct} == {"max_vio/layers.*"}
    assert store.links.of_commit("p", unrelated) == []
    assert {each.commit for each in store.links.bearing_on("p", "max_vio/layers.17", [inside, unrelated])} == {inside}
    assert {each.commit for each in store.links.reading("p", "moe.balance.coef")} >= {inside, named}
    assert store.links.bearing_on("p", "tokens") == []


def test_all_series_of_48_layers_are_joined_with_the_hunks(store: Store, repository: Path) -> None:
    (repository / "train.py").write_text("def step(config):\n    return config['optim']['router']['lr']\n")
    router = commit(repository, "router rate")
    link(store, repository)
    joined = store.links.joined("p", "run-1", [router])
    assert set(joined) == {"grad_norm/head"}
    assert [(each.path, each.field) for each in joined["grad_norm/head"]] == [("train.py", "optim.router.lr")]
    first = store.code.commits("p", None, router)[0].hash
    assert len([name for name in store.links.joined("p", "run-1", [first]) if name.startswith("max_vio")]) == 48


def test_linking_again_follows_what_the_runs_have(store: Store, repository: Path, tmp_path: Path) -> None:
    link(store, repository)
    before = store.links.reading("p", "moe.balance.coef")
    link(store, repository)
    assert store.links.reading("p", "moe.balance.coef") == before
    make_run(store, "run-2")
    store.projects.put(Project(id="p", path=str(repository)))
    append(tmp_path / "run-2", 0, started("run-2", config={"penalty.scale": 1}), *steps(1, 2, {"balance_loss": 1.0}))
    store.ingest.ship("run-2", tmp_path / "run-2")
    link(store, repository)
    assert {each.statistic for each in store.links.reading("p", "moe.balance.coef")} == {
        "max_vio/layers.*",
        "balance_loss",
    }


def test_names_of_fields_in_code() -> None:
    names = FieldNames(["moe.balance.coef", "moe.z.coef", "optim.router.lr", "optim.head.lr", "seed", "data.größe"])
    assert names.read_by("x = config.moe.z.coef") == {"moe.z.coef": "config.moe.z.coef"}
    assert names.read_by("x = c.coef", around=["balance.py"]) == {"moe.balance.coef": "c.coef"}
    assert names.read_by("x = c.coef", around=["other.py"]) == {}
    assert names.read_by('x = c["optim"]["router"]["lr"]') == {"optim.router.lr": "c.optim.router.lr"}
    assert names.read_by('x = c.router.get("lr",0.1)') == {"optim.router.lr": "c.router.lr"}
    assert names.read_by("lr: 0.1\nseed: 3", around=["router.yaml"]).keys() == {"optim.router.lr", "seed"}
    assert names.read_by("a = cfg.größe") == {"data.größe": "cfg.größe"}
    assert names.read_by("coefficient = lrx + seedling") == {}


def test_families_of_series() -> None:
    assert family("expert_load/layers.15/experts.3@rank=12") == "expert_load/layers.*/experts.*@rank=*"
    assert family("lr/group.router") == "lr/group.router"
    assert family("v2.5x/loss") == "v2.5x/loss"


# --- what is not committed


def test_a_dirty_working_tree_is_stored_as_a_patch_on_head(store: Store, repository: Path) -> None:
    assert store.code.ingest_working_tree("p", repository) is None
    head = git(repository, "rev-parse", "HEAD")
    (repository / "balance.py").write_text(BALANCE.replace("scale = 1.0", "scale = 3.0"))
    (repository / "new.py").write_text("def added(config):\n    return config.balance.coef\n")
    git(repository, "add", "new.py")
    (repository / "untracked.py").write_text("KEY = 'hf_" + "Ab1" * 12 + "'\n")
    status = git(repository, "status", "--porcelain")
    found = store.code.ingest_working_tree("p", repository)
    assert found is not None
    assert found.hash.startswith("worktree-")
    assert found.parents == (head,)
    assert [(h.path, h.symbols) for h in store.code.hunks("p", found.hash)] == [
        ("balance.py", ("penalty",)),
        ("new.py", ("added",)),
        ("untracked.py", ("KEY",)),
    ]
    assert "[redacted key]" in store.code.hunks("p", found.hash)[-1].text
    assert store.code.ingest_working_tree("p", repository) == found
    assert git(repository, "status", "--porcelain") == status, "the repository itself is untouched"
    assert [each.hash for each in store.code.commits("p", head, found.hash)] == [found.hash]
    link(store, repository)
    assert {each.field for each in store.links.of_commit("p", found.hash)} >= {"moe.balance.coef"}
    later = commit(repository, "all of it")
    assert store.code.ingest("p", repository) == 1, "history goes on from HEAD, not from the patch"
    assert store.code.commit("p", later).parents == (head,)


def test_a_rename_keeps_both_names(store: Store, repository: Path, training: Training) -> None:
    git(repository, "mv", "balance.py", "route.py")
    pure = commit(repository, "rename")
    git(repository, "mv", "route.py", "größe.py")
    (repository / "größe.py").write_text(BALANCE.replace("return x", "return x + 1"))
    edited = commit(repository, "rename and edit")
    store.code.ingest("p", repository)
    assert [(h.old_path, h.path, h.new_lines) for h in store.code.hunks("p", pure)] == [("balance.py", "route.py", 0)]
    (hunk,) = store.code.hunks("p", edited)
    assert (hunk.old_path, hunk.path, hunk.symbols) == ("route.py", "größe.py", ("unrelated",))
