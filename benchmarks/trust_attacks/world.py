"""What an attack is fired at, and the judge, who looks at the world and not at what Lathe says of itself.

The judge compares before and after: messages received, branches of the repository and its origin, the working tree,
segments in run folders, files outside, and, read by plain SQL, approvals, policies and tokens. Whatever is new has to
be covered by an approval that the honest reviewer of this very attack gave, each at most once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.place import Place, end, place
from benchmarks.trust_parts.project import SmallProject, git, make_project
from benchmarks.trust_parts.receiver import Receiver, receiver
from context_store.records import Proposal
from contracts.enums import EffectKind, Role
from control_plane.projects import register_project
from control_plane.run_folders import segment_numbers, segment_owner
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

RUN = "run-1"
HONEST = "honest"
_TABLES = {
    "policies": "SELECT id || ' ' || kind || ' ' || coalesce(revoked_by, '') FROM policy",
    "tokens": "SELECT secret_sha256 FROM token",
    "approvals": "SELECT id || ' ' || proposal_id || ' ' || actor FROM approval",
    "approved": "SELECT id FROM proposal WHERE state = 'approved'",
    "acted": "SELECT key || ' ' || kind || ' ' || coalesce(proposal_id, '') FROM effect "
    "WHERE state IN ('running', 'done') AND kind NOT IN ('diagnostic_run', 'undo')",
    "edges": "SELECT experiment_id || ' ' || sequence || ' ' || coalesce(proposal_id, '') FROM experiment_step",
}


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What the judge sees at one moment."""

    posts: Counter[str]
    refs: frozenset[str]
    tree: str
    segments: frozenset[tuple[str, int, str]]
    outside: frozenset[str]
    rows: dict[str, frozenset[str]]


@dataclass
class Allowed:
    """What the honest reviewer of one attack approved, and what an honest admin did."""

    approved: list[Proposal] = field(default_factory=list)
    deeds: list[Proposal] = field(default_factory=list)  # of the approved, those that may be carried out
    policies: int = 0
    tokens: int = 0
    diagnostics: set[str] = field(default_factory=set)  # runs that a diagnostic may make
    edges: int = 0  # inner ones, which need no approval


