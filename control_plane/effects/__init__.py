"""What the executor can carry out: one file per kind. Add one by a file with a class and a line in `handlers`."""

from __future__ import annotations

from control_plane.effects.diagnostic_run import DiagnosticRun
from control_plane.effects.effect_kind import EffectHandler, Workshop
from control_plane.effects.resume_with_patch import ResumeWithPatch
from control_plane.effects.start_run import StartRun
from control_plane.effects.undo import Undo

__all__ = ["EffectHandler", "Workshop", "handlers"]


def handlers(workshop: Workshop) -> tuple[EffectHandler, ...]:
    """One handler per kind."""
    resume = ResumeWithPatch(workshop)
    undo = Undo(workshop.store, {resume.kind: resume})
    return (DiagnosticRun(workshop), StartRun(workshop), resume, undo)
