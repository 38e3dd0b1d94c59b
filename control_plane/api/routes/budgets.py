"""Budgets: what may be spent, and what was."""

from __future__ import annotations

from fastapi import APIRouter

from context_store.records import BudgetState
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/budgets", tags=["budgets"])


class BudgetPage(Page):
    budgets: list[BudgetState]


class OneBudget(Body):
    budget: BudgetState


@router.get("", response_model=BudgetPage)
def budgets(store: StoreDep, wish: PagingDep) -> Answer:
    """All of them by id: those of cases, policies and experiments, and their children."""
    found, following = page(store.budgets.list(), wish, lambda each: each.id)
    return Answer({"budgets": found, "next": following})


@router.get("/{budget_id:path}", response_model=OneBudget)
def budget(store: StoreDep, budget_id: str) -> Answer:
    """Limits, and what was used of them."""
    return Answer({"budget": store.budgets.state(budget_id)})
