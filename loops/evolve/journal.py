"""What a run wrote down, once under each key: everything it decides follows from this and from its seed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from context_store import Store
from context_store.redaction import redact_json

Body = dict[str, Any]


class Journal(Protocol):
    """Append-only: the first entry of a key stays."""

    def put(self, kind: str, key: str, body: Body) -> None: ...

    def get(self, kind: str, key: str) -> Body | None: ...

    def list(self, kind: str) -> list[tuple[str, Body]]:
        """(key, body) in the order they were written."""
        ...


class FolderJournal:
    """A file of JSON lines, flushed to disk with every entry; a last line that a crash cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Body]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        whole, _, cut = text.rpartition(b"\n")
        if cut:
            with path.open("r+b") as file:
                file.truncate(len(text) - len(cut))
        for line in whole.splitlines():
            row = json.loads(line)
            self._rows.setdefault(row["kind"], {}).setdefault(row["key"], row["body"])

    def put(self, kind: str, key: str, body: Body) -> None:
        if key in self._rows.get(kind, {}):
            return
        text = json.dumps({"kind": kind, "key": key, "body": body}, sort_keys=True)
        with self._path.open("ab") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._rows.setdefault(kind, {})[key] = json.loads(text)["body"]  # as it will be read again

    def get(self, kind: str, key: str) -> Body | None:
        return self._rows.get(kind, {}).get(key)

    def list(self, kind: str) -> list[tuple[str, Body]]:
        return list(self._rows.get(kind, {}).items())


class Mended:
    """A journal whose last decision is hidden as long as a crash has cut it off from what follows from it.

    So it is taken once more, and as it comes out the same, its evidence and memory are there too.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        decided = [key for key, _ in journal.list("decision")]
        last = max(decided, key=int, default="")
        self._hidden = "" if journal.get("memory", last) else last

    def put(self, kind: str, key: str, body: Body) -> None:
        self._journal.put(kind, key, body)
        if (kind, key) == ("decision", self._hidden):
            self._hidden = ""

    def get(self, kind: str, key: str) -> Body | None:
        return None if (kind, key) == ("decision", self._hidden) else self._journal.get(kind, key)

    def list(self, kind: str) -> list[tuple[str, Body]]:
        return [(key, body) for key, body in self._journal.list(kind) if (kind, key) != ("decision", self._hidden)]


class CaseJournal:
    """The entries of one case in the store, each kind read once: a case has one writer at a time."""

    def __init__(self, store: Store, case_id: str, clock: Callable[[], float]) -> None:
        self._store, self._case_id, self._clock = store, case_id, clock
        self._rows: dict[str, dict[str, Body]] = {}

    def put(self, kind: str, key: str, body: Body) -> None:
        if key not in self._kind(kind):
            self._store.casework.put(self._case_id, kind, key, body, self._clock())
            self._kind(kind)[key] = json.loads(json.dumps(redact_json(body)))  # as it will be read again

    def get(self, kind: str, key: str) -> Body | None:
        return self._kind(kind).get(key)

    def list(self, kind: str) -> list[tuple[str, Body]]:
        return list(self._kind(kind).items())

    def _kind(self, kind: str) -> dict[str, Body]:
        if kind not in self._rows:
            rows = self._store.casework.list(self._case_id, kind)
            self._rows[kind] = {row.key: dict(row.body) for row in rows}
        return self._rows[kind]
