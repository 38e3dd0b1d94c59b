"""The debug loop on a real store and a real git project, from detection to the verified fix."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import (
    ATTENTION,
    DEVICES,
    FAST_BIAS,
    IDLE,
    MIXTURE,
    NOW,
    OUTSIDE,
    README,
    REPORT,
    SCALE,
    SKIP,
    TO_BIAS,
    WARMUP,
    World,
)

from context_store import Store
from contracts.enums import (
    AutonomyLevel,
    CauseKind,
    DiagnosticKind,
    EffectKind,
    InvestigationState,
    ProposalState,
    Role,
    Scope,
    Verdict,
)
from contracts.evidence import EvidenceRef
from loops.core import Limits
from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.loop import DebugOptions
from loops.runner import CaseStatus, Runner

NewRunner = Callable[..., Runner]


def diagnose(world: World, runner: Runner, run_id: str) -> str:
    """Detect, open the case and drive it to its first stop; returns the case id."""
    case_id = open_case(world.store, run_id, detect(world.store, run_id), NOW)
    assert case_id is not None
    runner.start("debug", case_id)
    return case_id


def kinds(store: Store, case_id: str) -> list[DiagnosticKind]:
    return [d.kind for d in store.knowledge.diagnostics(case_id)]


def test_from_symptom_to_verified_fix(world: World, new_runner: NewRunner) -> None:
    """Shows R801-3.1: discover, attribute, fix and verify, each with a stored artefact.

    Shows R801-1.10: the fix enters the run that goes on, at a logged step; its steps go on from there, not from zero.
    """
    heads = world.lay_out([REPORT, MIXTURE], [README, ATTENTION, SCALE])
    world.train("run", heads)
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    culprit = world.commits[SCALE.subject]
    case = world.store.knowledge.investigation(case_id)
    assert (case.verdict, case.scope, case.cause_kind) == (Verdict.PROVEN, Scope.THIS_RUN, CauseKind.CODE)
    assert case.state is InvestigationState.WAITING_FOR_APPROVAL
    assert world.store.knowledge.suspects(case_id)[0].commits == (culprit,)
    assert kinds(world.store, case_id) == [
        DiagnosticKind.REPLAY,
        DiagnosticKind.CONTROL,
        DiagnosticKind.REVERT,
        DiagnosticKind.PLACEBO,
        DiagnosticKind.ADD,
    ]
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    assert proposal.kind is EffectKind.RESUME_WITH_PATCH
    assert "-penalty_scale = 8.0" in proposal.diff
    assert "+penalty_scale = 1.0" in proposal.diff
    assert proposal.payload["start_step"] == 170

    assert runner.resume(case_id).status is CaseStatus.WAITING_FOR_APPROVAL
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "looks right", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    closed = world.store.knowledge.investigation(case_id)
    assert closed.state is InvestigationState.CLOSED
    assert "The fix holds" in closed.statement
    segments = world.store.runs.segments("run")
    assert (segments[-1].number, segments[-1].start_step, segments[-1].last_step) == (3, 170, 240)
    assert segments[-1].start_step == segments[-2].last_step
    steps = world.store.series.read("run", "lm_loss").steps
    assert list(steps) == list(range(1, 241))
    assert set(world.executed.values()) == {1}
    report = world.store.knowledge.report(case_id)
    for heading in ("## Verdict", "## What was seen", "## Suspects", "## Re-runs", "## What was ruled out", "## Fix"):
        assert heading in report


def test_exclusions_carry_evidence_and_shorten_the_next_case(world: World, new_runner: NewRunner) -> None:
    """Shows R801-2.5 and R801-2.6: what was ruled out is found again, and the next case needs fewer re-runs.

    Shows R801-3.21: each diagnosis has its report, made from records, and a later proposal links to the earlier one.
    """
    heads = world.lay_out([REPORT], [SCALE, WARMUP, ATTENTION])
    world.train("first", heads)
    world.train("second", heads, seed=2)
    first = diagnose(world, new_runner(), "first")
    excluded = world.store.negatives.list(investigation_id=first)
    decoy = [n for n in excluded if n.context.get("commit") == world.commits[WARMUP.subject]]
    assert [n.reason_class for n in decoy] == ["excluded_by_rerun"]
    assert all(n.evidence and n.reason for n in excluded)
    (effect,) = [n.observed_effect for n in decoy]
    assert effect is not None
    assert effect.lo is not None
    assert effect.hi is not None
    assert effect.lo <= effect.value <= effect.hi < 0.25, "leaving it out takes nothing of the anomaly away"
    second = diagnose(world, new_runner(), "second")
    assert world.store.knowledge.investigation(second).verdict is Verdict.PROVEN
    assert len(kinds(world.store, second)) < len(kinds(world.store, first))
    suspects = {s.title.split(" ", 1)[1]: s for s in world.store.knowledge.suspects(second)}
    assert "excluded before" in suspects[WARMUP.subject].reason
    ledger = world.store.ledger.list(subject=f"investigation:{second}")
    recalled = [entry for entry in ledger if entry.action == "recall"]
    assert {ref.kind for ref in recalled[0].evidence} == {"negative"}
    assert "## Seen before" in world.store.knowledge.report(second)
    (proposal,) = world.store.proposals.list(investigation_id=second)
    assert EvidenceRef(kind="investigation", id=first) in proposal.evidence


def test_the_commit_that_did_harm_is_remembered(world: World, new_runner: NewRunner) -> None:
    """ "Have we tried this before?" is answered from the store."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner(), "run")
    (found, _), *_ = world.store.negatives.search("balance count in shares", limit=1)
    assert found.reason_class == "caused_anomaly"
    assert found.context["commit"] == world.commits[SCALE.subject]
    (verdict,) = world.store.knowledge.verdicts(case_id)
    assert found.observed_effect is not None
    assert found.observed_effect.value == verdict.effect
    assert (found.observed_effect.lo, found.observed_effect.hi) == verdict.interval
    assert found.code_version == world.store.runs.segments("run")[2].code_version
    assert found.scale == "data.batch_size 16, data.seq_len 64"
    assert found.data == "data.mixture 0.4"
    excluded = [
        n for n in world.store.negatives.list(investigation_id=case_id) if n.reason_class == "excluded_by_rerun"
    ]
    about = {str(n.context["suspect"]): n for n in excluded}
    faster = about[f"commit:{world.commits[ATTENTION.subject]}"]
    assert faster.context["optim.attention_lr"] == 3.15e-3, "what the suspect changed, with its value"
    assert (faster.scale, faster.data, faster.code_version) == (found.scale, found.data, found.code_version)


