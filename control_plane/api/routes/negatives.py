"""What was tried and did not work: search it before trying again, add to it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from context_store.records import Contradiction, Duplicate, EffectSize, NegativeResult
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from control_plane.api.access import ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_LIMIT, Body, Page, Paging, page

router = APIRouter(prefix="/negatives", tags=["negatives"])


_Number = Annotated[float, Field(allow_inf_nan=False)]


class NewEffect(Body):
    """How large an effect was, with both ends of its interval or neither."""

    what: str = Field(min_length=1)
    value: _Number
    lo: _Number | None = None
    hi: _Number | None = None
    unit: str = ""

    def record(self) -> EffectSize:
        return EffectSize(**self.model_dump())


class NewNegative(Body):
    """`evidence` in text form (`kind:id#slice`), at least one."""

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
    scale: str = ""
    data: str = ""
    code_version: str = ""
    expected_effect: NewEffect | None = None
    observed_effect: NewEffect | None = None

    def record(self, actor: str) -> NegativeResult:
        """Raises UserInputError when a reference cannot be read."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "evidence"}
        for name in ("expected_effect", "observed_effect"):
            fields[name] = fields[name] and fields[name].record()
        return NegativeResult(**fields, evidence=tuple(map(EvidenceRef.parse, self.evidence)), actor=actor)


class NegativePage(Page):
    """`scores` in the order of `negatives`; empty where nothing was searched for."""

    negatives: list[NegativeResult]
    scores: list[float]


class OneNegative(Body):
    negative: NegativeResult


class WholeNegative(OneNegative):
    """With what is like it and what says otherwise; nothing is merged."""

    duplicates: list[Duplicate]
    contradictions: list[Contradiction]


@router.get("", response_model=NegativePage)
def search(
    store: StoreDep,
    q: Annotated[str, Query(max_length=1000)] = "",
    project_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
    after: Annotated[str | None, Query(max_length=500)] = None,
) -> Answer:
    """The best `limit`, with their scores; without `q` all of them, page by page."""
    if not q.strip():
        kept, following = page(store.negatives.list(), Paging(limit=limit, after=after), lambda each: each.id)
        return Answer({"negatives": kept, "scores": [], "next": following})
    found = store.negatives.search(q, project_id=project_id, limit=limit)
    negatives, scores = [negative for negative, _ in found], [score for _, score in found]
    return Answer({"negatives": negatives, "scores": scores, "next": None})


@router.get("/{negative_id}", response_model=WholeNegative)
def show(store: StoreDep, negative_id: Annotated[int, Path(ge=1, lt=2**31)]) -> Answer:
    """One with its neighbours."""
    negative = store.negatives.get(negative_id)
    return Answer(
        {
            "negative": negative,
            "duplicates": store.likeness.duplicates(negative),
            "contradictions": store.likeness.contradictions(negative),
        }
    )


@router.post("", status_code=HTTPStatus.CREATED, response_model=OneNegative)
def add(store: StoreDep, principal: ResearcherDep, negative: NewNegative) -> Answer:
    """Store one; the same content again is the same one."""
    stored = store.negatives.add(negative.record(principal.name))
    return Answer({"negative": stored}, status_code=HTTPStatus.CREATED)
