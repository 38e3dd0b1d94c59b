"""What the executor can carry out: one file per kind. Add one by a file with a class and a line in `handlers`."""

from __future__ import annotations

from control_plane.effects.case_work import DoCaseWork
from control_plane.effects.deploy_classifier import DeployClassifier
from control_plane.effects.diagnostic_run import DiagnosticRun
from control_plane.effects.effect_kind import DONE, EffectHandler, Landed, Workshop
from control_plane.effects.notify import Notify
from control_plane.effects.open_seal import OpenSeal
from control_plane.effects.patch_code import PatchCode
from control_plane.effects.patch_config import PatchConfig
from control_plane.effects.patch_data import PatchData
from control_plane.effects.promote_scaffold import PromoteScaffold
from control_plane.effects.resume_with_patch import ResumeWithPatch
from control_plane.effects.run_control import run_controls
from control_plane.effects.start_run import StartRun
from control_plane.effects.undo import Undo

__all__ = ["DONE", "EffectHandler", "Landed", "Workshop", "handlers"]


def handlers(workshop: Workshop) -> tuple[EffectHandler, ...]:
    """One handler per kind."""
    resume, code, config = ResumeWithPatch(workshop), PatchCode(workshop), PatchConfig(workshop)
    data, scaffold = PatchData(workshop), PromoteScaffold(workshop)
    classifier = DeployClassifier(workshop)
    undoable = (resume, code, config, data, scaffold, classifier)
    undo = Undo(workshop.store, {each.kind: each for each in undoable})
    trainings = (DiagnosticRun(workshop), DoCaseWork(workshop), StartRun(workshop), resume)
    notify, seal = Notify(workshop), OpenSeal(workshop)
    return (*trainings, *undoable[1:], notify, seal, undo, *run_controls(workshop))