def test_two_changes_that_need_each_other(world: World, new_runner: NewRunner) -> None:
    """Shows R801-2.9: neither commit alone brings the anomaly about; the 2x2 says so."""
    world.train("run", world.lay_out([REPORT], [FAST_BIAS, README, ATTENTION, TO_BIAS]))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert (case.verdict, case.cause_kind) == (Verdict.PROVEN, CauseKind.INTERACTION)
    proven = [s for s in world.store.knowledge.suspects(case_id) if s.status is Verdict.PROVEN]
    assert {s.commits[0] for s in proven} == {world.commits[FAST_BIAS.subject], world.commits[TO_BIAS.subject]}
    assert DiagnosticKind.COMBINATION in kinds(world.store, case_id)


def test_sample_order_lost_in_a_resume_with_another_dp_size(world: World, new_runner: NewRunner) -> None:
    """Shows R801-3.20: the commit does harm only with the resume; the fix starts before the damage."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, DEVICES]), dp_sizes=(4, 4, 2))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert (case.verdict, case.cause_kind) == (Verdict.PROVEN, CauseKind.RESUME)
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == (f"commit:{world.commits[DEVICES.subject]}",)
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    assert proposal.payload["start_step"] == 110


def test_a_commit_in_force_before_can_be_woken_by_the_resume(world: World, new_runner: NewRunner) -> None:
    """The loader's commit came with an earlier segment and did nothing until the ranks changed."""
    heads = world.lay_out([DEVICES, REPORT], [ATTENTION])
    world.train("run", heads, dp_sizes=(4, 4, 2))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert (case.verdict, case.cause_kind) == (Verdict.PROVEN, CauseKind.RESUME)
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == (f"commit:{world.commits[DEVICES.subject]}",)


