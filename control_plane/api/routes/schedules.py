"""What a worker does at intervals: seen by everybody, set and revoked by admins."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from context_store.records import Schedule
from context_store.schedules import MAX_EVERY_S, MIN_EVERY_S
from contracts.enums import ScheduleAction
from control_plane.api.access import AdminDep, ClockDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, Reason, Text, page

router = APIRouter(prefix="/schedules", tags=["schedules"])
ScheduleId = Annotated[int, Path(ge=1, le=MAX_ID)]


class SchedulePage(Page):
    schedules: list[Schedule]


class OneSchedule(Body):
    schedule: Schedule


class NewSchedule(Body):
    """`target`: a project, or "" for all; of a backup the folder. `older_than_s`: for `expire`."""

    action: ScheduleAction
    target: Text = ""
    every_s: float = Field(ge=MIN_EVERY_S, le=MAX_EVERY_S)
    older_than_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    reason: Reason


class Revocation(Body):
    reason: Reason


@router.get("", response_model=SchedulePage)
def schedules(store: StoreDep, wish: PagingDep, in_force: bool = False) -> Answer:
    """Newest first, with what came of each last; with `in_force` without those that were revoked."""
    found, following = page(store.schedules.list(in_force=in_force), wish, lambda each: each.id)
    return Answer({"schedules": found, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=OneSchedule)
def set_schedule(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: NewSchedule) -> Answer:
    """Have something done from now on."""
    fields = {name: getattr(wish, name) for name in NewSchedule.model_fields}
    made = store.schedules.set(**fields, actor=principal.name, role=principal.role, at=clock())
    return Answer({"schedule": made}, status_code=HTTPStatus.CREATED)


@router.post("/{schedule_id}/revoke", response_model=OneSchedule)
def revoke(store: StoreDep, clock: ClockDep, principal: AdminDep, schedule_id: ScheduleId, wish: Revocation) -> Answer:
    """It is not done any more."""
    revoked = store.schedules.revoke(schedule_id, principal.name, principal.role, wish.reason, clock())
    return Answer({"schedule": revoked})
