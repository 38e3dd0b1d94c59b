"""Tell somebody outside: one HTTP POST of an approved text to an approved address.

What was answered is kept as a receipt before anything else happens, so a notification that has one is not sent again.
Between the receiver taking a message and the receipt lies a moment in which a kill leaves nobody here who knows; then
it is sent again under the same `Idempotency-Key`, by which the receiver can drop it, and the result says so.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, HttpUrl

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import BackendFailure
from control_plane.disk import explained
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, Workshop, parse_payload
from control_plane.worktrees import Tree

_TIMEOUT_S = 10.0


class NotifyPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl
    text: str


class Notify:
    kind = EffectKind.NOTIFY

    def __init__(self, workshop: Workshop) -> None:
        self._folder = workshop.runs_folder.parent / "sent"

    def check(self, effect: Effect) -> None:
        """UserInputError when the payload has no address."""
        parse_payload(NotifyPayload, effect)

    def do(self, effect: Effect, tree: Tree | None) -> Done:
        """BackendFailure when the receiver does not take it; redirects are not followed."""
        receipt = self._receipt(effect)
        if receipt.get("status") is None:
            tries = int(receipt.get("tries", 0)) + 1
            self._keep(effect, {"tries": tries})
            self._keep(effect, {"tries": tries, "status": _post(effect)})
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """`tries` above 1: a crash left it unknown whether an earlier one had arrived."""
        receipt = self._receipt(effect)
        return {"url": str(parse_payload(NotifyPayload, effect).url), **receipt}

    def _path(self, effect: Effect) -> Path:
        return self._folder / hashlib.sha256(effect.key.encode()).hexdigest()[:32]

    def _receipt(self, effect: Effect) -> dict[str, int]:
        path = self._path(effect)
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _keep(self, effect: Effect, receipt: dict[str, int]) -> None:
        path = self._path(effect)
        with explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".new")
            with draft.open("w") as file:
                file.write(json.dumps(receipt))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)


def _post(effect: Effect) -> int:
    """The status that was answered."""
    import httpx

    payload = parse_payload(NotifyPayload, effect)
    try:
        answer = httpx.post(
            str(payload.url),
            json={"text": payload.text},
            headers={"Idempotency-Key": effect.key},
            timeout=_TIMEOUT_S,
            follow_redirects=False,
        )
    except httpx.HTTPError as error:
        raise BackendFailure(f"{payload.url} was not reached: {error}", remedy="check the address") from error
    if not answer.is_success:
        raise BackendFailure(f"{payload.url} answered {answer.status_code}", remedy="check the address")
    return answer.status_code
