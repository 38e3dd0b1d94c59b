"""An approved opening of an evolution run's sealed tasks: work of its case that nothing but an approval begins.

What was measured first stays: a run that was opened is not opened again.
"""

from __future__ import annotations

from context_store import Store
from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import ApprovalInvalid, NotPermitted
from control_plane.effects.approved import proposal_of
from control_plane.effects.case_work import DoCaseWork, Seal
from control_plane.effects.effect_kind import Done, Landed, Result, Workshop, parse_payload
from control_plane.worktrees import Tree
from loops.evolve.loop import history_of


class OpenSeal:
    kind = EffectKind.OPEN_SEAL

    def __init__(self, workshop: Workshop) -> None:
        self._store = workshop.store
        self._work = DoCaseWork(workshop)

    def check(self, effect: Effect) -> None:
        """ApprovalInvalid when the run is not what it was, NotPermitted when it was opened before."""
        payload = parse_payload(Seal, effect)
        proposal_of(self._store, effect)
        if effect.attempt > 1 and self._store.casework.list(payload.case_id, "sealed"):
            return
        if seal_of(self._store, payload.case_id, payload.trial) != payload:
            raise ApprovalInvalid(
                f"run {payload.case_id} is not what it was when the opening was proposed", remedy="propose it again"
            )

    def do(self, effect: Effect, tree: Tree | None) -> Done | None:
        return self._work.do(effect, tree)

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """What was measured. Raises what ended it."""
        return self._work.verify(effect, tree, landed)


def seal_of(store: Store, case_id: str, trial: int = 1) -> Seal:
    """What an approval would bind now.

    Raises NotPermitted while the run goes on and when it was opened before, NotFound for what is no run.
    """
    history = history_of(store, case_id)
    if (known := history.journal.get("sealed", "0")) is not None:
        raise NotPermitted(
            f"the sealed tasks of {case_id} were opened by {known['opened_by']}",
            remedy=f"read the result: lathe evolve report {case_id}",
        )
    if history.journal.get("root", "0") is None or not history.over:
        raise NotPermitted(
            f"run {case_id} goes on: its sealed tasks stay sealed",
            remedy=f"finish it first: lathe evolve resume {case_id}",
        )
    return Seal(
        case_id=case_id, suite=history.plan.suite_hash, first=history.root, incumbent=history.incumbent,
        rounds=len(history.decisions), trial=trial,
    )  # fmt: skip
