"""Tell somebody outside: one HTTP POST of an approved text to an approved address.

A crash between the post and its record posts again; the receiver sees the same `Idempotency-Key` and can drop it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, HttpUrl

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import BackendFailure
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, parse_payload
from control_plane.worktrees import Tree

_TIMEOUT_S = 10.0


class NotifyPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl
    text: str


class Notify:
    kind = EffectKind.NOTIFY

    def check(self, effect: Effect) -> None:
        """UserInputError when the payload has no address."""
        parse_payload(NotifyPayload, effect)

    def do(self, effect: Effect, tree: Tree | None) -> Done:
        """BackendFailure when the receiver does not take it; redirects are not followed."""
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
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        return {"url": str(parse_payload(NotifyPayload, effect).url)}