def test_layers_that_depart_are_traced(world: World, new_runner: NewRunner) -> None:
    world.train("run", world.lay_out([REPORT], [ATTENTION, SKIP, README]))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert "layers 2 and 5 depart" in case.title
    assert case.verdict is Verdict.PROVEN
    assert "names layer 2, 5" in world.store.knowledge.suspects(case_id)[0].reason


def test_a_control_that_shows_it_too_is_cannot_tell(world: World, new_runner: NewRunner) -> None:
    """A cause outside the code is not pinned on a commit, and the case still leaves something behind."""
    world.unseen = OUTSIDE
    world.train("run", world.lay_out([REPORT], [ATTENTION, WARMUP]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    case = world.store.knowledge.investigation(case_id)
    assert case.state is InvestigationState.CLOSED
    assert case.verdict is Verdict.CANNOT_TELL
    assert "the last good code shows the anomaly too" in case.statement
    assert "machine, environment" in case.statement  # what is left is said
    assert case.cause_kind is CauseKind.NONE
    new = [s for s in world.store.knowledge.suspects(case_id) if s.commits and "newly in force" in s.reason]
    assert len(new) == 2
    assert all("not needed: the last good code" in s.reason for s in new)
    assert [n.reason_class for n in world.store.negatives.list(investigation_id=case_id)] == ["not_isolated"]
    assert world.store.proposals.list(investigation_id=case_id) == []


def test_lines_that_never_ran_prove_nothing(world: World, new_runner: NewRunner) -> None:
    """Design section 5.3: a re-run that never executed the suspect's lines cannot give `proven`."""
    world.not_imported = ("idle.py",)
    world.train("run", world.lay_out([REPORT], [ATTENTION, IDLE]))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.CANNOT_TELL
    assert "did not execute the lines" in case.statement


def test_a_rejected_fix_closes_the_case_with_its_reason(world: World, new_runner: NewRunner) -> None:
    """Shows R801-2.13: who, when, and why, and nothing was applied."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    world.store.proposals.reject(proposal.id, "Ada", Role.REVIEWER, "we want to see it go on", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    declined = [n for n in world.store.negatives.list(investigation_id=case_id) if n.reason_class == "declined"]
    assert [(n.actor, n.reason) for n in declined] == [("Ada", "declined by Ada: we want to see it go on")]
    assert len(world.store.runs.segments("run")) == 3
    assert world.store.proposals.get(proposal.id).state is ProposalState.REJECTED


def test_fresh_seeds_are_a_verdict_of_their_own(world: World, new_runner: NewRunner) -> None:
    """A general claim needs five seed pairs and is reported apart from the claim on this run."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner(options=DebugOptions(fresh_seeds=(11, 12, 13, 14, 15))), "run")
    this_run, fresh = world.store.knowledge.verdicts(case_id)
    assert (this_run.verdict, this_run.scope) == (Verdict.PROVEN, Scope.THIS_RUN)
    assert (fresh.verdict, fresh.scope, fresh.num_reruns) == (Verdict.PROVEN, Scope.SAME_CODE_SMALL, 10)
    assert "5 of 5 seed pairs" in fresh.statement


def test_a_spent_budget_ends_in_cannot_tell(world: World, new_runner: NewRunner) -> None:
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner(limits=Limits(reruns=3)), "run")
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.CANNOT_TELL
    assert "the budget is spent" in case.statement
    assert sum(world.executed.values()) == 3


def test_a_healthy_run_opens_no_case(world: World) -> None:
    world.train("run", world.lay_out([REPORT, MIXTURE], [ATTENTION, WARMUP]))
    findings = detect(world.store, "run")
    assert findings == []
    assert open_case(world.store, "run", findings, NOW) is None
    assert world.store.knowledge.anomalies(run_id="run") == []


@pytest.mark.parametrize("subject", [SCALE.subject])
def test_cases_and_anomalies_are_stored_once(world: World, subject: str) -> None:
    """Looking twice at a run opens one case with the same anomalies."""
    world.train("run", world.lay_out([REPORT], [SCALE]))
    cases = [open_case(world.store, "run", detect(world.store, "run"), NOW) for _ in range(2)]
    assert cases[0] == cases[1]
    assert len(world.store.knowledge.investigations(run_id="run")) == 1
    assert subject in world.commits


def test_the_fix_keeps_what_came_after_the_fault(world: World, new_runner: NewRunner) -> None:
    """The run has gone on with newer commits; the fix leaves out the cause alone, tried on exactly that code."""
    heads = world.lay_out([ATTENTION, SCALE], [REPORT])
    world.train("run", heads)
    case_id = diagnose(world, new_runner(), "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    code = proposal.payload["code"]
    assert code == {"base": heads[-1], "revert": [world.commits[SCALE.subject]], "pick": []}
    trials = [d for d in world.store.knowledge.diagnostics(case_id) if d.label.startswith("the newest code")]
    assert [world.store.effects.get(d.effect_key).payload["code"] for d in trials] == [code]
    assert "digits" not in proposal.diff


def test_the_second_cause_is_looked_for_once_the_first_case_is_closed(world: World, new_runner: NewRunner) -> None:
    world.train("run", world.lay_out([ATTENTION, SKIP], [REPORT, DEVICES]), dp_sizes=(4, 4, 2))
    runner = new_runner()
    first = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=first)
    world.store.proposals.reject(proposal.id, "Ada", Role.REVIEWER, "later", NOW)
    assert runner.resume(first).status is CaseStatus.CLOSED
    second = diagnose(world, runner, "run")
    assert second != first
    causes = {c for case_id in (first, second) for c in world.store.knowledge.verdicts(case_id)[0].suspect_keys}
    assert causes == {f"commit:{world.commits[edit.subject]}" for edit in (SKIP, DEVICES)}


def test_a_case_keeps_the_anomalies_it_was_opened_with(world: World) -> None:
    """What is found later about the same place does not change a case that is under way."""
    world.train("run", world.lay_out([REPORT], [SCALE]))
    found = detect(world.store, "run")
    case_id = open_case(world.store, "run", found[:1], NOW)
    assert case_id is not None
    before = load_case(world.store, case_id).anomalies
    assert open_case(world.store, "run", found, NOW) == case_id
    assert len(found) > len(before) == 1
    assert load_case(world.store, case_id).anomalies == before


def test_runs_that_scatter_are_replayed_three_times(world: World, new_runner: NewRunner) -> None:
    """Design 5.2: where a replay is not bitwise equal its spread is measured, and the proof names it."""
    world.scatters = True
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner(), "run")
    assert kinds(world.store, case_id).count(DiagnosticKind.REPLAY) == 3
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.PROVEN
    assert "not bitwise equal; 3 replays show" in case.statement


