"""Scores with full identity: without lineage they are refused, and only what is comparable is ranked together.

Two scores are comparable when benchmark, metric, protocol, shots, template, stop set, extractor, harness, its version
and all further settings are equal. What neither of them recorded is as that version of the harness defines the task,
so it counts as equal, and is named; without a version nothing defines it, and such a score is comparable with no other.
"""

from __future__ import annotations

import builtins
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store import score_lineage
from context_store.canonical import content_hash
from context_store.database import Database
from context_store.models import ProjectRow, RunRow, ScoreRow, TimelineRow
from context_store.records import Comparison, LeftOut, NewScore, Ranking, Score, TimelineEvent
from context_store.redaction import redact, redact_json
from context_store.score_lineage import ScoreLineage
from context_store.timeline import add_events
from contracts.enums import TimelineKind
from contracts.errors import NotFound, UserInputError

IDENTITY = ("benchmark", "metric", "protocol", "shots", "template", "stop_set", "extractor", "harness",
            "harness_version", "settings")  # fmt: skip
LINEAGE = ("checkpoint", "recipe", "protocol")
UNRANKED = "without lineage are not ranked"  # in the title of the note that an import leaves about such scores
HOW_TO_IMPORT = (
    "`lathe evals import LOG --run RUN --step N` stores the scores of a log of lm-eval or inspect; for weights trained "
    "elsewhere: --checkpoint PATH --recipe PATH --project PROJECT"
)
_NEEDED = (*LINEAGE, "benchmark", "metric", "harness", "owner")


