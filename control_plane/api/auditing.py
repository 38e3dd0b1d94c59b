"""Whoever asks to change anything is written to the ledger before it is done; a refusal is written too.

`access.authenticate`, which every route passes, calls this, so no route can forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from context_store import Store
from context_store.records import Principal

READS = frozenset({"GET", "HEAD"})
UNAUDITED = frozenset({"/ingest/streams/{stream_id}"})  # more lines of a log; that it was opened is noted


def note_request(request: Request, principal: Principal, detail: Mapping[str, Any]) -> None:
    """Who asks for what, and about which object; nothing for what only reads."""
    if request.method in READS or request.scope["route"].path in UNAUDITED:
        return
    store: Store = request.app.state.store
    path = request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
    store.ledger.note_request(principal, request.method, path, detail, request.app.state.clock())
