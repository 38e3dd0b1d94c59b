"""What changed between and inside segments, as timeline events. Pure: values in, events out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from context_store.records import ConfigChange, TimelineEvent
from context_store.runs import diff_config
from contracts.enums import TimelineKind
from contracts.events import Scalar, SegmentStarted

_KINDS = {"data": TimelineKind.DATA, "environment": TimelineKind.ENVIRONMENT}


@dataclass(frozen=True, kw_only=True)
class Predecessor:
    """Where a segment continues from: an earlier segment of the same run, or of its parent."""

    run_id: str
    segment: int
    code_version: str
    seed: int
    declared: Mapping[str, Scalar]
    environment: Mapping[str, Scalar]


def segment_changes(start: SegmentStarted, before: Predecessor) -> list[TimelineEvent]:
    """A resume or fork event and one event for each difference from the segment it continues."""
    same_run = before.run_id == start.run_id
    word, kind = ("resumed", TimelineKind.RESUME) if same_run else (f"forked from {before.run_id}", TimelineKind.FORK)
    detail: dict[str, Scalar] = {
        "from_checkpoint": start.start_checkpoint,
        "start_step": start.start_step,
        "from_run": before.run_id,
        "from_segment": before.segment,
    }
    events = [_event(start, kind, f"{word} at step {start.start_step}", detail)]
    if start.code_version != before.code_version:
        title = f"code {before.code_version[:10] or 'unknown'} -> {start.code_version[:10] or 'unknown'}"
        versions: dict[str, Scalar] = {"before": before.code_version, "after": start.code_version}
        events.append(_event(start, TimelineKind.CODE, title, versions))
    old, new = dict(before.declared), dict(start.config)
    if "seed" not in old and "seed" not in new:
        old["seed"], new["seed"] = before.seed, start.seed
    for change in diff_config(old, new):
        events.append(_changed(start.run_id, start.segment, start.start_step, change, "declared", start.wall_time))
    for change in diff_config(before.environment, start.environment):
        title = f"environment {_sentence(change)}"
        events.append(_event(start, TimelineKind.ENVIRONMENT, title, _detail(change, "environment")))
    return events


def effective_changes(
    run_id: str,
    segment: int,
    step: int,
    before: Mapping[str, Scalar],
    after: Mapping[str, Scalar],
    at: float,
    known: Collection[tuple[str, Scalar]] = (),
) -> list[TimelineEvent]:
    """One event for each key of `after` whose value differs from the one in `before`.

    `known`: (key, new value) pairs that already have an event, because the declared field changed alike.
    """
    changes = diff_config({key: before[key] for key in after if key in before}, after)
    return [
        _changed(run_id, segment, step, change, "effective", at)
        for change in changes
        if change.status == "changed" and (change.key, change.after) not in known
    ]


def _changed(run_id: str, segment: int, step: int, change: ConfigChange, source: str, at: float) -> TimelineEvent:
    kind = _KINDS.get(change.key.partition(".")[0], TimelineKind.CONFIG)
    title = _sentence(change) if source == "declared" else f"{source} {_sentence(change)}"
    detail = _detail(change, source)
    return TimelineEvent(run_id=run_id, segment=segment, step=step, kind=kind, title=title, detail=detail, at=at)


def _event(start: SegmentStarted, kind: TimelineKind, title: str, detail: Mapping[str, Scalar]) -> TimelineEvent:
    return TimelineEvent(
        run_id=start.run_id,
        segment=start.segment,
        step=start.start_step,
        kind=kind,
        title=title,
        detail=detail,
        at=start.wall_time,
    )


def _detail(change: ConfigChange, source: str) -> dict[str, Scalar]:
    return {
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "status": change.status,
        "source": source,
    }


def _sentence(change: ConfigChange) -> str:
    if change.status == "added":
        return f"{change.key} added: {_word(change.after)}"
    if change.status == "removed":
        return f"{change.key} removed, was {_word(change.before)}"
    return f"{change.key} {_word(change.before)} -> {_word(change.after)}"


def _word(value: Scalar) -> str:
    """A value as it fits into a sentence; the event's detail has all of it."""
    text = str(value)
    return text if len(text) <= 40 else text[:39] + "…"
