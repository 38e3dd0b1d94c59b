"""Chat: threads, and exchanges as server-sent events. A reader who goes away stops the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Request
from pydantic import StringConstraints
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from agents.chat import ChatContext
from agents.chat.threads import as_object, decode
from agents.llm.protocol import OnDelta
from context_store.records import ChatThread
from contracts.enums import Role
from contracts.errors import RoleRequired
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.answering import Answering, OneAnswer
from control_plane.api.bodies import Body, Page, PagingDep, page
from control_plane.chat import Mind, forget, open_chat
from control_plane.encoding import dumps
from control_plane.providers import NEVER, Flow, flows

router = APIRouter(prefix="/chat", tags=["chat"])
_Title = Annotated[str, StringConstraints(max_length=200)]
_STREAM = {
    "description": "`draft` {text}: words of a model, not checked yet; `restart`: the draft is void; at last `answer` "
    "(an exchange's answer, checked), `stopped`, or `error` {type, detail, remedy}.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


def _mind(request: Request) -> Mind:
    mind: Mind = request.app.state.mind
    return mind


def _answering(request: Request) -> Answering:
    answering: Answering = request.app.state.answering
    return answering


MindDep = Annotated[Mind, Depends(_mind)]
AnsweringDep = Annotated[Answering, Depends(_answering)]


class NewThread(Body):
    """What it is about: a case, a run, or with neither anything."""

    title: _Title = ""
    run_id: str = ""
    investigation_id: str = ""


class Question(Body):
    question: str


class ThreadPage(Page):
    """Newest first."""

    threads: list[ChatThread]


class OneThread(Body):
    thread: ChatThread


class OneExchange(Body):
    """`answer`: statements with evidence, cards, what was removed, and who answered (`brain`)."""

    question: str
    answer: dict[str, Any]
    actor: str
    at: float


class WholeThread(OneThread):
    """Oldest exchange first."""

    exchanges: list[OneExchange]


class Stopped(Body):
    """False: nothing was under way here."""

    stopped: bool


class Flows(Body):
    """`never`: what is not sent to anybody."""

    flows: list[Flow]
    never: str


@router.get("/providers", response_model=Flows)
def providers(store: StoreDep, mind: MindDep) -> Answer:
    """Which text goes to which provider of models, and how much went there so far."""
    return Answer({"flows": flows(store, mind), "never": NEVER})


@router.get("/threads", response_model=ThreadPage)
def threads(store: StoreDep, wish: PagingDep, run_id: str | None = None, investigation_id: str | None = None) -> Answer:
    """Newest first, of all or of one run or case."""
    known = store.threads.list(run_id=run_id, investigation_id=investigation_id)
    found, following = page(known, wish, lambda each: each.id)
    return Answer({"threads": found, "next": following})


@router.post("/threads", status_code=HTTPStatus.CREATED, response_model=OneThread)
def open_thread(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewThread) -> Answer:
    """Raises NotFound for a run or case that is not there."""
    if wish.run_id:
        store.runs.get(wish.run_id)
    if wish.investigation_id:
        store.knowledge.investigation(wish.investigation_id)
    thread = ChatThread(
        id=f"{wish.investigation_id or wish.run_id or 'everything'}:{uuid4().hex[:12]}",
        title=wish.title,
        run_id=wish.run_id,
        investigation_id=wish.investigation_id,
        created_by=principal.name,
        created_at=clock(),
    )
    return Answer({"thread": store.threads.open(thread)}, status_code=HTTPStatus.CREATED)


@router.get("/threads/{thread_id}", response_model=WholeThread)
def thread(store: StoreDep, thread_id: str) -> Answer:
    """One thread with its exchanges."""
    found = store.threads.get(thread_id)
    exchanges = [
        {"question": e.question, "answer": as_object(decode(e.answer)), "actor": e.actor, "at": e.at}
        for e in store.threads.exchanges(thread_id)
    ]
    return Answer({"thread": found, "exchanges": exchanges})


@router.delete("/threads/{thread_id}", response_model=OneThread)
def delete_thread(
    store: StoreDep, clock: ClockDep, mind: MindDep, answering: AnsweringDep, principal: ResearcherDep, thread_id: str
) -> Answer:
    """By whoever opened it, or an admin. What was asked for in it stays. Raises NotFound, RoleRequired."""
    found = store.threads.get(thread_id)
    if found.created_by != principal.name and not principal.role.includes(Role.ADMIN):
        raise RoleRequired(f"the thread is {found.created_by}'s", remedy="ask them, or somebody with the role admin")
    answering.stop(thread_id)
    store.threads.delete(thread_id)
    forget(mind, thread_id)
    detail = {"title": found.title, "num_exchanges": found.num_exchanges}
    store.ledger.append(principal.name, "thread_deleted", f"thread:{thread_id}", detail, (), clock())
    return Answer({"thread": found})


@router.post("/threads/{thread_id}/exchanges", response_class=EventSourceResponse, responses={200: _STREAM})
async def ask(
    store: StoreDep,
    clock: ClockDep,
    mind: MindDep,
    answering: AnsweringDep,
    principal: ResearcherDep,
    thread_id: str,
    wish: Question,
) -> EventSourceResponse:
    """Ask in a thread; the answer is kept there when it is whole."""
    about = await run_in_threadpool(store.threads.get, thread_id)
    context = ChatContext(run_id=about.run_id, investigation_id=about.investigation_id, thread_id=thread_id)

    def answer(on_delta: OnDelta) -> Any:
        return open_chat(store, mind, context, principal.name, clock, on_delta).answer(wish.question, context)

    one = OneAnswer()
    answering.begin(thread_id, one, answer)
    return EventSourceResponse(_pieces(one))


@router.post("/threads/{thread_id}/stop", response_model=Stopped)
def stop(store: StoreDep, answering: AnsweringDep, _: ResearcherDep, thread_id: str) -> Answer:
    """Stop the answer that is under way in a thread; the thread stays as it was before the question."""
    store.threads.get(thread_id)
    return Answer({"stopped": answering.stop(thread_id)})


async def _pieces(one: OneAnswer) -> AsyncIterator[ServerSentEvent]:
    try:
        async for piece in one.pieces():
            yield ServerSentEvent(data=dumps(piece.data), event=piece.event)
    finally:
        one.stop()
