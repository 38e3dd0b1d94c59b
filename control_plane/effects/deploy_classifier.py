"""An approved deployment of a classifier: its files are put in place, then the pointer of its name moves to them.

The pointer moves only from exactly what the proposal was made on, and nothing that was deployed before is deleted.
"""

from __future__ import annotations

import time

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import ApprovalInvalid, BackendFailure, UserInputError
from control_plane.effects.approved import proposal_of
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, Workshop, parse_payload
from control_plane.worktrees import Tree
from loops.quantify import deployment
from loops.quantify.casebook import CaseBook
from loops.quantify.deployment import DeployPayload


class DeployClassifier:
    kind = EffectKind.DEPLOY_CLASSIFIER

    def __init__(self, workshop: Workshop) -> None:
        self._store = workshop.store
        self._cases = workshop.runs_folder.parent / "cases"
        self._deployments = workshop.runs_folder.parent / "classifiers"

    def check(self, effect: Effect) -> None:
        """ApprovalInvalid when something else is deployed by now; UserInputError when the approved file is gone."""
        payload = parse_payload(DeployPayload, effect)
        proposal_of(self._store, effect)
        stands = self._stands(payload.name)
        if stands != payload.base and not (effect.attempt > 1 and stands == payload.sha256):
            raise ApprovalInvalid(
                f"{payload.name} stands at {_short(stands)}, not at {_short(payload.base)}",
                remedy="open a case for the need again: it is compared with what is deployed now",
            )
        path = deployment.source_path(self._book(payload), self._cases / payload.case_id, payload)
        if not path.exists():
            raise UserInputError(f"{path} is gone", remedy="restore the folder of the case from a backup")

    def do(self, effect: Effect, tree: Tree | None) -> Done:
        payload = parse_payload(DeployPayload, effect)
        folder = deployment.put_in_place(self._book(payload), self._cases / payload.case_id, self._deployments, payload)
        deployment.note_deployed(folder, payload)
        deployment.point_at(self._deployments, payload.name, payload.model_dump())
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """BackendFailure when what is read back is not what was approved."""
        payload = parse_payload(DeployPayload, effect)
        found = deployment.current(self._deployments, payload.name)
        if found is None or found.payload != payload:
            raise BackendFailure(f"the pointer of {payload.name} names something else", remedy="approve it again")
        if deployment.read_back(found.folder, payload, self._book(payload).need()) != payload.sha256:
            raise BackendFailure(f"{found.folder} is not what was approved", remedy="look at who else writes there")
        return {"folder": str(found.folder), "sha256": payload.sha256, "before": payload.base}

    def check_undo(self, done: Effect, effect: Effect) -> None:
        """ApprovalInvalid when another version was deployed since."""
        payload = parse_payload(DeployPayload, done)
        stands = self._stands(payload.name)
        if stands != payload.sha256 and not (effect.attempt > 1 and stands == payload.base):
            raise ApprovalInvalid(
                f"{payload.name} has moved on to {_short(stands)}", remedy="deploy what it should stand at"
            )

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Done:
        """Back to what was deployed before, whose files are still there; away where nothing was."""
        payload = parse_payload(DeployPayload, done)
        before = deployment.earlier(self._deployments, payload.name, payload.base)
        deployment.point_at(self._deployments, payload.name, None if before is None else before.model_dump())
        return DONE

    def _book(self, payload: DeployPayload) -> CaseBook:
        return CaseBook(self._store, payload.case_id, time.time())

    def _stands(self, name: str) -> str:
        found = deployment.current(self._deployments, name)
        return "" if found is None else found.payload.sha256


def _short(sha256: str) -> str:
    return sha256[:12] or "nothing"
