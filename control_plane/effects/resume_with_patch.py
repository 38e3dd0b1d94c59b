"""An approved fix enters the continuing run: a branch with the fix, and a new segment from a checkpoint of the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_store.records import Effect, Proposal, Run, TimelineEvent
from contracts.backend import Launch
from contracts.enums import EffectKind, TimelineKind
from contracts.errors import ApprovalInvalid, BackendFailure, NotFound
from control_plane.backends.segment import is_running, request_stop
from control_plane.effects.approved import require_same_diff
from control_plane.effects.effect_kind import (
    CodePayload,
    Landed,
    LaunchPayload,
    Result,
    Workshop,
    launch_of,
    parse_payload,
    result_of,
)
from control_plane.run_folders import claim_segment, read_launch, segment_number, segment_numbers, segment_owner
from control_plane.worktrees import Tree


class ResumePayload(LaunchPayload):
    """`start_checkpoint` belongs to `run_id`; a continuing run never starts from zero.

    `watch_until`: the step at which the loop looks whether it holds, and may have it stopped and taken back.
    """

    branch: str
    watch_until: int | None = None


class ResumeWithPatch:
    kind = EffectKind.RESUME_WITH_PATCH

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> Tree:
        """ApprovalInvalid when diff, base commit, checkpoint or the run's code are not what was approved."""
        payload = parse_payload(ResumePayload, effect)
        tree = self._workshop.materialise(payload.project_id, payload.code)
        proposal = require_same_diff(self._workshop.store, effect, tree)
        self._require_base(payload, proposal, tree)
        self._require_newest(payload, effect.key)
        return tree

    def do(self, effect: Effect, tree: Tree | None) -> Launch | None:
        """Commit the fix on its branch, stop what still trains the run, and append the segment."""
        assert tree is not None
        payload = parse_payload(ResumePayload, effect)
        run = self._workshop.store.runs.get(payload.run_id)
        project = self._workshop.store.projects.get(payload.project_id)
        commit = self._workshop.worktrees.commit_on_branch(Path(project.path), tree, payload.branch)
        self._workshop.store.code.ingest(project.id, Path(project.path))
        if not self._is_free(run, effect.key):
            return None
        folder = Path(run.folder)
        self._require_newest(payload, effect.key)
        source = self._workshop.source_launch(run.id, payload)
        committed = replace(tree, commit=commit)
        launch = claim_segment(folder, effect.key, lambda number: launch_of(payload, source, committed, folder, number))
        self._note(effect, payload, launch)
        return launch

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """BackendFailure when the segment is not in the run, or does not begin where it was approved to begin."""
        assert landed is not None
        launch, outcome = landed.launch, landed.outcome
        payload = parse_payload(ResumePayload, effect)
        segments = self._workshop.store.runs.segments(payload.run_id)
        begun = [each for each in segments if each.number == launch.segment]
        if not begun or begun[0].start_step != payload.start_step or begun[0].code_version != launch.code_version:
            raise BackendFailure(
                f"run {payload.run_id} did not go on at step {payload.start_step} with the fix: {outcome.message}",
                remedy=outcome.remedy or f"look into {launch.folder}",
            )
        return {
            **result_of(tree, landed),
            "segment": launch.segment,
            "commit": launch.code_version,
            "branch": payload.branch,
        }

    def check_undo(self, done: Effect, effect: Effect) -> Tree:
        """The code from before the fix. ApprovalInvalid when the run went on with yet other code since."""
        payload = parse_payload(ResumePayload, done)
        before = self._before(payload)
        fixed = segment_number(Path(before.run_folder), done.key)
        self._require_newest(payload.model_copy(update={"source_segment": fixed}), effect.key)
        return self._workshop.materialise(payload.project_id, CodePayload(base=before.code_version))

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Launch | None:
        """A new segment from where the fix began, with the code, overrides and seed from before it."""
        assert tree is not None
        payload = parse_payload(ResumePayload, done)
        run, before = self._workshop.store.runs.get(payload.run_id), self._before(payload)
        if not self._is_free(run, effect.key):
            return None
        again = replace(
            before,
            project=str(tree.project),
            code_version=tree.commit,
            start_checkpoint=payload.start_checkpoint,
            max_step=payload.max_step,
        )
        return claim_segment(Path(run.folder), effect.key, lambda number: replace(again, segment=number))

    def _before(self, payload: ResumePayload) -> Launch:
        """What the segment that the fix went on from was started with."""
        source = self._workshop.source_launch(payload.run_id, payload)
        if source is None:
            raise NotFound(f"run {payload.run_id} has no segment from before the fix", remedy="restore its run folder")
        return source

    def _require_base(self, payload: ResumePayload, proposal: Proposal, tree: Tree) -> None:
        known = {each.path: each for each in self._workshop.store.runs.checkpoints(payload.run_id)}
        checkpoint = known.get(payload.start_checkpoint)
        if checkpoint is None or checkpoint.step != payload.start_step or not Path(checkpoint.path).is_dir():
            raise ApprovalInvalid(
                f"the checkpoint at step {payload.start_step} of run {payload.run_id} is gone",
                remedy="make the proposal again from a checkpoint that exists",
            )
        if checkpoint.sha256 not in proposal.base_state or tree.base not in proposal.base_state:
            raise ApprovalInvalid(
                "the approved base state is another one (commit or checkpoint differ)", remedy="make the proposal again"
            )

    def _require_newest(self, payload: ResumePayload, owner: str) -> None:
        """The run may have been resumed with other code since the proposal was made."""
        if payload.source_segment is None:
            raise ApprovalInvalid(
                "the proposal names no source_segment, so its seed and overrides are not bound",
                remedy="make the proposal again",
            )
        folder = Path(self._workshop.store.runs.get(payload.run_id).folder)
        source = self._workshop.source_launch(payload.run_id, payload)
        known = {payload.code.base, source.code_version if source else payload.code.base}
        for number in segment_numbers(folder):
            if number <= payload.source_segment or segment_owner(folder, number) == owner:
                continue
            code = read_launch(folder, number).code_version
            if code not in known:
                raise ApprovalInvalid(
                    f"run {payload.run_id} went on in segment {number} with other code ({code[:10]}) than the proposal "
                    f"is about ({payload.code.base[:10]})",
                    remedy=f"look at the run as it is now and make the proposal again: lathe diagnose {payload.run_id}",
                )

    def _note(self, effect: Effect, payload: ResumePayload, launch: Launch) -> None:
        """The decision on the run's timeline, at the step from which it holds."""
        proposal = self._workshop.store.proposals.get(effect.proposal_id or "")
        self._workshop.store.timeline.add(
            TimelineEvent(
                run_id=payload.run_id,
                segment=launch.segment,
                step=payload.start_step,
                kind=TimelineKind.APPROVAL,
                title=f"approved by {proposal.decided_by}: {proposal.title}",
                detail={"proposal": proposal.id, "branch": payload.branch, "commit": launch.code_version},
                at=proposal.decided_at or 0.0,
            )
        )

    def _is_free(self, run: Run, owner: str) -> bool:
        """True when no other segment of the run is being trained; asks one that is to stop."""
        folder = Path(run.folder)
        busy = [number for number in segment_numbers(folder) if is_running(folder, number)]
        foreign = [number for number in busy if segment_owner(folder, number) != owner]
        for number in foreign:
            request_stop(read_launch(folder, number))
        return not foreign
