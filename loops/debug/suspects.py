"""Suspects from the timeline: what was newly in force when the anomaly began.

The window reaches from the code and configuration of the segment before (the last known good state; for the first
segment of a fork, that of its parent) to those of the segment in which the anomaly began, and over what the timeline
tells of that segment up to the onset. Changes that were in force earlier come in only when the planner asks for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from context_store import Store, diff_config
from context_store.records import Commit, ConfigChange, Hunk
from contracts.enums import CauseKind, TimelineKind
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from loops.debug.substance import Substance, changed_lines, substance
from loops.debug.view import RunView, SegmentView

_MIDWAY = {
    TimelineKind.CONFIG: CauseKind.CONFIG,
    TimelineKind.DATA: CauseKind.DATA,
    TimelineKind.ENVIRONMENT: CauseKind.ENVIRONMENT,
    TimelineKind.NOTE: CauseKind.NONE,
}
_HOST_FACTS = frozenset({"host", "executable", "cwd", "pid"})


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One change or circumstance. In a re-run it is switched off by leaving its commits out or by `undo`.

    `undo` holds overrides with the earlier values. `testable` False: nothing here can switch it off. `is_new` False:
    in force before the last known good step already. `circumstance`: how the run was resumed, not what the team edited.
    `rank`: it is the place of that rank, which another one can take. `step`: where it came in the middle of a segment.
    """

    key: str
    cause_kind: CauseKind
    title: str
    evidence: tuple[EvidenceRef, ...]
    commit: Commit | None = None
    hunks: tuple[Hunk, ...] = ()
    fields: tuple[ConfigChange, ...] = ()
    undo: Mapping[str, Scalar] = field(default_factory=dict)
    substance: Substance = Substance.LOGIC
    is_new: bool = True
    testable: bool = True
    circumstance: bool = False
    rank: int | None = None
    step: int | None = None

    @property
    def commits(self) -> tuple[str, ...]:
        return (self.commit.hash,) if self.commit else ()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where the anomaly began: the onset segment, the one before, and every factor, commits in topological order.

    `root`: the commit with which the run began, or from which it was forked. `parent`: the run that `before` is of,
    where the run was forked from it in this segment; else "".
    """

    run_id: str
    project_id: str
    root: str
    parent: str = ""
    segment: SegmentView
    before: SegmentView | None
    factors: tuple[Factor, ...]

    @property
    def effective(self) -> tuple[ConfigChange, ...]:
        """What was really used otherwise than before, though no declared field says so."""
        if self.before is None:
            return ()
        declared = {change.key for change in diff_config(self.before.declared, self.segment.declared)}
        changes = diff_config(self.before.effective, self.segment.effective)
        return tuple(change for change in changes if change.status == "changed" and change.key not in declared)

    @property
    def faulty(self) -> str:
        """Commit in force at the onset."""
        return self.segment.code_version

    @property
    def good(self) -> str:
        """Last commit known good; that of the onset segment when there is none before."""
        return self.before.code_version if self.before else self.segment.code_version


def find_scene(store: Store, view: RunView, onset: tuple[int, int]) -> Scene | None:
    """The scene of an anomaly. None when no segment made the onset (a log without segments)."""
    segment = view.segment_at(onset[1]) or view.segment_at(onset[0])
    if segment is None:
        return None
    project_id = store.runs.get(view.run_id).project_id
    parent, before = "", view.before(segment)
    if before is None:
        parent, before = _forked_from(store, view.run_id, segment)
    factors: list[Factor] = []
    if before is not None:
        factors += _code_and_config(store, view, project_id, before, segment)
        factors += _environment(view.run_id, before, segment)
        factors.append(_resume(view.run_id, segment, parent))
    factors += _midway(store, view.run_id, segment, onset)
    factors += [] if parent else _earlier(store, view, project_id, before)
    return Scene(
        run_id=view.run_id,
        project_id=project_id,
        root=before.code_version if parent and before else view.segments[0].code_version,
        parent=parent,
        segment=segment,
        before=before,
        factors=tuple(factors),
    )


def _forked_from(store: Store, run_id: str, segment: SegmentView) -> tuple[str, SegmentView | None]:
    """The parent of a fork of the same project, and its segment that made the step from which the fork goes on."""
    run = store.runs.get(run_id)
    if run.parent_run_id is None or store.runs.get(run.parent_run_id).project_id != run.project_id:
        return "", None
    step = segment.start_step if run.parent_step is None else run.parent_step
    made = [s for s in store.runs.segments(run.parent_run_id) if s.start_step < max(step, 1)]
    if not made:
        return "", None
    return run.parent_run_id, SegmentView(
        number=made[-1].number,
        start_step=made[-1].start_step,
        last_step=step,
        code_version=made[-1].code_version,
        seed=made[-1].seed,
        dp_size=made[-1].dp_size,
        start_checkpoint=made[-1].start_checkpoint,
        declared=store.runs.declared(run.parent_run_id, made[-1].number),
        effective=store.runs.effective(run.parent_run_id, made[-1].number, step),
        environment=made[-1].environment,
    )


def _midway(store: Store, run_id: str, segment: SegmentView, onset: tuple[int, int]) -> list[Factor]:
    """What the timeline tells of the segment's steps up to the onset; nothing can switch it off.

    What is used otherwise from the first step on belongs to the start: `Scene.effective`.
    Of a field that went on changing (a schedule) the last change stands for all.
    """
    first = segment.start_step + 1
    events = store.timeline.list(run_id, first, onset[1], _MIDWAY)
    mine = [e for e in events if e.segment == segment.number and (e.step > first or e.kind is TimelineKind.NOTE)]
    last = {str(event.detail.get("key") or f"{event.kind}:{event.title}"): event for event in mine}
    return [
        Factor(
            key=f"midway:{event.id}",
            cause_kind=_MIDWAY[event.kind],
            title=f"{event.title} at step {event.step}",
            evidence=(EvidenceRef(kind="event", id=str(event.id)),),
            testable=False,
            step=event.step,
        )
        for event in last.values()
    ]


def _code_and_config(
    store: Store, view: RunView, project_id: str, before: SegmentView, segment: SegmentView
) -> list[Factor]:
    commits = _commits(store, project_id, before.code_version, segment.code_version)
    hunks = {commit.hash: tuple(store.code.hunks(project_id, commit.hash)) for commit in commits}
    commits = [commit for commit in commits if hunks[commit.hash] or len(commit.parents) < 2]
    changes = diff_config(before.declared, segment.declared)
    by_commit, unclaimed = _attribute(changes, hunks)
    factors = [_commit_factor(c, hunks[c.hash], by_commit.get(c.hash, ())) for c in commits]
    return factors + [_launch_factor(view.run_id, segment, change) for change in unclaimed]


def _commits(store: Store, project_id: str, after: str, upto: str) -> list[Commit]:
    """Commits in (after, upto]."""
    if not upto or not after or upto == after:
        return []
    return store.code.commits(project_id, after, upto)


def _commit_factor(commit: Commit, hunks: tuple[Hunk, ...], fields: tuple[ConfigChange, ...]) -> Factor:
    refs = [
        EvidenceRef(kind="hunk", id=f"{commit.hash[:12]}/{h.path}", slice=f"{h.new_start}..{h.new_start + h.new_lines}")
        for h in hunks[:4]
    ]
    return Factor(
        key=f"commit:{commit.hash}",
        cause_kind=_kind_of_commit(hunks, fields),
        title=f"{commit.hash[:8]} {commit.subject}",
        evidence=(EvidenceRef(kind="commit", id=commit.hash), *refs),
        commit=commit,
        hunks=hunks,
        fields=fields,
        substance=substance(hunks),
    )


def _kind_of_commit(hunks: Sequence[Hunk], fields: Sequence[ConfigChange]) -> CauseKind:
    """Config or data when each hunk only sets fields whose declared value changed; else code."""
    if not fields or not hunks or not all(_sets_any(hunk, fields) for hunk in hunks):
        return CauseKind.CODE
    return CauseKind.DATA if all(change.key.startswith("data.") for change in fields) else CauseKind.CONFIG


def _launch_factor(run_id: str, segment: SegmentView, change: ConfigChange) -> Factor:
    """A field that differs though no commit set it: it was given when the segment was started."""
    is_resume = change.key.startswith("parallel.")
    kind = CauseKind.DATA if change.key.startswith("data.") else CauseKind.CONFIG
    return Factor(
        key=f"launch:{change.key}",
        cause_kind=CauseKind.RESUME if is_resume else kind,
        title=f"{change.key} {change.before} -> {change.after} when resumed",
        evidence=(EvidenceRef(kind="config", id=f"{run_id}/{change.key}", slice=str(segment.number)),),
        fields=(change,),
        undo={change.key: change.before},
        testable=change.status == "changed",
        circumstance=is_resume,
    )


def _environment(run_id: str, before: SegmentView, segment: SegmentView) -> list[Factor]:
    return [
        Factor(
            key=f"environment:{change.key}",
            cause_kind=CauseKind.ENVIRONMENT,
            title=f"{change.key} {change.before} -> {change.after}",
            evidence=(EvidenceRef(kind="config", id=f"{run_id}/environment.{change.key}", slice=str(segment.number)),),
            fields=(change,),
            testable=False,
        )
        for change in diff_config(before.environment, segment.environment)
        if change.key not in _HOST_FACTS and not change.key.startswith("host.")
    ]


def _resume(run_id: str, segment: SegmentView, parent: str) -> Factor:
    return Factor(
        key=f"resume:{segment.number}",
        cause_kind=CauseKind.RESUME,
        title=f"the {f'fork from {parent}' if parent else 'resume'} at step {segment.start_step} itself",
        evidence=(EvidenceRef(kind="run", id=run_id, slice=f"{segment.start_step}"),),
        testable=False,
    )


def _earlier(store: Store, view: RunView, project_id: str, segment: SegmentView | None) -> list[Factor]:
    """Commits that came into force with earlier segments, when nothing was wrong yet."""
    factors: list[Factor] = []
    while segment is not None and (before := view.before(segment)) is not None:
        found = _code_and_config(store, view, project_id, before, segment)
        factors += [replace(factor, is_new=False) for factor in found if factor.commit is not None]
        segment = before
    return factors


def _attribute(
    changes: Sequence[ConfigChange], hunks: Mapping[str, tuple[Hunk, ...]]
) -> tuple[dict[str, tuple[ConfigChange, ...]], list[ConfigChange]]:
    """Changed fields by the commit that set them (best match of name and value), and those nobody set."""
    claimed: dict[str, tuple[ConfigChange, ...]] = {}
    unclaimed: list[ConfigChange] = []
    for change in changes:
        scores = {commit: max((_match(hunk, change) for hunk in of), default=0) for commit, of in hunks.items()}
        best = max(scores, key=lambda commit: scores[commit], default="")
        if best and scores[best] >= 2:
            claimed[best] = (*claimed.get(best, ()), change)
        else:
            unclaimed.append(change)
    return claimed, unclaimed


def _sets_any(hunk: Hunk, fields: Sequence[ConfigChange]) -> bool:
    return any(_match(hunk, change) >= 2 for change in fields)


def _match(hunk: Hunk, change: ConfigChange) -> int:
    """Points: the added lines name the field's last part (1), and hold its new value (1), removed the old (1)."""
    removed, added = (" ".join(lines) for lines in changed_lines(hunk))
    leaf = change.key.rpartition(".")[2]
    named = bool(re.search(rf"\b{re.escape(leaf)}\b", added + " " + removed))
    return named * (1 + _holds(added, change.after) + _holds(removed, change.before))


def _holds(text: str, value: Scalar) -> bool:
    if isinstance(value, bool) or value is None:
        return str(value) in text
    if isinstance(value, str):
        return value in text
    literals = re.findall(r"(?<![\w.])-?\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?", text)
    return any(math.isclose(float(literal.replace("_", "")), float(value), rel_tol=1e-9) for literal in literals)
