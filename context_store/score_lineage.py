"""What a score is of: the checkpoint that was evaluated, and the recipe that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from context_store.canonical import content_hash
from context_store.models import CheckpointRow, CommitRow, SegmentRow
from context_store.records import NewScore
from context_store.runs import load_config
from contracts.errors import UserInputError

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
    return by_published_name(checkpoint)


def by_published_name(checkpoint: str) -> ScoreLineage | None:
    """Of ORGANISATION/NAME[@REVISION]; None for any other text."""
    name = checkpoint.partition("@")[0]
    if _PUBLISHED.match(checkpoint) and step_of(name) is None:
        return ScoreLineage(checkpoint=checkpoint, recipe=f"published:{name}")
    return None


def by_run(connection: sa.Connection, run_id: str, step: int) -> ScoreLineage | None:
    """Of the newest checkpoint that a run saved at this step."""
    row = _newest(connection, (CheckpointRow.run_id == run_id) & (CheckpointRow.step == step))
    return None if row is None else _stored(connection, row)


def require_real(connection: sa.Connection, score: NewScore, log: str) -> None:
    """Raises UserInputError for weights, a recipe or outputs that are neither in the store nor on disk.

    `log`: the evaluation's log, where it is that itself which names the weights, of a published model the recipe too.
    """
    named = _on_disk(log)
    published = named and by_published_name(score.checkpoint)
    recipe_of_it = published.recipe if published else None
    invented = {
        "weights": score.checkpoint if not (named or _weights_known(connection, score.checkpoint)) else "",
        "recipe": score.recipe if not (score.recipe == recipe_of_it or _recipe_known(connection, score)) else "",
        "outputs": score.raw if score.raw and not _on_disk(score.raw) else "",
    }
    missing = [f"{what} '{name}'" for what, name in invented.items() if name]
    if missing:
        raise UserInputError(
            f"a score of '{score.benchmark}' is refused: nothing here has the {', nor the '.join(missing)}",
            remedy="name a stored run and step, or weights, recipe and outputs by paths that exist here or by commits "
            "of the project; a log that itself names its weights is imported as it is",
        )


def _weights_known(connection: sa.Connection, checkpoint: str) -> bool:
    where = (CheckpointRow.sha256 == checkpoint) | (CheckpointRow.path == checkpoint.rstrip("/"))
    if checkpoint.startswith("/") and _on_disk(checkpoint):
        return True
    return connection.execute(sa.select(CheckpointRow.path).where(where).limit(1)).first() is not None


def _recipe_known(connection: sa.Connection, score: NewScore) -> bool:
    """A commit of the project, a code version or configuration of a stored run, or a file."""
    commit = sa.select(CommitRow.hash).where(CommitRow.project_id == score.project_id, CommitRow.hash == score.recipe)
    ran = sa.select(SegmentRow.run_id).where(SegmentRow.code_version == score.recipe)
    if score.recipe.startswith("/") and _on_disk(score.recipe):
        return True
    if any(connection.execute(query.limit(1)).first() for query in (commit, ran)):
        return True
    found = by_run(connection, score.run_id, score.step) if score.run_id and score.step is not None else None
    return found is not None and found.recipe == score.recipe


def _on_disk(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # no name that a file can have
        return False


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