class Evals:
    """`store.evals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, score: NewScore, *, log: str = "") -> Score:
        """Idempotent by content; an `at` of 0 becomes now and is no part of it. A run's timeline tells of its scores.

        `log`: the file that names the weights, where they are not here. Raises UserInputError for a score without
        lineage, identity or owner, or whose lineage exists nowhere; NotFound for an unknown project or run.
        """
        _refuse_without_lineage(score)
        values = {field.name: getattr(score, field.name) for field in dataclasses.fields(NewScore)}
        values |= {"settings": clean(score.settings), "raw": redact(score.raw), "checkpoint": redact(score.checkpoint)}
        values |= {"settings_hash": content_hash(values["settings"]), "identity_key": identity_key(values)}
        key = content_hash({name: value for name, value in values.items() if name not in ("at", "owner")})
        if score.harness_version is None:
            values["identity_key"] += f"-{key[:16]}"
        values |= {"content_key": key, "at": score.at or self._database.clock()}
        with self._database.begin() as connection:
            _require_known(connection, score)
            score_lineage.require_real(connection, score, log)
            statement = insert(ScoreRow).values(**values)
            connection.execute(statement.on_conflict_do_nothing(index_elements=["content_key"]))
            stored = Score(**connection.execute(_SCORE.where(ScoreRow.content_key == key)).one()._mapping)
            add_events(connection, _events(stored))
        return stored

    def get(self, score_id: int) -> Score:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(_SCORE.where(ScoreRow.id == score_id)).one_or_none()
        if row is None:
            raise NotFound(f"no score {score_id}", remedy="`lathe evals list` shows the scores")
        return Score(**row._mapping)

    def list(
        self,
        *,
        project_id: str | None = None,
        run_id: str | None = None,
        benchmark: str | None = None,
        metric: str | None = None,
        limit: int = 1000,
    ) -> builtins.list[Score]:
        """By benchmark, metric and step; those without a step last."""
        wanted = {"project_id": project_id, "run_id": run_id, "benchmark": benchmark, "metric": metric}
        query = _SCORE.filter_by(**{name: value for name, value in wanted.items() if value is not None})
        order = (ScoreRow.benchmark, ScoreRow.metric, ScoreRow.step, ScoreRow.id)
        with self._database.begin() as connection:
            return [Score(**row._mapping) for row in connection.execute(query.order_by(*order).limit(limit))]

    def compare(self, a: int, b: int) -> Comparison:
        """Score `b` against score `a`. Raises NotFound."""
        return compare(self.get(a), self.get(b))

    def lineage_of(self, checkpoint: str) -> ScoreLineage | None:
        """Of a checkpoint by its path, or of a published model by its name (ORGANISATION/NAME[@REVISION])."""
        with self._database.begin() as connection:
            return score_lineage.by_name(connection, checkpoint)

    def lineage_at(self, run_id: str, step: int) -> ScoreLineage:
        """Of the newest checkpoint of a run at this step. Raises NotFound."""
        with self._database.begin() as connection:
            found = score_lineage.by_run(connection, run_id, step)
        if found is None:
            remedy = f"`lathe timeline {run_id} --kind checkpoint` shows where it has some"
            raise NotFound(f"run '{run_id}' has no checkpoint at step {step}", remedy=remedy)
        return found

    def rank(
        self, benchmark: str, metric: str | None = None, *, project_id: str | None = None, lowest_first: bool = False
    ) -> builtins.list[Ranking]:
        """Scores of a benchmark in groups that may be compared, the largest group first; never across groups.

        Raises NotFound when there is none.
        """
        scores = self.list(benchmark=benchmark, metric=metric, project_id=project_id, limit=100_000)
        if not scores:
            count = sum(each.count for each in self.left_out(benchmark, project_id))
            known = ", ".join(sorted({each.benchmark for each in self.list(project_id=project_id, limit=100_000)}))
            raise NotFound(
                f"no score of benchmark '{benchmark}'" + (f"; {count} without lineage are left out" if count else ""),
                remedy=HOW_TO_IMPORT if count or not known else f"there are scores of: {known}",
            )
        return rankings(scores, lowest_first=lowest_first)

    def left_out(self, benchmark: str, project_id: str | None = None) -> builtins.list[LeftOut]:
        """Scores of imported logs that were not stored, because nothing says what they are of; by run."""
        columns = (TimelineRow.run_id, TimelineRow.title, TimelineRow.detail)
        query = sa.select(*columns).join(RunRow, RunRow.id == TimelineRow.run_id)
        query = query.where(TimelineRow.kind == TimelineKind.NOTE, TimelineRow.title.contains(UNRANKED))
        if project_id is not None:
            query = query.where(RunRow.project_id == project_id)
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(TimelineRow.run_id, TimelineRow.id)).all()
        counts = [(row, row.detail.get("benchmarks", {}).get(benchmark, 0)) for row in rows]
        reason = UNRANKED + ": "
        return [
            LeftOut(run_id=row.run_id, count=count, reason=row.title.partition(reason)[2])
            for row, count in counts
            if count
        ]


def identity_key(fields: Mapping[str, Any]) -> str:
    """Hash of the IDENTITY fields."""
    return content_hash([clean(fields["settings"]) if name == "settings" else fields[name] for name in IDENTITY])


def compare(a: Score, b: Score) -> Comparison:
    """Whether two scores may be compared, why not, and if so their difference b - a with its standard error."""
    differs = tuple(_differing(a, b))
    unknown = tuple(name for name in IDENTITY if getattr(a, name) is None and getattr(b, name) is None)
    if differs or "harness_version" in unknown:
        told = "; ".join(_told(a, b, name) for name in differs)
        reason = f"not comparable: {told}" if differs else f"not comparable: {_undefined(a, unknown)}"
        return Comparison(
            comparable=False, reason=reason, differs=differs, unknown=unknown, difference=None, stderr=None
        )
    reason = "same benchmark, protocol and settings"
    if unknown:
        version = f"{a.harness} {a.harness_version}"
        reason += f" as far as recorded; neither says, so it is as {version} defines it: {', '.join(unknown)}"
    stderr = None if a.stderr is None or b.stderr is None else math.hypot(a.stderr, b.stderr)
    difference = b.value - a.value
    return Comparison(comparable=True, reason=reason, differs=(), unknown=unknown, difference=difference, stderr=stderr)


def rankings(scores: Sequence[Score], *, lowest_first: bool = False) -> builtins.list[Ranking]:
    """Groups of comparable scores, the largest first; each sorted by value, NaN last."""
    groups: dict[str, builtins.list[Score]] = {}
    for score in scores:
        groups.setdefault(score.identity_key, []).append(score)
    ordered = sorted(groups.values(), key=len, reverse=True)
    sign = 1.0 if lowest_first else -1.0
    return [
        Ranking(
            identity={name: getattr(group[0], name) for name in IDENTITY},
            scores=tuple(sorted(group, key=lambda each: (math.isnan(each.value), sign * each.value))),
            apart="" if group is ordered[0] else compare(ordered[0][0], group[0]).reason,
        )
        for group in ordered
    ]


def _refuse_without_lineage(score: NewScore) -> None:
    missing = [name for name in _NEEDED if not getattr(score, name).strip()]
    if missing:
        raise UserInputError(
            f"a score of '{score.benchmark}' without {', '.join(missing)} is refused: nobody could tell what it is of",
            remedy="say which checkpoint was scored, which recipe (code version) made it, by which protocol and "
            "harness, and who answers for it",
        )
    if score.run_id is not None and score.step is None:
        raise UserInputError(
            f"a score of run '{score.run_id}' without a step is refused", remedy="say at which step the checkpoint is"
        )


def _require_known(connection: sa.Connection, score: NewScore) -> None:
    if connection.execute(sa.select(ProjectRow.id).where(ProjectRow.id == score.project_id)).first() is None:
        known = ", ".join(connection.execute(sa.select(ProjectRow.id).order_by(ProjectRow.id)).scalars())
        remedy = f"one of: {known}" if known else "a project is made by its first run: lathe train, or lathe ingest"
        raise NotFound(f"no project '{score.project_id}'", remedy=remedy)
    run = sa.select(RunRow.id).where(RunRow.id == score.run_id)
    if score.run_id is not None and connection.execute(run).first() is None:
        raise NotFound(f"no run '{score.run_id}'", remedy="`lathe runs` lists the runs")


def _events(score: Score) -> builtins.list[TimelineEvent]:
    if score.run_id is None or score.step is None:
        return []
    error = "" if score.stderr is None else f" +- {score.stderr:.4g}"
    return [
        TimelineEvent(
            run_id=score.run_id,
            segment=score.segment or 0,
            step=score.step,
            kind=TimelineKind.EVAL,
            title=f"{score.benchmark} {score.metric} {score.value:.6g}{error} ({score.protocol}, {score.harness})",
            detail={"score": score.id, "identity_key": score.identity_key},
            at=score.at,
        )
    ]


def _differing(a: Score, b: Score) -> builtins.list[str]:
    """Identity fields in which the two differ; `settings.NAME` for single settings."""
    found = [name for name in IDENTITY if name != "settings" and getattr(a, name) != getattr(b, name)]
    names = sorted(a.settings.keys() | b.settings.keys())
    one, other = ({name: content_hash(score.settings.get(name)) for name in names} for score in (a, b))
    return found + [f"settings.{name}" for name in names if one[name] != other[name]]


def _undefined(score: Score, unknown: Sequence[str]) -> str:
    others = [name for name in unknown if name != "harness_version"]
    told = f", which would define {', '.join(others)}" if others else ""
    return f"neither says which version of {score.harness} it was{told}"


def _told(a: Score, b: Score, name: str) -> str:
    section, _, key = name.partition(".")
    before, after = (score.settings.get(key) if section == "settings" else getattr(score, name) for score in (a, b))
    words = ["not recorded" if value is None else str(value)[:60] for value in (before, after)]
    return f"{name} is {words[0]} in one and {words[1]} in the other"


def clean(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without secrets. Unset ones (None) are left out at any depth, so that they equal absent ones."""
    found: dict[str, Any] = redact_json(_set_ones(settings))
    return found


def _set_ones(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _set_ones(each) for key, each in value.items() if each is not None}
    return [_set_ones(each) for each in value] if isinstance(value, list | tuple) else value


_SCORE = sa.select(*(column for column in ScoreRow.__table__.columns if column.key != "content_key"))
