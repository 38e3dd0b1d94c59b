"""The live feed: pages of it, and server-sent events `progress`, `finding`, `approval`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from context_store import Store
from context_store.records import Activity
from control_plane.api.access import StoreDep, still_holds
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, MAX_LIMIT, Page
from control_plane.encoding import dumps

router = APIRouter(tags=["activity"])
_POLL_S = 0.3
_After = Annotated[int, Query(ge=0, le=MAX_ID, description="id of the last message that is known already")]
_STREAM = {
    "description": "Messages as they come: `event` is the kind, `id` goes into Last-Event-ID, `data` is an Activity.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


class ActivityPage(Page):
    """Ascending. `next` is always there: whoever gives it as `after` later misses nothing."""

    activity: list[Activity]


@router.get("/activity", response_model=ActivityPage)
def activity(
    store: StoreDep,
    after: _After = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 200,
    newest: bool = False,
) -> Answer:
    """Messages with an id above `after`, ascending; with `newest`, the last ones instead."""
    found = store.activity.newest(limit) if newest else store.activity.after(after, limit=limit)
    return Answer({"activity": found, "next": str(found[-1].id if found else after)})


@router.get("/events", response_class=EventSourceResponse, responses={200: _STREAM})
async def events(
    request: Request,
    store: StoreDep,
    after: _After = 0,
    last_event_id: Annotated[int | None, Header(ge=0, le=MAX_ID)] = None,
) -> EventSourceResponse:
    """Everything above `after` (or the header Last-Event-ID) and then what happens.

    It ends when the client leaves, or when its token does not hold any more.
    """
    return EventSourceResponse(_follow(request, store, last_event_id if last_event_id is not None else after))


async def _follow(request: Request, store: Store, last: int) -> AsyncIterator[ServerSentEvent]:
    while not await request.is_disconnected() and await still_holds(request, store):
        found: list[Activity] = await run_in_threadpool(store.activity.after, last)
        for each in found:
            last = each.id
            yield ServerSentEvent(data=dumps(each), event=each.kind, id=str(each.id))
        if not found:
            await asyncio.sleep(_POLL_S)
