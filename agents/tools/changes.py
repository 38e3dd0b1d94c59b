"""What changed: timeline, configuration, commits and their hunks."""

from __future__ import annotations

import itertools

from pydantic import Field

from agents import evidence
from agents.tools.protocol import Arguments, Row, ToolResult, result, row
from context_store import Store, diff_config
from context_store.records import Commit, Segment, TimelineEvent
from contracts.enums import TimelineKind
from contracts.errors import RepositoryError, UserInputError
from contracts.evidence import EvidenceRef

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
    heads = {each.code_version for run in store.runs.list(project_id) for each in store.runs.segments(run.id)}
    known: set[str] = set()
    for head in heads - {""}:
        try:
            known |= {each.hash for each in store.code.commits(project_id, None, head)}
        except RepositoryError:
            continue
    found = [each for each in known if each.startswith(prefix.lower())]
    if len(found) != 1:
        raise RepositoryError(
            f"{len(found)} commits of project '{project_id}' begin with '{prefix}'",
            remedy="give more characters of the hash; `commits` lists them",
        )
    return found[0]


def _event_refs(event: TimelineEvent) -> tuple[EvidenceRef, ...]:
    refs = [evidence.event(event)]
    key = event.detail.get("key")
    if isinstance(key, str) and event.detail.get("source") == "declared":
        refs.append(evidence.config(event.run_id, key, event.segment))
    return tuple(refs)
