"""Threads of chat, and what is remembered across runs."""

from __future__ import annotations

from dataclasses import dataclass

from context_store.records.types import Evidence, Json
from contracts.enums import MemoryKind


@dataclass(frozen=True, kw_only=True)
class ChatThread:
    """`run_id`, `investigation_id`: what it is about, "" for anything. `num_exchanges` is counted when it is read."""

    id: str
    title: str
    run_id: str
    investigation_id: str
    created_by: str
    created_at: float
    num_exchanges: int = 0


@dataclass(frozen=True, kw_only=True)
class ChatExchange:
    """One question and its answer, as `agents.chat` encodes it."""

    id: int
    thread_id: str
    at: float
    actor: str
    question: str
    answer: Json


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One thing remembered. `author` and `evidence`: its source. `project_id` "": holds everywhere.

    `supersedes`: the entry that this one replaces. `retired`: nothing holds under this key any more.
    """

    id: int
    project_id: str
    key: str
    kind: MemoryKind
    text: str
    evidence: Evidence
    author: str
    at: float
    supersedes: int | None
    retired: bool
