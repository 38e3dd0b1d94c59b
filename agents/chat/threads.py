"""Where the turns of a conversation are kept for people, apart from what a model needs to go on."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from agents.chat.answer import Answer, Card, CardKind, Statement
from contracts.errors import LogFormatError
from contracts.evidence import EvidenceRef


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One question and its answer. `at`: unix seconds."""

    question: str
    answer: Answer
    actor: str
    at: float


class Threads(Protocol):
    """Threads by id; those of a case begin with `CASE:`, so that each case may have several."""

    def add(self, thread_id: str, exchange: Exchange) -> None:
        """Kept for good when it returns."""
        ...

    def exchanges(self, thread_id: str) -> tuple[Exchange, ...]:
        """Oldest first; none for a thread that does not exist yet."""
        ...

    def ids(self) -> tuple[str, ...]:
        """Sorted."""
        ...


class FileThreads:
    """One file a thread, one JSON line an exchange. A line that a crash tore off is not an exchange."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, thread_id: str, exchange: Exchange) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(_encode(exchange)).encode() + b"\n"
        path = self._path(thread_id)
        with path.open("ab") as file:
            torn = file.tell() > 0 and not path.read_bytes().endswith(b"\n")
            file.write(b"\n" + line if torn else line)
            file.flush()
            os.fsync(file.fileno())

    def exchanges(self, thread_id: str) -> tuple[Exchange, ...]:
        """Raises LogFormatError for a line that is whole and no exchange."""
        path = self._path(thread_id)
        if not path.exists():
            return ()
        found = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                found.append(_decode(json.loads(line)))
            except json.JSONDecodeError:  # torn off by a crash, and closed by the next exchange
                continue
            except (KeyError, TypeError, ValueError) as error:
                raise LogFormatError(f"{path}:{number}: {error}", remedy="remove that line") from error
        return tuple(found)

    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(unquote(path.stem) for path in self._folder.glob("*.jsonl")))

    def _path(self, thread_id: str) -> Path:
        return self._folder / f"{quote(thread_id, safe='')}.jsonl"


def _encode(exchange: Exchange) -> dict[str, Any]:
    answer = exchange.answer
    statements = [{"text": s.text, "evidence": [str(ref) for ref in s.evidence]} for s in answer.statements]
    cards = [{**asdict(card), "evidence": str(card.evidence)} for card in answer.cards]
    return {**asdict(exchange), "answer": {**asdict(answer), "statements": statements, "cards": cards}}


def _decode(fields: dict[str, Any]) -> Exchange:
    answer = fields["answer"]
    statements = tuple(Statement(text=s["text"], evidence=_refs(s["evidence"])) for s in answer["statements"])
    cards = tuple(
        Card(**{**card, "kind": CardKind(card["kind"]), "evidence": EvidenceRef.parse(card["evidence"])})
        for card in answer["cards"]
    )
    whole = {**answer, "statements": statements, "cards": cards, "notes": tuple(answer["notes"])}
    return Exchange(**{**fields, "answer": Answer(**whole)})


def _refs(texts: list[str]) -> tuple[EvidenceRef, ...]:
    return tuple(EvidenceRef.parse(text) for text in texts)
