"""What changed: timeline, configuration, commits and their hunks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from pydantic import Field

from agents import evidence
from agents.tools.matching import best, words
from agents.tools.protocol import MAX_ROWS, Arguments, Row, ToolResult, result, row
from context_store import Store, diff_config
from context_store.records import Commit, Segment, TimelineEvent
from contracts.enums import RunRole, TimelineKind
from contracts.errors import RepositoryError, UserInputError
from contracts.evidence import EvidenceRef

_PATH = re.compile(r"\b[\w./-]+\.(?:py|md|toml|ya?ml|json|cfg|sh|txt|cu|cpp|rs)\b")
_OF_COMMITS = frozenset(
    words(
        "commit commits committed wrote write written author change changed changes touched touch touches edit edited "
        "code last which message show list num line lines diff hunk hunks"
    )
)
_MIN_SHARE = 0.5
_MAX_RUNS = 200
_QUIET = frozenset({TimelineKind.CHECKPOINT})


class Timeline(Arguments):
    run_id: str
    lo: int | None = None
    hi: int | None = None
    kinds: tuple[TimelineKind, ...] = Field(default=(), description="empty: all but checkpoints")


class ConfigDiff(Arguments):
    """Newest segments, unless a segment is named as RUN#SEGMENT."""

    before: str = Field(description="RUN or RUN#SEGMENT")
    after: str = Field(description="RUN or RUN#SEGMENT")


class Commits(Arguments):
    """Commits that came into force in a run after its first segment."""

    run_id: str
    upto_step: int | None = Field(default=None, description="only segments that began at or before this step")


class FindCommits(Arguments):
    """Commits of all runs by who wrote them, which file they change, or what they say; oldest first."""

    text: str = Field(min_length=1, description="a person, a path, or words of the message")


class Hunks(Arguments):
    project_id: str
    commit: str = Field(min_length=7, description="hash, or its first 7 or more characters")


def timeline(store: Store, arguments: Timeline) -> ToolResult:
    """Newest first: what came last before something is asked for most."""
    store.runs.get(arguments.run_id)
    kinds = arguments.kinds or [kind for kind in TimelineKind if kind not in _QUIET]
    events = store.timeline.list(arguments.run_id, arguments.lo, arguments.hi, kinds)
    return result(event_rows(events), f"nothing is recorded in run {arguments.run_id} there")


def event_rows(events: list[TimelineEvent]) -> list[Row]:
    """Newest step first; a change of a declared field also names the field."""
    ordered = sorted(events, key=lambda each: (each.step, each.segment, each.id), reverse=True)
    return [row(f"step {each.step}: {each.kind}: {each.title}", *_event_refs(each)) for each in ordered]


def config_diff(store: Store, arguments: ConfigDiff) -> ToolResult:
    """Declared fields, environment and code version of one segment against another."""
    a, b = segment_of(store, arguments.before), segment_of(store, arguments.after)
    rows = []
    fields = diff_config(store.runs.declared(a.run_id, a.number), store.runs.declared(b.run_id, b.number))
    for change in fields:
        refs = (evidence.config(each.run_id, change.key, each.number) for each in (b, a))
        rows.append(row(f"{change.key}: {change.before} -> {change.after} ({change.status})", *refs))
    for change in diff_config(a.environment, b.environment):
        key = f"environment.{change.key}"
        refs = (evidence.config(each.run_id, key, each.number) for each in (b, a))
        rows.append(row(f"environment {change.key}: {change.before} -> {change.after}", *refs))
    rows += [commit_row(each) for each in commits_between(store, a, b)]
    if a.code_version != b.code_version:
        text = f"code version {a.code_version[:12] or 'unknown'} -> {b.code_version[:12] or 'unknown'}"
        rows.append(row(text, evidence.run(b.run_id), evidence.run(a.run_id)))
    return result(
        rows, f"{arguments.before} and {arguments.after} declare the same configuration, environment and code"
    )


def commits(store: Store, arguments: Commits) -> ToolResult:
    store.runs.get(arguments.run_id)
    segments = store.runs.segments(arguments.run_id)
    if arguments.upto_step is not None:
        segments = [each for each in segments if each.start_step <= arguments.upto_step]
    rows = []
    for a, b in itertools.pairwise(segments):
        rows += [commit_row(each, b) for each in commits_between(store, a, b)]
    return result(rows[::-1], f"no commit came into force in run {arguments.run_id} after its start")


