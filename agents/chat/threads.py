"""Threads of chat as people read them, kept in the store, apart from what a model needs to go on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agents.chat.answer import Answer, Card, CardKind, Statement
from agents.chat.places import ChatContext
from context_store import Store
from context_store.records import ChatThread
from contracts.evidence import EvidenceRef

_MAX_TITLE = 120


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One question and its answer. `at`: unix seconds."""

    question: str
    answer: Answer
    actor: str
    at: float


class Threads:
    """Exchanges by thread. A thread begins with its first question, which is its title, unless it was opened before."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._threads = store.threads

    def add(self, context: ChatContext, exchange: Exchange) -> None:
        """Kept for good when it returns."""
        self._threads.open(
            ChatThread(
                id=context.thread_id,
                title=exchange.question[:_MAX_TITLE],
                run_id=context.run_id,
                investigation_id=context.investigation_id,
                created_by=exchange.actor,
                created_at=exchange.at,
            )
        )
        self._threads.add(
            context.thread_id,
            question=exchange.question,
            answer=encode(exchange.answer),
            actor=exchange.actor,
            at=exchange.at,
        )

    def exchanges(self, thread_id: str) -> tuple[Exchange, ...]:
        """Oldest first; none for a thread that does not exist yet."""
        return tuple(
            Exchange(question=each.question, answer=decode(each.answer), actor=each.actor, at=each.at)
            for each in self._threads.exchanges(thread_id)
        )


def encode(answer: Answer) -> dict[str, Any]:
    """As JSON; `decode` makes the same answer of it."""
    statements = [{"text": each.text, "evidence": [str(ref) for ref in each.evidence]} for each in answer.statements]
    cards = [{**asdict(card), "evidence": str(card.evidence)} for card in answer.cards]
    return {**asdict(answer), "statements": statements, "cards": cards, "notes": list(answer.notes)}


def decode(fields: Any) -> Answer:
    statements = tuple(Statement(text=s["text"], evidence=_refs(s["evidence"])) for s in fields["statements"])
    cards = tuple(
        Card(**{**card, "kind": CardKind(card["kind"]), "evidence": EvidenceRef.parse(card["evidence"])})
        for card in fields["cards"]
    )
    return Answer(**{**fields, "statements": statements, "cards": cards, "notes": tuple(fields["notes"])})


def as_object(answer: Answer) -> dict[str, Any]:
    """An answer as programs get it."""
    derived = {"known": answer.known, "text": answer.text, "citations": [str(ref) for ref in answer.citations]}
    return {**encode(answer), **derived, "removed_share": answer.removed_share}


def _refs(texts: list[str]) -> tuple[EvidenceRef, ...]:
    return tuple(EvidenceRef.parse(text) for text in texts)
