"""Budgets: what may be spent, and what was. Admins say what a project may spend."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import Field

from context_store.records import Amount, BudgetState
from control_plane.api.access import AdminDep, ClockDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, Reason, Text, page

router = APIRouter(prefix="/budgets", tags=["budgets"])


class BudgetPage(Page):
    budgets: list[BudgetState]


class OneBudget(Body):
    budget: BudgetState


class Allowance(Body):
    """What the cases and experiments of a project may spend together from now on; what is not named is nothing."""

    project_id: Text
    reason: Reason
    cpu_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    reruns: int = Field(default=0, ge=0, le=2**31 - 1)
    tokens: int = Field(default=0, ge=0, le=MAX_ID)
    usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    wall_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)


@router.get("", response_model=BudgetPage)
def budgets(store: StoreDep, wish: PagingDep) -> Answer:
    """All of them by id: those of projects, cases, policies and experiments, and their children."""
    found, following = page(store.budgets.list(), wish, lambda each: each.id)
    return Answer({"budgets": found, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=OneBudget)
def allow(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: Allowance) -> Answer:
    """Say what a project may spend; it takes the place of what was said before."""
    project = store.projects.get(wish.project_id)
    amount = Amount(cpu_s=wish.cpu_s, reruns=wish.reruns, tokens=wish.tokens, usd=wish.usd, wall_s=wish.wall_s)
    budget_id = store.budgets.allow_project(project.id, amount, principal.name, principal.role, wish.reason, clock())
    return Answer({"budget": store.budgets.state(budget_id)}, status_code=HTTPStatus.CREATED)


@router.get("/{budget_id:path}", response_model=OneBudget)
def budget(store: StoreDep, budget_id: str) -> Answer:
    """Limits, and what was used of them."""
    return Answer({"budget": store.budgets.state(budget_id)})
