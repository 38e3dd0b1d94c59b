"""Take an approved effect back that did not do what it was approved for.

Nobody has to approve it again: it restores what was there before, once, and only for an effect that was carried out
under an approval of its own (the store checks that when the undo is claimed).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from context_store import Store
from context_store.records import Effect
from contracts.backend import Launch
from contracts.enums import EffectKind
from contracts.errors import UserInputError
from control_plane.effects.effect_kind import Done, Landed, Result, parse_payload, result_of
from control_plane.worktrees import Tree


class UndoPayload(BaseModel):
    """`effect`: key of what is to be taken back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: str


class Undoable(Protocol):
    """A kind of effect that can be taken back."""

    def check_undo(self, done: Effect, effect: Effect) -> Tree | None:
        """The code from before `done`. NotPermitted when somebody has gone on since."""
        ...

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Launch | Done | None:
        """As `EffectHandler.do`; what it makes belongs to `effect`, the undo."""
        ...


class Undo:
    kind = EffectKind.UNDO

    def __init__(self, store: Store, undoable: Mapping[EffectKind, Undoable]) -> None:
        self._store = store
        self._undoable = undoable

    def check(self, effect: Effect) -> Tree | None:
        """UserInputError when effects of that kind cannot be taken back."""
        done, kind = self._done(effect)
        return kind.check_undo(done, effect)

    def do(self, effect: Effect, tree: Tree | None) -> Launch | Done | None:
        done, kind = self._done(effect)
        return kind.undo(done, effect, tree)

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """How the segment without the change ended, where there is one."""
        return {} if landed is None else {**result_of(tree, landed), "segment": landed.launch.segment}

    def _done(self, effect: Effect) -> tuple[Effect, Undoable]:
        done = self._store.effects.get(parse_payload(UndoPayload, effect).effect)
        if done.kind not in self._undoable:
            raise UserInputError(
                f"effect {done.key} cannot be taken back: {done.kind} has no undo",
                remedy="one of: " + ", ".join(sorted(self._undoable)),
            )
        return done, self._undoable[done.kind]