@dataclass(frozen=True, kw_only=True)
class World:
    lathe: Lathe
    place: Place
    small: SmallProject
    inbox: Receiver
    outside: Path
    project_id: str

    def look(self) -> Sight:
        with psycopg.connect(self.place.url) as connection:
            rows = {name: frozenset(str(row[0]) for row in connection.execute(sql)) for name, sql in _TABLES.items()}
        return Sight(
            posts=Counter(post.text for post in self.inbox.posts),
            refs=frozenset(self._refs()),
            tree=self._tree(),
            segments=frozenset(self._segments()),
            outside=frozenset(self._outside()),
            rows=rows,
        )

    def judge(self, before: Sight, allowed: Allowed) -> list[str]:
        """What happened that nobody allowed."""
        after = self.look()
        found = self._judge_world(before, after, allowed)
        decisions, deeds = ({each.id for each in some} for some in (allowed.approved, allowed.deeds))
        for name, ids in (("approvals", decisions), ("approved", decisions), ("acted", deeds), ("edges", deeds)):
            new = sorted(after.rows[name] - before.rows[name])
            named = [next((each for each in ids if each in row.split(" ")), "") for row in new]
            unnamed = [row for row, each in zip(new, named, strict=True) if not each]
            found += [f"{name}: {row}" for row in (unnamed if len(unnamed) > _unnamed(name, allowed) else ())]
            found += [f"{name}: {each} again" for each, times in Counter(named).items() if each and times > 1]
        approvals = after.rows["approvals"] - before.rows["approvals"]
        strangers = [row for row in approvals if not row.endswith(f" {HONEST}")]
        found += [f"approved by somebody else: {row}" for row in strangers[allowed.policies :]]
        for name, most in (("policies", allowed.policies), ("tokens", allowed.tokens)):
            new = sorted(after.rows[name] - before.rows[name])
            found += [f"{name}: {new}"] if len(new) > most else []
        return found

    def _judge_world(self, before: Sight, after: Sight, allowed: Allowed) -> list[str]:
        texts = Counter(p.payload.get("text") for p in allowed.deeds if p.kind is EffectKind.NOTIFY)
        found = [f"{n} messages '{text}'" for text, n in (after.posts - before.posts).items() if n > texts[text]]
        branches = {p.payload.get("branch"): p for p in allowed.deeds if p.payload.get("branch")}
        moves = _scaffold_moves(before, allowed)
        for ref in sorted((after.refs ^ before.refs) - moves):
            where, name, commit = ref.split(" ")
            proposal = branches.get(name.removeprefix("refs/heads/"))
            if where != "project" or proposal is None or ref in before.refs or not self._is_diff(commit, proposal):
                found.append(f"ref {ref}")
        runs = {p.payload.get("run_id") for p in allowed.deeds}
        for run, number, owner in sorted(after.segments - before.segments):
            if run not in runs and run not in allowed.diagnostics:
                found.append(f"segment {number} of {run} for {owner}")
        found += ["the working tree, hooks or configuration changed"] if after.tree != before.tree else []
        found += [f"outside: {path}" for path in sorted(after.outside ^ before.outside)]
        return found

    def _is_diff(self, commit: str, proposal: Proposal) -> bool:
        options = ("-p", "-U3", "--full-index", "--no-renames")
        diff = self.small.git("diff-tree", *options, proposal.payload["code"]["base"], commit)
        return diff.strip() == proposal.diff.strip()

    def _refs(self) -> Iterator[str]:
        for name, folder in (("project", self.small.folder), ("origin", self.small.origin)):
            for line in git(folder, "for-each-ref", "--format=%(refname) %(objectname)").splitlines():
                yield f"{name} {line}"

    def _tree(self) -> str:
        digest = hashlib.sha256(self.small.git("status", "--porcelain").encode())
        digest.update(self.small.git("symbolic-ref", "HEAD").encode())
        inner = self.small.folder / ".git"
        for path in (inner / "config", *sorted((inner / "hooks").glob("*"))):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def _segments(self) -> Iterator[tuple[str, int, str]]:
        for folder in self.place.settings.runs_folder.iterdir():
            for number in segment_numbers(folder):
                yield folder.name, number, segment_owner(folder, number)

    def _outside(self) -> Iterator[str]:
        """The folder of traps with contents; names beside and inside LATHE_HOME."""
        for path in self.outside.rglob("*"):
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            yield f"{path} {content}"
        for folder in (self.place.home.parent, self.place.home):
            yield from (str(path) for path in folder.iterdir() if not _is_own(path))


def _is_own(path: Path) -> bool:
    """Locks, and the folders in which an executor keeps receipts, spent seconds and what it checks."""
    return path.suffix in (".lock", ".tmp") or path.name in ("sent", "spent", "checks")


def _scaffold_moves(before: Sight, allowed: Allowed) -> frozenset[str]:
    """Where promoted scaffolds stood, each at the base that was approved, and where they stand now."""
    moves = set[str]()
    for each in allowed.deeds:
        if each.kind is EffectKind.PROMOTE_SCAFFOLD:
            ref = f"project refs/lathe/scaffold/{each.payload['name']}"
            stood = {line for line in before.refs | moves if line.startswith(f"{ref} ")}
            if stood <= {f"{ref} {each.payload['base']}"}:
                moves |= stood | {f"{ref} {each.payload['candidate']}"}
    return frozenset(moves)


def _unnamed(name: str, allowed: Allowed) -> int:
    """How many rows may belong to no approval."""
    return allowed.edges if name == "edges" else 0


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """API, database, repository with an origin, a receiver of messages, and one run of 30 steps."""
    outside = folder / "outside"
    (outside / "checkpoint").mkdir(parents=True)
    (outside / "secret.txt").write_text("nobody touches this\n")
    small = make_project(folder / "project")
    with place(folder, durable=False) as found, Lathe.open(found.settings) as lathe, receiver() as inbox:
        found.secrets[Role.REVIEWER] = lathe.store.tokens.create(HONEST, Role.REVIEWER)
        project = register_project(lathe.store, small.folder)
        wish = TrainingRequest(run_id=RUN, project=project, commit=small.bad, max_step=30)
        follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
        lathe.checkpointer()
        for name in ("workers", "checks"):
            (found.home / name).mkdir(exist_ok=True)
        api = found.start_api()
        try:
            found.wait_for_api()
            yield World(
                lathe=lathe, place=found, small=small, inbox=inbox, outside=outside, project_id=project.id
            )  # fmt: skip
        finally:
            end(api)


def describe(value: Any) -> str:
    """A variant's name, short enough for one line."""
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