def test_a_fix_that_does_not_hold_is_taken_back(world: World, new_runner: NewRunner) -> None:
    """Design 6: the anomaly must recede in the continuing run, else the change is undone, once, and remembered."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    world.unseen = OUTSIDE  # from now on something outside the code brings the anomaly about as well
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "try it", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    (undo,) = [e for e in world.store.effects.list(investigation_id=case_id) if e.kind is EffectKind.UNDO]
    assert undo.payload == {"effect": f"apply:{proposal.id}"}
    assert world.executed[undo.key] == 1
    assert "does not hold" in world.store.knowledge.investigation(case_id).statement
    failed = [n for n in world.store.negatives.list(investigation_id=case_id) if "does not hold" in n.observed]
    assert len(failed) == 1
    assert "taken back" in [e.text for e in world.store.activity.after(0)][-2]


def test_a_fix_that_moves_a_guard_is_taken_back(world: World, new_runner: NewRunner) -> None:
    """Design 6: the anomaly recedes, but the loss is worse than allowed, so the run goes on as before."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    assert "lm_loss must stay below 1.05 times what it was" in proposal.verification
    world.harms = True
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "try it", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    said = world.store.knowledge.investigation(case_id).statement
    assert "The fix does not hold: 0.0" in said
    assert "lm_loss got worse than allowed" in said
    assert [e.kind for e in world.store.effects.list(investigation_id=case_id)].count(EffectKind.UNDO) == 1


