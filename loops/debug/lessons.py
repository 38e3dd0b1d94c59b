"""What a case leaves behind: every exclusion with its reason, the change that did harm, and answers of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from context_store import Store
from context_store.records import Diagnostic, NegativeResult, Proposal, VerdictRecord
from contracts.enums import Verdict
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from loops.debug.case import Case
from loops.debug.planner import Decision, Facts, refuted
from loops.debug.ranking import Ranked
from loops.debug.readout import control_of

ACTOR = "loop:debug"
EXCLUDED = "excluded_by_rerun"


def store_exclusions(
    store: Store, case: Case, facts: Facts, decision: Decision, diagnostics: Sequence[Diagnostic]
) -> dict[str, str]:
    """A negative result for each suspect that re-runs ruled out; returns the reasons by suspect key."""
    by_suspect = {d.suspect_keys[0]: d for d in diagnostics if len(d.suspect_keys) == 1 and d.measure is not None}
    reasons: dict[str, str] = {}
    for ranked in case.ranked:
        key = ranked.factor.key
        if key in decision.cause:
            continue
        evidence: tuple[EvidenceRef, ...]
        if key in refuted(facts) and key in by_suspect:
            diagnostic = by_suspect[key]
            evidence = (EvidenceRef(kind="run", id=diagnostic.run_id),)
            reasons[key] = f"the anomaly stays without it (measure {diagnostic.measure:.2f} in {diagnostic.run_id})"
        elif (control := control_of(diagnostics)) is not None and not ranked.factor.testable:
            evidence = (EvidenceRef(kind="run", id=control.run_id),)
            reasons[key] = f"the control {control.run_id} had it too, from the same checkpoint, and shows no anomaly"
        else:
            continue
        store.negatives.add(_exclusion(case, ranked, reasons[key], evidence))
    return reasons


def store_harm(store: Store, case: Case, facts: Facts, verdict: VerdictRecord) -> None:
    """The proven change is itself something that was tried and failed; or that nothing could be isolated."""
    proven = verdict.verdict is Verdict.PROVEN
    names = " and ".join(facts.title(key) for key in verdict.suspect_keys)
    commits = [key.removeprefix("commit:") for key in verdict.suspect_keys]
    store.negatives.add(
        NegativeResult(
            claim=f"{names} is harmless" if proven else f"the cause of '{case.leading.statement}' can be isolated",
            intervention=f"{names} came into force" if proven else f"{verdict.num_reruns} re-runs",
            context={**context_of(case), **({"commit": commits[0]} if proven else {})},
            expected="no unhealthy change of any statistic" if proven else "one change whose removal cures",
            observed=case.leading.statement,
            reason_class="caused_anomaly" if proven else "not_isolated",
            reason=verdict.statement,
            evidence=verdict.evidence,
            reopen_if=verdict.would_overturn,
            investigation_id=case.investigation.id,
            actor=ACTOR,
        )
    )


def store_declined(store: Store, case: Case, proposal: Proposal) -> str:
    """A fix that a person declined, or that nobody decided in time; returns the sentence."""
    by = f"declined by {proposal.decided_by}" if proposal.decided_by else "not decided in time"
    reason = f"{by}: {proposal.comment}" if proposal.comment else by
    store.negatives.add(
        NegativeResult(
            claim=f"the run should {proposal.title}",
            intervention=f"proposal {proposal.id}",
            context=context_of(case),
            expected=proposal.verification,
            observed="it was not carried out",
            reason_class="declined",
            reason=reason,
            evidence=(EvidenceRef(kind="proposal", id=proposal.id),),
            reopen_if="somebody proposes it again with what the reason asks for",
            investigation_id=case.investigation.id,
            actor=proposal.decided_by or ACTOR,
        )
    )
    return f"the fix was {reason}"


def store_failed_fix(store: Store, case: Case, proposal: Proposal, observed: str) -> None:
    """A fix that was approved and did not hold."""
    store.negatives.add(
        NegativeResult(
            claim=f"{proposal.title} mends the continuing run",
            intervention=f"proposal {proposal.id}",
            context=context_of(case),
            expected=proposal.verification,
            observed=observed,
            reason_class="fix_did_not_hold",
            reason=observed,
            evidence=(EvidenceRef(kind="proposal", id=proposal.id), EvidenceRef(kind="run", id=case.run_id)),
            reopen_if="the verification is repeated over more steps and comes out otherwise",
            investigation_id=case.investigation.id,
            actor=ACTOR,
        )
    )


def context_of(case: Case) -> Mapping[str, Scalar]:
    """In which run, at which step and code, for which kind of anomaly."""
    scene = case.scene
    return {
        "run": case.run_id,
        "anomaly_kind": case.leading.kind,
        "series": case.leading.series[0] if case.leading.series else "",
        "onset": case.leading.onset[0],
        "code_version": scene.faulty if scene else "",
    }


def _exclusion(case: Case, ranked: Ranked, reason: str, evidence: tuple[EvidenceRef, ...]) -> NegativeResult:
    factor = ranked.factor
    commit = {"commit": factor.commit.hash} if factor.commit else {}
    return NegativeResult(
        claim=f"{factor.title} causes: {case.leading.statement}",
        intervention=f"re-run without {factor.title}" if factor.testable else f"control with {factor.title}",
        context={**context_of(case), **commit, "suspect": factor.key},
        expected="the anomaly recedes" if factor.testable else "the control shows the anomaly",
        observed=reason,
        reason_class=EXCLUDED,
        reason=reason,
        evidence=evidence,
        reopen_if="other code, config or data in which this change acts differently",
        investigation_id=case.investigation.id,
        actor=ACTOR,
    )