def hunks(store: Store, arguments: Hunks) -> ToolResult:
    """One row a hunk: where, which names it touches, its lines."""
    commit = find_commit(store, arguments.project_id, arguments.commit)
    found = store.code.hunks(arguments.project_id, commit)
    rows = []
    for each in found:
        touched = f" ({', '.join(each.symbols)})" if each.symbols else ""
        rows.append(row(f"{each.path}:{each.new_start}{touched}: {each.text}", evidence.hunk(each)))
    return result(rows, f"commit {commit[:12]} changes no text")


def find_commits(store: Store, arguments: FindCommits) -> ToolResult:
    """Those whose author and words both fit, else those whose words fit, else those of the author."""
    text = arguments.text
    of_projects = {p.id: _known_commits(store, p.id, RunRole.TRAINING) for p in store.projects.list()}
    if paths := _PATH.findall(text):
        return _changing(store, of_projects, paths)
    known = [each for commits in of_projects.values() for each in commits]
    asked = set(words(text)) - _OF_COMMITS
    own = [each for each in known if asked & set(words(each.author))]
    about = " ".join(asked - {word for each in own for word in words(each.author)})
    fitting = best(about, known, lambda each: each.subject, limit=MAX_ROWS, min_share=_MIN_SHARE)
    found = sorted(fitting, key=lambda each: each not in own) if about else own
    return result([commit_row(each) for each in found], f"no commit fits '{text}'")


def _changing(store: Store, of_projects: Mapping[str, list[Commit]], paths: list[str]) -> ToolResult:
    rows = []
    for project_id, commits in of_projects.items():
        for commit in commits:
            hunks = store.code.hunks(project_id, commit.hash)
            touched = [evidence.hunk(each) for each in hunks if any(each.path.endswith(path) for path in paths)]
            rows += [row(commit_row(commit).text, evidence.commit(commit), *touched)] if touched else []
    return result(rows, f"no commit changes {', '.join(paths)}")


def segment_of(store: Store, name: str) -> Segment:
    """RUN (its newest segment) or RUN#SEGMENT. Raises NotFound, UserInputError."""
    run_id, _, number = name.partition("#")
    store.runs.get(run_id)
    segments = [each for each in store.runs.segments(run_id) if number in ("", str(each.number))]
    if not segments:
        raise UserInputError(f"'{name}' has no such segment", remedy="`lathe timeline RUN` shows the segments")
    return segments[-1]


def commits_between(store: Store, a: Segment, b: Segment) -> list[Commit]:
    """Commits of `b` that `a` lacks, oldest first; none where the history does not know them."""
    if not b.code_version or a.code_version == b.code_version:
        return []
    project_id = store.runs.get(b.run_id).project_id
    try:
        return store.code.commits(project_id, a.code_version or None, b.code_version)
    except RepositoryError:
        return []


def commit_row(commit: Commit, segment: Segment | None = None) -> Row:
    since = f"from step {segment.start_step} on: " if segment else ""
    return row(f"{since}commit {commit.hash[:12]} by {commit.author}: {commit.subject}", evidence.commit(commit))


def find_commit(store: Store, project_id: str, prefix: str) -> str:
    """The full hash. Raises RepositoryError unless exactly one commit of a run's history begins like this."""
    store.projects.get(project_id)
    known = [each.hash for each in _known_commits(store, project_id)]
    found = [each for each in known if each.startswith(prefix.lower())]
    if len(found) != 1:
        raise RepositoryError(
            f"{len(found)} commits of project '{project_id}' begin with '{prefix}'",
            remedy="give more characters of the hash; `commits` lists them",
        )
    return found[0]


def _known_commits(store: Store, project_id: str, role: RunRole | None = None) -> list[Commit]:
    """Of every run's history, oldest first."""
    runs = store.runs.list(project_id, role, limit=_MAX_RUNS)
    heads = {each.code_version for run in runs for each in store.runs.segments(run.id)}
    known: dict[str, Commit] = {}
    for head in heads - {""}:
        try:
            known |= {each.hash: each for each in store.code.commits(project_id, None, head)}
        except RepositoryError:
            continue
    return sorted(known.values(), key=lambda each: each.ordinal)


def _event_refs(event: TimelineEvent) -> tuple[EvidenceRef, ...]:
    refs = [evidence.event(event)]
    key = event.detail.get("key")
    if isinstance(key, str) and event.detail.get("source") == "declared":
        refs.append(evidence.config(event.run_id, key, event.segment))
    return tuple(refs)
