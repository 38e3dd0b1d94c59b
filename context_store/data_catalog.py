"""Where training data came from: pipelines, stages, subsets, single documents before and after each stage, mixtures."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store import mixtures
from context_store.canonical import canonical_json
from context_store.database import Database
from context_store.models import (
    DocumentRow,
    DocumentStageRow,
    DocumentTextRow,
    PipelineRow,
    StageRow,
    StageTraceRow,
    StageVersionRow,
    SubsetRow,
)
from context_store.records import (
    Document,
    DocumentStep,
    MixtureEvent,
    NewDocument,
    Pipeline,
    Stage,
    StageTrace,
    StageVersion,
    Subset,
)
from context_store.redaction import redact, redact_json
from contracts.errors import NotFound, UserInputError


class DataCatalog:
    """`store.data`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- pipelines

    def put_pipeline(self, pipeline: Pipeline) -> Pipeline:
        """Store it, or replace title and owner; stages are added and retitled, never removed or moved.

        Raises UserInputError without an owner, with a stage twice, or when a stored stage would change its place.
        """
        _refuse_unowned("pipeline", pipeline.id, pipeline.owner)
        keys = [stage.key for stage in pipeline.stages]
        if len(set(keys)) < len(keys):
            raise UserInputError(f"pipeline '{pipeline.id}' has a stage twice", remedy="give each stage its own key")
        with self._database.begin() as connection:
            known = [stage.key for stage in _stages(connection, pipeline.id)]
            if known != keys[: len(known)]:
                raise UserInputError(
                    f"pipeline '{pipeline.id}' has the stages {', '.join(known)} already, in this order",
                    remedy="add new stages behind them, or give the changed pipeline another id",
                )
            head = {"title": redact(pipeline.title), "owner": pipeline.owner}
            put = insert(PipelineRow).values(id=pipeline.id, at=self._database.clock(), **head)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=head))
            rows = [
                {"pipeline_id": pipeline.id, "ordinal": n, **vars(each), "title": redact(each.title)}
                for n, each in enumerate(pipeline.stages)
            ]
            if rows:
                stages = insert(StageRow)
                new = {"level": stages.excluded.level, "title": stages.excluded.title}
                connection.execute(stages.on_conflict_do_update(index_elements=["pipeline_id", "key"], set_=new), rows)
        return self.pipeline(pipeline.id)

    def pipeline(self, pipeline_id: str) -> Pipeline:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(
                sa.select(PipelineRow.__table__).where(PipelineRow.id == pipeline_id)
            ).one_or_none()
            if row is None:
                raise NotFound(f"no data pipeline '{pipeline_id}'", remedy="`lathe data pipelines` lists them")
            return Pipeline(id=row.id, title=row.title, owner=row.owner, stages=tuple(_stages(connection, pipeline_id)))

    def pipelines(self) -> builtins.list[Pipeline]:
        """By id."""
        with self._database.begin() as connection:
            ids = connection.execute(sa.select(PipelineRow.id).order_by(PipelineRow.id)).scalars().all()
        return [self.pipeline(each) for each in ids]

    def put_stage_version(self, version: StageVersion) -> None:
        """Idempotent; the settings of a code version never change (UserInputError). Raises NotFound for the stage.

        Secrets are taken out of the settings: two that differ in nothing else are the same.
        """
        settings = redact_json(version.settings)
        values = {"settings": settings, "at": self._database.clock()}
        mine = {"pipeline_id": version.pipeline_id, "stage": version.stage, "code_version": version.code_version}
        with self._database.begin() as connection:
            connection.execute(insert(StageVersionRow).values(**mine, **values).on_conflict_do_nothing())
            stored = connection.execute(sa.select(StageVersionRow.settings).filter_by(**mine)).scalar_one()
        if canonical_json(redact_json(stored)) != canonical_json(settings):  # older ones were stored as they came
            raise UserInputError(
                f"stage {version.stage} {version.code_version} is stored with other settings",
                remedy="make the settings part of the code version, for instance COMMIT+settings-hash",
            )

    def stage_versions(self, pipeline_id: str) -> builtins.list[StageVersion]:
        """In the order in which they were stored."""
        columns = [c for c in StageVersionRow.__table__.columns if c.key != "at"]
        query = sa.select(*columns).where(StageVersionRow.pipeline_id == pipeline_id)
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(StageVersionRow.at, StageVersionRow.code_version))
            return [StageVersion(**row._mapping) for row in rows]

    # --- subsets

    def put_subsets(self, subsets: Sequence[Subset]) -> int:
        """Store those that are not there yet, with their traces; returns how many were new. One transaction.

        A subset never changes: another content is another id. Raises UserInputError without owner or trace, or when a
        parent is unknown; NotFound for an unknown pipeline or stage version.
        """
        for each in subsets:
            _refuse_unowned("subset", each.id, each.owner)
            if not each.trace:
                raise UserInputError(f"subset '{each.id}' has no stage", remedy="say at least how it was acquired")
        with self._database.begin() as connection:
            _refuse_orphans(connection, subsets)
            rows = [_subset_row(each, self._database.clock()) for each in subsets]
            statement = insert(SubsetRow).on_conflict_do_nothing().returning(SubsetRow.id)
            new = set(connection.execute(statement, rows).scalars()) if rows else set()
            traces = [row for each in subsets if each.id in new for row in _trace_rows(each)]
            if traces:
                connection.execute(insert(StageTraceRow), traces)
        return len(new)

    def subset(self, subset_id: str) -> Subset:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(_SUBSET.where(SubsetRow.id == subset_id)).one_or_none()
            if row is None:
                raise NotFound(f"no data subset '{subset_id}'", remedy="`lathe data subsets` lists them")
            return Subset(trace=tuple(_traces(connection, [subset_id])[subset_id]), **row._mapping)

    def subsets(self, pipeline_id: str | None = None) -> builtins.list[Subset]:
        """By id, each with its lineage."""
        query = _SUBSET.order_by(SubsetRow.id)
        if pipeline_id is not None:
            query = query.where(SubsetRow.pipeline_id == pipeline_id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
            traces = _traces(connection, [row.id for row in rows])
        return [Subset(trace=tuple(traces[row.id]), **row._mapping) for row in rows]

    # --- documents

    def put_documents(self, documents: Sequence[NewDocument]) -> int:
        """Store those that are not there yet; returns how many were new. Secrets are taken out of the texts.

        Raises NotFound for an unknown subset, UserInputError when a document has not one text for each stage of its
        subset, or a text behind the stage that dropped it.
        """
        with self._database.begin() as connection:
            traces = _traces(connection, sorted({each.subset_id for each in documents}))
            for each in documents:
                _refuse_impossible_texts(each, len(traces.get(each.subset_id, ())))
            rows = [{"id": each.id, "subset_id": each.subset_id, "source": redact(each.source)} for each in documents]
            statement = insert(DocumentRow).on_conflict_do_nothing().returning(DocumentRow.id)
            new = set(connection.execute(statement, rows).scalars()) if rows else set()
            texts, steps = _text_rows([each for each in documents if each.id in new])
            if texts:
                connection.execute(insert(DocumentTextRow).on_conflict_do_nothing(), texts)
            if steps:
                connection.execute(insert(DocumentStageRow), steps)
        return len(new)

    def document(self, document_id: str) -> Document:
        """Its source, and its text before and after each stage. Raises NotFound."""
        with self._database.begin() as connection:
            query = sa.select(DocumentRow.__table__, SubsetRow.pipeline_id).join(SubsetRow)
            row = connection.execute(query.where(DocumentRow.id == document_id)).one_or_none()
            if row is None:
                raise NotFound(f"no document '{document_id}'", remedy="give the id under which it was stored")
            found = connection.execute(_STEPS, {"document": document_id, "subset": row.subset_id}).all()
        steps, before = [], None
        for step in found:
            steps.append(DocumentStep(before=before, **step._mapping))
            before = step.after
        return Document(**row._mapping, steps=tuple(steps))

    # --- mixtures

    def mixture(self, run_id: str, step: int | None = None) -> dict[str, float]:
        """Weights in force at `step` (None: at the end) of the run's canonical history, by source."""
        with self._database.snapshot() as connection:
            return mixtures.at(connection, run_id, step)

    def mixture_events(self, run_id: str) -> builtins.list[MixtureEvent]:
        """Every weight that was set or changed, ascending by (segment, step, source), superseded ones too."""
        with self._database.snapshot() as connection:
            return mixtures.events(connection, run_id)


def _refuse_unowned(what: str, name: str, owner: str) -> None:
    if not owner.strip():
        raise UserInputError(f"{what} '{name}' has no owner", remedy="name the person or team that answers for it")


def _refuse_orphans(connection: sa.Connection, subsets: Sequence[Subset]) -> None:
    named = {parent for each in subsets for parent in each.parents} - {each.id for each in subsets}
    known = set(connection.execute(sa.select(SubsetRow.id).where(SubsetRow.id.in_(named))).scalars())
    if named - known:
        raise UserInputError(
            f"unknown parents of subsets: {', '.join(sorted(named - known)[:5])}", remedy="store the parents first"
        )


def _refuse_impossible_texts(document: NewDocument, num_stages: int) -> None:
    if num_stages == 0:
        raise NotFound(f"no data subset '{document.subset_id}'", remedy="store the subset first")
    dropped = document.texts.index(None) if None in document.texts else len(document.texts)
    if len(document.texts) != num_stages or any(text is not None for text in document.texts[dropped:]):
        raise UserInputError(
            f"document '{document.id}' needs one text for each of the {num_stages} stages of '{document.subset_id}'",
            remedy="give the text after each stage, and None from the stage on that dropped it",
        )


def _stages(connection: sa.Connection, pipeline_id: str) -> builtins.list[Stage]:
    query = sa.select(StageRow.key, StageRow.level, StageRow.title).where(StageRow.pipeline_id == pipeline_id)
    return [Stage(**row._mapping) for row in connection.execute(query.order_by(StageRow.ordinal))]


def _subset_row(subset: Subset, at: float) -> dict[str, Any]:
    return {
        "id": subset.id,
        "pipeline_id": subset.pipeline_id,
        "source": redact(subset.source),
        "parents": subset.parents,
        "num_documents": subset.num_documents,
        "num_tokens": subset.num_tokens,
        "owner": subset.owner,
        "at": at,
    }


def _trace_rows(subset: Subset) -> builtins.list[dict[str, Any]]:
    return [
        {
            "subset_id": subset.id,
            "ordinal": ordinal,
            "pipeline_id": subset.pipeline_id,
            "stage": each.stage,
            "code_version": each.code_version,
            "num_in": each.num_in,
            "num_out": each.num_out,
            "output": redact(each.output),
            "output_sha256": each.output_sha256,
        }
        for ordinal, each in enumerate(subset.trace)
    ]


def _traces(connection: sa.Connection, subset_ids: Sequence[str]) -> dict[str, builtins.list[StageTrace]]:
    columns = [c for c in StageTraceRow.__table__.columns if c.key not in ("ordinal", "pipeline_id")]
    query = sa.select(*columns).where(StageTraceRow.subset_id.in_(subset_ids))
    found: dict[str, builtins.list[StageTrace]] = {}
    for row in connection.execute(query.order_by(StageTraceRow.subset_id, StageTraceRow.ordinal)):
        values = dict(row._mapping)
        found.setdefault(values.pop("subset_id"), []).append(StageTrace(**values))
    return found


def _text_rows(documents: Sequence[NewDocument]) -> tuple[builtins.list[dict[str, Any]], builtins.list[dict[str, Any]]]:
    """Rows of document_text (each text once) and of document_stage."""
    texts: dict[str, str] = {}
    steps = []
    for each in documents:
        for ordinal, text in enumerate(each.texts):
            clean = None if text is None else redact(text)
            key = None if clean is None else hashlib.sha256(clean.encode("utf-8", "backslashreplace")).hexdigest()
            if key is not None and clean is not None:
                texts[key] = clean.encode("utf-8", "backslashreplace").decode()
            reason = redact(each.reasons.get(ordinal, ""))
            steps.append({"document_id": each.id, "ordinal": ordinal, "text_sha256": key, "reason": reason})
    return [{"sha256": key, "text": text} for key, text in sorted(texts.items())], steps


_SUBSET = sa.select(*(column for column in SubsetRow.__table__.columns if column.key != "at"))
_STEPS = (
    sa.select(
        StageTraceRow.stage,
        StageRow.level,
        StageTraceRow.code_version,
        DocumentTextRow.text.label("after"),
        DocumentStageRow.reason,
    )
    .select_from(DocumentStageRow)
    .join(StageTraceRow, StageTraceRow.ordinal == DocumentStageRow.ordinal)
    .join(StageRow, (StageRow.pipeline_id == StageTraceRow.pipeline_id) & (StageRow.key == StageTraceRow.stage))
    .outerjoin(DocumentTextRow, DocumentTextRow.sha256 == DocumentStageRow.text_sha256)
    .where(DocumentStageRow.document_id == sa.bindparam("document"), StageTraceRow.subset_id == sa.bindparam("subset"))
    .order_by(DocumentStageRow.ordinal)
)
