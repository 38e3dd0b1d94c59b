"""What the executor carries out, or did."""

from __future__ import annotations

from fastapi import APIRouter

from context_store.records import Effect
from contracts.enums import EffectState
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/effects", tags=["effects"])


class EffectPage(Page):
    effects: list[Effect]


class OneEffect(Body):
    effect: Effect


@router.get("", response_model=EffectPage)
def effects(
    store: StoreDep, wish: PagingDep, state: EffectState | None = None, investigation_id: str | None = None
) -> Answer:
    """In the order of the requests."""
    found, following = page(store.effects.list(investigation_id, state), wish, lambda each: each.key)
    return Answer({"effects": found, "next": following})


@router.get("/{key:path}", response_model=OneEffect)
def effect(store: StoreDep, key: str) -> Answer:
    """One effect with its result, or why it failed or was refused."""
    return Answer({"effect": store.effects.get(key)})
