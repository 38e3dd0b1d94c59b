"""Effects on a training that runs: stop it, let it pause and go on, have it write a checkpoint now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from context_store.records import Effect, Run, TimelineEvent
from contracts.backend import Launch
from contracts.enums import EffectKind, TimelineKind
from contracts.errors import BackendFailure, UserInputError
from control_plane.backends.command_registry import is_command
from control_plane.backends.segment import is_running
from control_plane.backends.wishes import ask_checkpoint, ask_pause, ask_stop, end_pause
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, Workshop, parse_payload
from control_plane.run_folders import read_launch, segment_numbers
from control_plane.worktrees import Tree


class RunPayload(BaseModel):
    """`may_have_ended`: a wish to stop is fulfilled too when nothing trains the run any more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    may_have_ended: bool = False


@dataclass(frozen=True, kw_only=True)
class RunControl:
    """One kind of wish. `ask` says whether it is fulfilled; a training that has ended fulfils every wish."""

    workshop: Workshop
    kind: EffectKind
    ask: Callable[[Launch, str], bool]
    words: str

    def check(self, effect: Effect) -> None:
        """UserInputError when nothing trains the run, or its training does not know such wishes.

        After a crash of ours it may have ended by this very wish.
        """
        run = self._run(effect)
        launch = self._training(run)
        if launch is not None and is_command(launch.entry) and self.kind is not EffectKind.STOP_RUN:
            raise UserInputError(
                f"run {run.id} is trained by a command of yours, which can only be stopped",
                remedy="stop it: it writes a checkpoint if the command does so on SIGTERM, and goes on from its newest",
            )
        is_fulfilled = self.kind is EffectKind.STOP_RUN and parse_payload(RunPayload, effect).may_have_ended
        if launch is None and effect.attempt < 2 and not is_fulfilled:
            raise UserInputError(
                f"run {run.id} is not being trained", remedy="`lathe runs` shows which runs are being trained"
            )

    def do(self, effect: Effect, tree: Tree | None) -> Done | None:
        launch = self._training(self._run(effect))
        return DONE if launch is None or self.ask(launch, effect.key) else None

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """The step the run has come to and its newest checkpoint. BackendFailure when it left none."""
        store, run = self.workshop.store, self._run(effect)
        store.ingest.ship(run.id, Path(run.folder))
        run = store.runs.get(run.id)
        newest = store.runs.checkpoint_at_or_before(run.id, run.last_step)
        if newest is None:
            raise BackendFailure(f"run {run.id} has no checkpoint", remedy=f"look into {run.folder}")
        store.timeline.add(
            TimelineEvent(
                run_id=run.id,
                segment=segment_numbers(Path(run.folder))[-1],
                step=run.last_step,
                kind=TimelineKind.NOTE,
                title=f"{self.words} ({effect.key})",
                detail={"effect": effect.key},
                at=0.0,
            )
        )
        return {"run_id": run.id, "last_step": run.last_step, "checkpoint": newest.path, "checkpoint_step": newest.step}

    def _run(self, effect: Effect) -> Run:
        return self.workshop.store.runs.get(parse_payload(RunPayload, effect).run_id)

    def _training(self, run: Run) -> Launch | None:
        folder = Path(run.folder)
        return next((read_launch(folder, n) for n in segment_numbers(folder) if is_running(folder, n)), None)


def run_controls(workshop: Workshop) -> tuple[RunControl, ...]:
    """Stop, pause, go on, checkpoint."""
    kinds = (
        (EffectKind.STOP_RUN, ask_stop, "was stopped"),
        (EffectKind.PAUSE_RUN, ask_pause, "pauses"),
        (EffectKind.UNPAUSE_RUN, end_pause, "goes on after a pause"),
        (EffectKind.CHECKPOINT_RUN, ask_checkpoint, "wrote a checkpoint when asked to"),
    )
    return tuple(RunControl(workshop=workshop, kind=kind, ask=ask, words=words) for kind, ask, words in kinds)
