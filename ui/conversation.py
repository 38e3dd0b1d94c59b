"""What the API answers about chat, validated where it enters; as `records`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from ui.records import Record


class Thread(Record):
    id: str
    title: str
    run_id: str = ""
    investigation_id: str = ""
    created_by: str
    created_at: datetime
    num_exchanges: int = 0


class Statement(Record):
    text: str
    evidence: tuple[str, ...] = ()


class Card(Record):
    """`kind`: series, case, proposal or run; `detail` names the object."""

    kind: str
    title: str
    evidence: str
    detail: dict[str, Any] = Field(default_factory=dict)


class Answer(Record):
    """`gap`: what the store lacks, where there is no statement. `brain`: "rules" or a model's name.

    `removed` of `claimed` statements of a model were taken out.
    """

    statements: tuple[Statement, ...] = ()
    cards: tuple[Card, ...] = ()
    gap: str = ""
    brain: str
    removed: int = 0
    claimed: int = 0
    notes: tuple[str, ...] = ()


class Exchange(Record):
    question: str
    answer: Answer
    actor: str
    at: datetime


class WholeThread(Record):
    thread: Thread
    exchanges: tuple[Exchange, ...] = ()
