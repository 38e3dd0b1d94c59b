"""What was tried and did not work: search it before trying again, add to it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from context_store.records import NegativeResult
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from control_plane.api.access import ResearcherDep, StoreDep
from control_plane.api.answer import Answer

router = APIRouter(prefix="/negatives", tags=["negatives"])


class NewNegative(BaseModel):
    """`evidence` in text form (`kind:id#slice`), at least one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(min_length=1)
    intervention: str = Field(min_length=1)
    context: dict[str, Scalar] = Field(default_factory=dict)
    expected: str = ""
    observed: str = Field(min_length=1)
    reason_class: str = "other"
    reason: str = Field(min_length=1)
    evidence: list[str] = Field(min_length=1)
    reopen_if: str = ""
    investigation_id: str | None = None
    project_id: str | None = None

    def record(self, actor: str) -> NegativeResult:
        """Raises UserInputError when a reference cannot be read."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "evidence"}
        return NegativeResult(**fields, evidence=tuple(map(EvidenceRef.parse, self.evidence)), actor=actor)


@router.get("")
def search(
    store: StoreDep,
    q: Annotated[str, Query(max_length=1000)] = "",
    project_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Answer:
    """Best first, with `scores` in the same order; without `q` all of them."""
    if not q.strip():
        return Answer({"negatives": store.negatives.list()[:limit], "scores": []})
    found = store.negatives.search(q, project_id=project_id, limit=limit)
    return Answer({"negatives": [negative for negative, _ in found], "scores": [score for _, score in found]})


@router.post("", status_code=HTTPStatus.CREATED)
def add(store: StoreDep, principal: ResearcherDep, negative: NewNegative) -> Answer:
    """Store one; the same content again is the same one."""
    stored = store.negatives.add(negative.record(principal.name))
    return Answer({"negative": stored}, status_code=HTTPStatus.CREATED)
