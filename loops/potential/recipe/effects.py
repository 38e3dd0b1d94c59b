"""What each choice does once a person has approved it: go on, train the changed recipe, or end here."""

from __future__ import annotations

from typing import Any

from context_store import Store
from context_store.records import Checkpoint, Evidence, NewProposal, Run, Segment
from contracts.enums import EffectKind
from contracts.errors import NotFound
from contracts.events import Scalar
from loops.potential.recipe.decision import Choice, Decision
from loops.potential.recipe.plan import RecipePlan
from trainer.config import TrainConfig

VALID_S = 7 * 86400.0
_TITLES = {
    Choice.CONTINUE: "continue: train {run} on from step {start} to step {until}",
    Choice.CHANGE: "change: train {until} steps with the recipe {candidate}",
    Choice.STOP: "stop: end {run} at step {start}",
}
_KINDS = {
    Choice.CONTINUE: EffectKind.RESUME_WITH_PATCH,
    Choice.CHANGE: EffectKind.START_RUN,
    Choice.STOP: EffectKind.STOP_RUN,
}
_RISKS = {
    Choice.CONTINUE: "steps behind the checkpoint are trained again; a schedule that ends with the steps is stretched",
    Choice.CHANGE: "a pilot finds problems and does not predict scores; the whole training is paid for",
    Choice.STOP: "what longer pilots or other data would have shown is not seen",
}
_CHECKS = {
    Choice.CONTINUE: "the potential loop measures the new checkpoints beside the earlier ones",
    Choice.CHANGE: "the potential loop measures the new run's checkpoints beside this one's",
    Choice.STOP: "the run keeps its checkpoints and can be continued from the last one",
}


def proposal_of(store: Store, case_id: str, plan: RecipePlan, decision: Decision, evidence: Evidence) -> NewProposal:
    """The decision record's proposal. Raises NotFound when the run has no checkpoint any more."""
    case, run = store.knowledge.investigation(case_id), store.runs.get(plan.run_id)
    segment, last = store.runs.segments(run.id)[-1], _last(store, run)
    payload, choice = _payload(store, case_id, plan, decision, run, segment, last), decision.choice
    title = _TITLES[choice].format(
        run=run.id, start=last.step, until=payload.get("max_step"), candidate=decision.candidate
    )
    return NewProposal(
        investigation_id=case_id,
        kind=_KINDS[choice],
        title=title,
        payload=payload,
        diff="",
        base_state=f"commit {segment.code_version}, checkpoint {last.sha256} of step {last.step}",
        risk=_RISKS[choice],
        verification=_CHECKS[choice],
        evidence=evidence,
        expires_at=case.opened_at + VALID_S,
    )


def _payload(
    store: Store, case_id: str, plan: RecipePlan, decision: Decision, run: Run, segment: Segment, last: Checkpoint
) -> dict[str, Any]:
    if decision.choice is Choice.STOP:
        return {"run_id": run.id, "may_have_ended": True}
    goes_on = decision.choice is Choice.CONTINUE
    is_over = goes_on and plan.main_steps <= last.step
    until = last.step + plan.main_steps if is_over else plan.main_steps  # as many again behind its end
    payload = {
        "project_id": run.project_id,
        "code": {"base": segment.code_version, "revert": [], "pick": [], "diff": ""},
        "max_step": until,
        "seed": segment.seed,
        "entry": store.projects.get(run.project_id).entry,
    }
    if not goes_on:
        changes = plan.candidate(decision.candidate).overrides
        overrides = {**_declared(store, run.id, segment.number), **changes, "steps": until}
        return payload | {"run_id": f"{run.id}-{decision.choice.value}-{case_id[-8:]}", "overrides": overrides}
    return payload | {
        "run_id": run.id,
        "overrides": {"steps": until},
        "start_checkpoint": last.path,
        "start_step": last.step,
        "source_segment": segment.number,
        "branch": f"lathe/continue-{case_id[-8:]}",
    }


def _last(store: Store, run: Run) -> Checkpoint:
    found = store.runs.checkpoint_at_or_before(run.id, run.last_step)
    if found is None:
        raise NotFound(f"run '{run.id}' has no checkpoint", remedy=f"`lathe timeline {run.id} --kind checkpoint`")
    return found


def _declared(store: Store, run_id: str, segment: int) -> dict[str, Scalar]:
    """What differs from the trainer's defaults."""
    defaults = TrainConfig().flat()
    declared = store.runs.declared(run_id, segment)
    return {key: value for key, value in declared.items() if key in defaults and defaults[key] != value}
