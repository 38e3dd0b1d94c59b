"""What a score is of: the checkpoint that was evaluated, and the recipe that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from context_store.canonical import content_hash
from context_store.models import CheckpointRow, SegmentRow
from context_store.runs import load_config

_PUBLISHED = re.compile(r"^[\w.-]+/[\w.-]+(?:@[\w./-]+)?$")
_STEP = re.compile(r"(?:global_?step|checkpoint|step|iter(?:ation)?)[-_]?(\d+)", re.I)


@dataclass(frozen=True, kw_only=True)
class ScoreLineage:
    """What a score is of. `recipe`: code version, or hash of the declared configuration where there is none."""

    checkpoint: str
    recipe: str
    run_id: str | None = None
    segment: int | None = None
    step: int | None = None


def step_of(text: str) -> int | None:
    """The training step that a checkpoint's path names; None without one."""
    matches = _STEP.findall(text)
    return int(matches[-1]) if matches else None


def by_name(connection: sa.Connection, checkpoint: str) -> ScoreLineage | None:
    """Of a checkpoint as an evaluation log names it: a path, or the name of a published model."""
    row = _newest(connection, CheckpointRow.path == checkpoint.rstrip("/"))
    if row is not None:
        return _stored(connection, row)
    name = checkpoint.partition("@")[0]
    if _PUBLISHED.match(checkpoint) and step_of(name) is None:
        return ScoreLineage(checkpoint=checkpoint, recipe=f"published:{name}")
    return None


def by_run(connection: sa.Connection, run_id: str, step: int) -> ScoreLineage | None:
    """Of the newest checkpoint that a run saved at this step."""
    row = _newest(connection, (CheckpointRow.run_id == run_id) & (CheckpointRow.step == step))
    return None if row is None else _stored(connection, row)


def _newest(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Any:
    return connection.execute(_CHECKPOINT.where(where).order_by(CheckpointRow.segment.desc()).limit(1)).one_or_none()


def _stored(connection: sa.Connection, row: sa.Row[Any]) -> ScoreLineage:
    recipe = row.code_version
    if not recipe:
        recipe = f"config:{content_hash(load_config(connection, row.run_id, row.segment, 'declared'))[:16]}"
    return ScoreLineage(
        checkpoint=row.sha256 or row.path, recipe=recipe, run_id=row.run_id, segment=row.segment, step=row.step
    )


_CHECKPOINT = sa.select(
    CheckpointRow.run_id,
    CheckpointRow.segment,
    CheckpointRow.step,
    CheckpointRow.path,
    CheckpointRow.sha256,
    SegmentRow.code_version,
).join(SegmentRow, (SegmentRow.run_id == CheckpointRow.run_id) & (SegmentRow.number == CheckpointRow.segment))
