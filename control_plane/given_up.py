"""Cases that failed again and again: nobody drives one further until a person asks for it again."""

from __future__ import annotations

from context_store import Store
from contracts.errors import BackendFailure, LatheError

_GIVEN_UP, _ASKED = "case_given_up", "case_asked_again"


def give_up(store: Store, case_id: str, error: Exception, now: float) -> None:
    """Store and tell why; a case without a verdict also says it in its statement."""
    message, remedy = f"a defect of Lathe: {type(error).__name__}: {error}", "read the worker's log and report it"
    if isinstance(error, LatheError):
        message, remedy = error.message, error.remedy
    store.ledger.append("worker", _GIVEN_UP, _subject(case_id), {"message": message, "remedy": remedy}, (), now)
    if store.knowledge.investigation(case_id).verdict is None:
        store.knowledge.set_investigation(case_id, statement=f"The search stopped: {message}")
    store.activity.publish(
        "progress", f"the case was given up: {message}", investigation_id=case_id, detail={"remedy": remedy}
    )


def ask_again(store: Store, case_id: str, actor: str, now: float) -> None:
    """Let a given up case be driven again; the ledger names `actor`."""
    if failure_of(store, case_id) is not None:
        store.ledger.append(actor, _ASKED, _subject(case_id), {}, (), now)


def failure_of(store: Store, case_id: str) -> LatheError | None:
    """Why the case was given up; None when it was not, or was asked for again."""
    for entry in store.ledger.list(subject=_subject(case_id)):
        if entry.action == _ASKED:
            return None
        if entry.action == _GIVEN_UP:
            return BackendFailure(
                f"case {case_id} was given up: {entry.detail['message']}", remedy=entry.detail["remedy"]
            )
    return None


def _subject(case_id: str) -> str:
    return f"investigation:{case_id}"
