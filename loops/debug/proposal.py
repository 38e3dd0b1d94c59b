"""The fix a person may approve: the exact diff of the revert that cured, from a checkpoint of the continuing run."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from context_store import Store
from context_store.records import Checkpoint, NewProposal, Proposal, Segment, VerdictRecord
from contracts.enums import CauseKind, DiagnosticKind, EffectKind, ProposalState, Verdict
from contracts.evidence import EvidenceRef
from loops.core import WATCH_UNTIL
from loops.debug.case import Case, declared
from loops.debug.experiments import code_of, overrides_of, payload_of, seed_of, without_on
from loops.debug.facts import Decision, Experiment, Facts, Identity
from loops.debug.measure import Probe, Reading
from loops.debug.readout import is_cured
from loops.debug.verification import guards_of

VALID_S = 7 * 24 * 3600.0  # how long a proposal may wait for a person
_STATE_DAMAGED = frozenset({"data_order", "non_finite", "divergence"})
_MOVED = 0.05  # weights this far (in logarithms) off their course count as damaged state
_MIN_STEPS = 20  # the continuing run needs as many to be watched
_WATCHED_STEPS = 60


def propose_fix(store: Store, case: Case, facts: Facts, decision: Decision, verdict: VerdictRecord) -> Proposal | None:
    """The open proposal of the case, or a new one for its proven cause.

    None when the code that the run goes on with could not be run without the cause, no checkpoint is left, or the
    cause is a machine.
    """
    if decision.cause_kind is CauseKind.HARDWARE:
        return None  # no diff mends a machine
    if already := store.proposals.list(state=ProposalState.OPEN, investigation_id=case.investigation.id):
        return already[0]
    diff = _diff_of_revert(store, case, facts, decision)
    checkpoint = _start_checkpoint(store, case)
    if diff is None or checkpoint is None:
        return None
    payload = _payload(store, case, facts.leaving_out(decision.cause[0]), checkpoint)
    title = facts.title(decision.cause[0])
    proposal = NewProposal(
        investigation_id=case.investigation.id,
        kind=EffectKind.RESUME_WITH_PATCH,
        title=f"go on from step {checkpoint.step} without {title}",
        payload=payload,
        diff=diff,
        base_state=f"commit {payload['code']['base']}, checkpoint {checkpoint.sha256} of step {checkpoint.step}",
        risk=_risk(case, checkpoint),
        verification=(
            f"watched over steps {checkpoint.step + 1}-{payload[WATCH_UNTIL]}: {', '.join(case.probe.series[:4])} must "
            f"come back by at least half of what it lost, and {_guarded(case)}, then and at the end; else the training "
            f"is stopped there and this is taken back: the run goes on from step {checkpoint.step} as before"
        ),
        evidence=(EvidenceRef(kind="verdict", id=str(verdict.id)), *verdict.evidence[:6], *_precedents(store, case)),
        expires_at=case.investigation.opened_at + VALID_S,
    )
    return store.proposals.put(proposal)


def _precedents(store: Store, case: Case) -> tuple[EvidenceRef, ...]:
    """Earlier cases of the same kind, so that whoever decides can read what was done then."""
    found = [each.investigation_id for each in store.recurrence.like(case.leading) if each.is_strong]
    known = [case_id for case_id in found if case_id and case_id != case.investigation.id]
    return tuple(EvidenceRef(kind="investigation", id=case_id) for case_id in known[:2])


def fix_trial(store: Store, case: Case, facts: Facts, decision: Decision) -> Experiment | None:
    """The re-run of the fix on the code that the run has gone on with, when that is not the faulty version itself.

    A fix on the faulty version would take the newer commits out of the run.
    """
    newest = _newest(store, case)
    is_mendable = decision.verdict is Verdict.PROVEN and decision.cause_kind is not CauseKind.HARDWARE
    if not is_mendable or case.scene is None or newest.code_version == case.scene.faulty:
        return None
    fixed = facts.leaving_out(decision.cause[0])
    return Experiment(
        kind=DiagnosticKind.REVERT,
        label=f"the newest code of the run without {facts.title(decision.cause[0])}",
        on=fixed.on,
        without=fixed.without,
        suspects=decision.cause[:1],
        base=newest.code_version,
    )


def _guarded(case: Case) -> str:
    limits = guards_of(case.probe)
    names = [name for name in limits if name in case.view.values and not (name == "loss" and "lm_loss" in limits)]
    return " and ".join(f"{name} must stay below {limits[name]:g} times what it was" for name in names) or "no guard"


def _newest(store: Store, case: Case) -> Segment:
    return store.runs.segments(case.run_id)[-1]


def _diff_of_revert(store: Store, case: Case, facts: Facts, decision: Decision) -> str | None:
    """The unified diff that the executor gave for the re-run with the fix; None unless that re-run was cured."""
    trial = fix_trial(store, case, facts, decision)
    run_id = payload_of(case, facts.leaving_out(decision.cause[0]), trial.base if trial else "")["run_id"]
    for diagnostic in store.knowledge.diagnostics(case.investigation.id):
        if diagnostic.run_id == run_id and is_cured(diagnostic):
            diff = store.effects.get(diagnostic.effect_key).result.get("diff")
            return str(diff) if diff is not None else None
    return None


def _start_checkpoint(store: Store, case: Case) -> Checkpoint | None:
    """The latest checkpoint; the last good one, before the onset, when the state itself is damaged."""
    assert case.scene is not None
    if _is_state_damaged(case):
        return store.runs.checkpoint_at_or_before(case.run_id, case.scene.segment.start_step)
    return store.runs.checkpoint_at_or_before(case.run_id, store.runs.get(case.run_id).last_step)


def _is_state_damaged(case: Case) -> bool:
    """Data read twice stays read, and weights that moved far do not come back by themselves."""
    return any(a.kind in _STATE_DAMAGED or _moved(Probe.from_json(a.probe)) > _MOVED for a in case.anomalies)


def _moved(probe: Probe) -> float:
    """Largest distance from their course, in logarithms, that slopes came to; 0.0 for other readings."""
    if probe.reading is not Reading.SLOPE:
        return 0.0
    off = [abs(a - n) for a, n in zip(probe.anomalous, probe.normal, strict=True)]
    return max(off, default=0.0) * (probe.until - probe.since)


def _payload(store: Store, case: Case, fixed: Identity, checkpoint: Checkpoint) -> dict[str, Any]:
    assert case.scene is not None
    on, without, newest = fixed.on, fixed.without, _newest(store, case)
    has_gone_on = newest.code_version != case.scene.faulty
    code = without_on(case.scene, on, newest.code_version) if has_gone_on else code_of(case.scene, on)
    overrides = dict(overrides_of(case.scene, on, without))
    planned = declared(case, "steps")
    watched = checkpoint.step + _WATCHED_STEPS
    too_short = not isinstance(planned, int) or planned - checkpoint.step < _MIN_STEPS
    name = json.dumps([case.investigation.id, code, overrides, checkpoint.sha256], sort_keys=True)
    return {
        "project_id": case.project_id,
        "run_id": case.run_id,
        "source_segment": newest.number,
        "code": code,
        "overrides": overrides,
        "start_checkpoint": checkpoint.path,
        "start_step": checkpoint.step,
        "max_step": watched if too_short else None,
        WATCH_UNTIL: watched if too_short or not isinstance(planned, int) else min(watched, planned),
        "seed": newest.seed if has_gone_on else seed_of(case.scene, on, without),
        "entry": case.entry,
        "branch": f"lathe/fix-{hashlib.sha256(name.encode()).hexdigest()[:10]}",
    }


def _risk(case: Case, checkpoint: Checkpoint) -> str:
    last = int(case.view.steps[-1]) if case.view.steps.size else checkpoint.step
    if checkpoint.step < last - _MIN_STEPS:
        return (
            f"steps {checkpoint.step + 1} to {last} are trained again; they stay stored, the step counter goes on from "
            f"{checkpoint.step}"
        )
    return "the weights keep what the faulty steps did to them; the fix only changes what follows"
