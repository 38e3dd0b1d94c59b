"""A catalogue of data as people hand it in: one JSON object, checked at the door."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from context_store import Store
from context_store.records import Level, NewDocument, Pipeline, Stage, StageTrace, StageVersion, Subset
from contracts.errors import LogFormatError


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Stage(_Part):
    key: str
    level: Level
    title: str = ""


class _Pipeline(_Part):
    id: str
    title: str = ""
    owner: str = ""
    stages: list[_Stage]


class _StageVersion(_Part):
    pipeline_id: str
    stage: str
    code_version: str
    settings: dict[str, Any] = Field(default_factory=dict)


class _Trace(_Part):
    stage: str
    code_version: str
    num_in: int | None = None
    num_out: int | None = None
    output: str = ""
    output_sha256: str = ""


class _Subset(_Part):
    id: str
    pipeline_id: str
    source: str
    owner: str = ""
    parents: list[str] = Field(default_factory=list)
    num_documents: int | None = None
    num_tokens: int | None = None
    trace: list[_Trace]


class _Document(_Part):
    id: str
    subset_id: str
    source: str
    texts: list[str | None]
    reasons: dict[int, str] = Field(default_factory=dict)


class Catalog(_Part):
    """Everything is optional, and stored in this order."""

    pipelines: list[_Pipeline] = Field(default_factory=list)
    stage_versions: list[_StageVersion] = Field(default_factory=list)
    subsets: list[_Subset] = Field(default_factory=list)
    documents: list[_Document] = Field(default_factory=list)

    def put(self, store: Store, actor: str) -> dict[str, int]:
        """Store it; what names no owner is the actor's. Returns how much was new, for pipelines how many there are."""
        for pipeline in self.pipelines:
            stages = tuple(Stage(**stage.model_dump()) for stage in pipeline.stages)
            owner = pipeline.owner or actor
            store.data.put_pipeline(Pipeline(id=pipeline.id, title=pipeline.title, owner=owner, stages=stages))
        for version in self.stage_versions:
            store.data.put_stage_version(StageVersion(**version.model_dump()))
        return {
            "pipelines": len(self.pipelines),
            "subsets": store.data.put_subsets([_subset(each, actor) for each in self.subsets]),
            "documents": store.data.put_documents([_document(each) for each in self.documents]),
        }


def read_catalog(content: Any, where: str) -> Catalog:
    """Raises LogFormatError naming the place."""
    try:
        return Catalog.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LogFormatError(
            f"{where}: {place}: {first['msg']}", remedy="correct it and load the file again"
        ) from error


def _subset(each: _Subset, actor: str) -> Subset:
    values = each.model_dump() | {"owner": each.owner or actor, "parents": tuple(each.parents)}
    return Subset(**values | {"trace": tuple(StageTrace(**trace.model_dump()) for trace in each.trace)})


def _document(each: _Document) -> NewDocument:
    return NewDocument(**each.model_dump() | {"texts": tuple(each.texts)})