@pytest.mark.parametrize("harms", [True, False])
def test_a_long_plan_is_looked_at_where_its_approval_says(world: World, new_runner: NewRunner, harms: bool) -> None:
    """Design 6: a guard that moves early ends the fix long before its plan does; a good fix goes on to the end."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    assert (proposal.payload["watch_until"], proposal.payload["max_step"]) == (230, None)
    assert "watched over steps 171-230" in proposal.verification
    world.by_parts, world.harms = True, harms
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "try it", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    fixed = world.store.runs.segments("run")[-1]
    done = [effect.kind for effect in world.store.effects.list(investigation_id=case_id)]
    assert (fixed.start_step, fixed.last_step) == (170, 230 if harms else 240)
    assert [done.count(kind) for kind in (EffectKind.STOP_RUN, EffectKind.UNDO)] == ([1, 1] if harms else [0, 0])
    said = world.store.knowledge.investigation(case_id).statement
    assert ("over steps 201-230" in said and "lm_loss got worse than allowed" in said) if harms else "fix holds" in said
    assert set(world.executed.values()) == {1}


def test_a_field_given_at_the_resume_is_mended_by_an_override(world: World, new_runner: NewRunner) -> None:
    """No commit did it, so the fix is no diff: the run goes on with the field as it was before, and that holds."""
    world.given = {"optim.router_lr": 6e-2}
    world.train("run", world.lay_out([REPORT], [README, ATTENTION]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == ("launch:optim.router_lr",)
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    assert (proposal.payload["overrides"], proposal.diff) == ({"optim.router_lr": 1e-3}, "")
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "try it", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    closed = world.store.knowledge.investigation(case_id)
    assert (closed.verdict, closed.cause_kind) == (Verdict.PROVEN, CauseKind.CONFIG)
    assert "The fix holds" in closed.statement
    fixed = world.store.runs.segments("run")[-1]
    assert world.store.runs.declared("run", fixed.number)["optim.router_lr"] == 1e-3


def test_changes_that_were_asked_for_are_remembered_with_their_reason(world: World, new_runner: NewRunner) -> None:
    """Shows R801-2.13: sent back is stored like declined."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    runner = new_runner()
    case_id = diagnose(world, runner, "run")
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    world.store.proposals.ask_changes(proposal.id, "Ada", Role.REVIEWER, "keep the scale of layer 1", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    (asked,) = [n for n in world.store.negatives.list(investigation_id=case_id) if n.reason_class == "changes_asked"]
    assert (asked.actor, asked.reason) == ("Ada", "sent back for changes by Ada: keep the scale of layer 1")


def test_a_loop_that_only_observes_cannot_tell_and_says_why(world: World, new_runner: NewRunner) -> None:
    """Shows RM2-7.9: no diagnostics, so no proof and no proposal."""
    world.store.policies.set_autonomy("debug", AutonomyLevel.OBSERVE, "root", Role.ADMIN, "look only", NOW)
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner(), "run")
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.CANNOT_TELL
    assert "may only observe" in case.statement
    assert world.executed == {}


def test_a_way_of_resuming_that_did_not_matter_is_struck_out(world: World, new_runner: NewRunner) -> None:
    """Undoing the other number of ranks left the anomaly in place, so the suspects say so."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]), dp_sizes=(4, 4, 2))
    case_id = diagnose(world, new_runner(), "run")
    (ranks,) = [s for s in world.store.knowledge.suspects(case_id) if "dp_size" in s.title]
    assert ranks.status is Verdict.REFUTED
    assert "the anomaly stays without it" in ranks.reason
