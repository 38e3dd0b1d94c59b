"""Start a training that somebody approved: a new run of a code version."""

from __future__ import annotations

from context_store.records import Effect, NewRun
from contracts.backend import Launch
from contracts.enums import EffectKind, RunRole
from contracts.errors import UserInputError
from control_plane.effects.approved import require_same_diff
from control_plane.effects.effect_kind import (
    Landed,
    LaunchPayload,
    Result,
    Workshop,
    launch_of,
    parse_payload,
    result_of,
)
from control_plane.run_folders import claim_segment, segment_numbers, segment_owner
from control_plane.worktrees import Tree


class StartRun:
    kind = EffectKind.START_RUN

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> Tree:
        """ApprovalInvalid when the code would differ from what was approved."""
        payload = parse_payload(LaunchPayload, effect)
        tree = self._workshop.materialise(payload.project_id, payload.code)
        require_same_diff(self._workshop.store, effect, tree)
        return tree

    def do(self, effect: Effect, tree: Tree | None) -> Launch:
        """Create the run and its first segment. UserInputError when the id stands for another run."""
        assert tree is not None
        payload = parse_payload(LaunchPayload, effect)
        folder = self._workshop.runs_folder / payload.run_id
        if segment_numbers(folder) not in ([], [0]) or segment_owner(folder, 0) not in ("", effect.key):
            raise UserInputError(f"there is a run {payload.run_id} already", remedy="start it under another id")
        store = self._workshop.store
        owner = store.proposals.get(effect.proposal_id).owner if effect.proposal_id else ""
        store.runs.create(
            NewRun(
                id=payload.run_id,
                project_id=payload.project_id,
                name=payload.run_id,
                role=RunRole.TRAINING,
                folder=str(folder),
                investigation_id=effect.investigation_id,
                owner=owner,
            )
        )
        return claim_segment(folder, effect.key, lambda number: launch_of(payload, None, tree, folder, number))

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """How it ended."""
        return result_of(tree, landed)
