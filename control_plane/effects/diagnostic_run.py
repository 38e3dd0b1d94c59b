"""A counterfactual re-run: a code version from a checkpoint of the source run, as a run of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_store.records import Effect, NewRun
from contracts.backend import Launch
from contracts.enums import EffectKind, RunRole
from contracts.errors import NotPermitted
from control_plane.backends.segment import finished_event
from control_plane.effects.effect_kind import (
    Landed,
    LaunchPayload,
    Result,
    Workshop,
    launch_of,
    parse_payload,
    result_of,
)
from control_plane.run_folders import claim_segment, started_config
from control_plane.worktrees import Tree


class DiagnosticPayload(LaunchPayload):
    """`source_run_id`: the run under suspicion, whose seed and overrides hold where the payload says nothing.

    `repeat` changes nothing but the run's id: the same thing is to be run again, to see how much it scatters.
    """

    source_run_id: str
    repeat: int = 0


class DiagnosticRun:
    kind = EffectKind.DIAGNOSTIC_RUN

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> Tree:
        """RepositoryError when the patch does not apply: the diagnostic is impossible.

        NotPermitted for a diff: without an approval only what somebody committed is run.
        """
        payload = parse_payload(DiagnosticPayload, effect)
        if payload.code.diff:
            raise NotPermitted(
                f"effect {effect.key} would run code that nobody committed", remedy="commit it, or propose a start_run"
            )
        return self._workshop.materialise(payload.project_id, payload.code)

    def do(self, effect: Effect, tree: Tree | None) -> Launch:
        """Create the diagnostic run and its only segment."""
        assert tree is not None
        payload = parse_payload(DiagnosticPayload, effect)
        folder = self._workshop.runs_folder / payload.run_id
        source = self._workshop.source_launch(payload.source_run_id, payload)
        run = self._workshop.store.runs.create(
            NewRun(
                id=payload.run_id,
                project_id=payload.project_id,
                name=payload.run_id,
                role=RunRole.DIAGNOSTIC,
                folder=str(folder),
                parent_run_id=payload.source_run_id,
                parent_step=payload.start_step,
                investigation_id=effect.investigation_id,
            )
        )
        if run.role is not RunRole.DIAGNOSTIC:
            raise NotPermitted(f"run {run.id} is no re-run", remedy="give the re-run an id of its own")
        owner = f"diagnostic:{payload.run_id}"  # the id follows from the content, so equal diagnostics are run once
        launch = claim_segment(folder, owner, lambda number: launch_of(payload, source, tree, folder, number))
        while (end := finished_event(folder, launch.segment)) is not None and end.reason == "stopped":
            launch = self._after(launch, f"{owner}:after:{launch.segment}", end.step)
        return replace(launch, background=True, num_processes=self._num_processes(payload, launch))

    def _num_processes(self, payload: DiagnosticPayload, launch: Launch) -> int:
        """Of the training, by what the segment it derives from ran with and what the re-run changes."""
        run = self._workshop.store.runs.get(payload.source_run_id)
        config = {**started_config(Path(run.folder), payload.source_segment or 0), **launch.overrides}
        if str(config.get("parallel.processes", False)).lower() != "true":
            return 1
        return int(str(config["parallel.dp_size"])) * int(str(config["parallel.cp_size"]))

    def _after(self, stopped: Launch, owner: str, step: int) -> Launch:
        """The segment that goes on where a halt or a person stopped the re-run."""
        newest = self._workshop.store.runs.checkpoint_at_or_before(stopped.run_id, step)
        start = newest.path if newest is not None else stopped.start_checkpoint
        return claim_segment(
            stopped.folder, owner, lambda number: replace(stopped, segment=number, start_checkpoint=start)
        )

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """How it ended; a training that failed by itself is a result too."""
        return result_of(tree, landed)
