"""What a case leaves behind: every exclusion with its reason, the change that did harm, and answers of people."""

from __future__ import annotations

from collections.abc import Sequence

from context_store import Store
from context_store.records import Diagnostic, EffectSize, NegativeResult, Proposal, VerdictRecord
from contracts.enums import CauseKind, ProposalState, Verdict
from contracts.evidence import EvidenceRef
from loops.debug.case import Case
from loops.debug.circumstances import Circumstances, circumstances
from loops.debug.effect_size import effect_in, proven_effect, whole
from loops.debug.experiments import payload_of
from loops.debug.facts import Decision, Facts, Identity, Seen
from loops.debug.places import stays, swap_of
from loops.debug.planner import refuted
from loops.debug.ranking import Ranked
from loops.debug.readout import control_of, seen_of
from loops.debug.small import seen_in_small
from loops.debug.suspects import Factor

ACTOR = "loop:debug"
EXCLUDED = "excluded_by_rerun"


def store_exclusions(
    store: Store, case: Case, facts: Facts, decision: Decision, diagnostics: Sequence[Diagnostic]
) -> dict[str, str]:
    """A negative result for each suspect that re-runs ruled out; returns the reasons by suspect key."""
    excluded, control = refuted(facts, decision), control_of(diagnostics)
    reasons: dict[str, str] = {}
    for ranked in case.ranked:
        key = ranked.factor.key
        if key in decision.cause:
            continue
        if key in excluded:
            run_id, reasons[key] = _revert_of(case, facts, key, diagnostics)
        elif facts.seat and key == facts.seat.key and stays(facts):
            run_id = str(payload_of(case, swap_of(facts, facts.seat).identity)["run_id"])
            reasons[key] = f"{stays(facts)} ({run_id})"
        elif decision.cause_kind is CauseKind.HARDWARE and ranked.factor.is_new:
            run_id = str(payload_of(case, Identity(on=facts.control))["run_id"])
            reasons[key] = f"the last good code, without it, shows the anomaly as well ({run_id})"
        elif control is not None and not ranked.factor.testable and _had(store, control.run_id, ranked.factor):
            run_id = control.run_id
            reasons[key] = f"the control {run_id} had it too, from the same checkpoint, and shows no anomaly"
        else:
            continue
        effect = effect_in(store, case, run_id, diagnostics) if control is None or run_id != control.run_id else None
        store.negatives.add(_exclusion(store, case, ranked, reasons[key], run_id, effect))
    return reasons


def outcomes(case: Case, facts: Facts, diagnostics: Sequence[Diagnostic]) -> dict[str, str]:
    """What the re-run without each suspect showed, for all that were left out alone, by suspect key."""
    by_run = {diagnostic.run_id: diagnostic for diagnostic in diagnostics if diagnostic.reading}
    found = {}
    is_beyond = facts.at(facts.control) is Seen.PRESENT
    for option in facts.ranked:
        diagnostic = by_run.get(str(payload_of(case, facts.leaving_out(option.key))["run_id"]))
        if diagnostic is not None:
            found[option.key] = _outcome(diagnostic)
        elif is_beyond and option.is_new and not option.circumstance:
            found[option.key] = "not needed: the last good code, without it, shows the anomaly as well"
        elif option.key in facts.inert:
            found[option.key] = "cannot act: only prose was changed (static check)"
        elif (shown := seen_in_small(facts, option.key)) is not None:
            found[option.key] = f"in a smaller training without it the anomaly is {shown}: a pointer, no proof"
    return found


def _outcome(diagnostic: Diagnostic) -> str:
    if diagnostic.measure is None:
        return f"could not be left out alone: {diagnostic.reading}"
    text = {
        Seen.PRESENT: "not necessary by itself: the anomaly stays without it",
        Seen.PARTIAL: "contributes: without it part of the anomaly stays",
        Seen.ABSENT: "necessary: without it the anomaly is gone",
    }[seen_of(diagnostic.measure)]
    return f"{text} (measure {diagnostic.measure:.2f} in {diagnostic.run_id})"


def _revert_of(case: Case, facts: Facts, key: str, diagnostics: Sequence[Diagnostic]) -> tuple[str, str]:
    """(run id, sentence) of the re-run of everything but `key`, which has been read."""
    run_id = str(payload_of(case, facts.leaving_out(key))["run_id"])
    measure = next(d.measure for d in diagnostics if d.run_id == run_id)
    return run_id, f"the anomaly stays without it (measure {measure:.2f} in {run_id})"


def _had(store: Store, run_id: str, factor: Factor) -> bool:
    """Whether a re-run ran under what cannot be switched off: its environment or configuration says the same.

    The resume itself has no fields: every re-run starts from the same checkpoint.
    """
    segments = store.runs.segments(run_id)
    if not segments or factor.step is not None:
        return False
    is_environment = factor.cause_kind is CauseKind.ENVIRONMENT
    known = segments[0].environment if is_environment else store.runs.declared(run_id, segments[0].number)
    return all(known.get(change.key) == change.after for change in factor.fields)


def store_harm(store: Store, case: Case, facts: Facts, verdict: VerdictRecord) -> None:
    """The proven change is itself something that was tried and failed; or that nothing could be isolated."""
    proven = verdict.verdict is Verdict.PROVEN
    names = " and ".join(facts.title(key) for key in verdict.suspect_keys)
    where = circumstances(store, case, verdict.suspect_keys)
    commits = [key.removeprefix("commit:") for key in verdict.suspect_keys if key.startswith("commit:")]
    store.negatives.add(
        NegativeResult(
            claim=f"{names} is harmless" if proven else f"the cause of '{case.leading.statement}' can be isolated",
            intervention=_came(names, verdict) if proven else f"{verdict.num_reruns} re-runs",
            context={**where.context, **({"commit": commits[0]} if commits else {})},
            scale=where.scale,
            data=where.data,
            code_version=where.code_version,
            expected="no unhealthy change of any statistic" if proven else "one change whose removal cures",
            observed=case.leading.statement,
            reason_class="caused_anomaly" if proven else "not_isolated",
            reason=verdict.statement,
            evidence=verdict.evidence,
            reopen_if=verdict.would_overturn,
            investigation_id=case.investigation.id,
            actor=ACTOR,
            observed_effect=proven_effect(case, verdict),
        )
    )


def _came(names: str, verdict: VerdictRecord) -> str:
    is_place = all(key.startswith("place:") for key in verdict.suspect_keys)
    return "the training ran there" if is_place else f"{names} came into force"


def store_declined(store: Store, case: Case, proposal: Proposal) -> str:
    """A fix that a person declined or wanted otherwise, or that nobody decided in time; returns the sentence.

    It was not carried out, so what the proof measured is the effect that was expected of it.
    """
    asked = proposal.state is ProposalState.CHANGES_ASKED
    done = "sent back for changes" if asked else "declined"
    by = f"{done} by {proposal.decided_by}" if proposal.decided_by else "not decided in time"
    reason = f"{by}: {proposal.comment}" if proposal.comment else by
    where, expected = _of_the_proof(store, case)
    store.negatives.add(
        NegativeResult(
            claim=f"the run should {proposal.title}",
            intervention=f"proposal {proposal.id}",
            context=where.context,
            scale=where.scale,
            data=where.data,
            code_version=where.code_version,
            expected=proposal.verification,
            observed="it was not carried out",
            reason_class="changes_asked" if asked else "declined",
            reason=reason,
            evidence=(EvidenceRef(kind="proposal", id=proposal.id),),
            reopen_if="somebody proposes it again with what the reason asks for",
            investigation_id=case.investigation.id,
            actor=proposal.decided_by or ACTOR,
            expected_effect=expected,
        )
    )
    return f"the fix was {reason}"


def store_failed_fix(store: Store, case: Case, proposal: Proposal, observed: str) -> None:
    """A fix that was approved and did not hold."""
    where, expected = _of_the_proof(store, case)
    store.negatives.add(
        NegativeResult(
            claim=f"{proposal.title} mends the continuing run",
            intervention=f"proposal {proposal.id}",
            context=where.context,
            scale=where.scale,
            data=where.data,
            code_version=where.code_version,
            expected=proposal.verification,
            observed=observed,
            reason_class="fix_did_not_hold",
            reason=observed,
            evidence=(EvidenceRef(kind="proposal", id=proposal.id), EvidenceRef(kind="run", id=case.run_id)),
            reopen_if="the verification is repeated over more steps and comes out otherwise",
            investigation_id=case.investigation.id,
            actor=ACTOR,
            expected_effect=expected,
        )
    )


def _of_the_proof(store: Store, case: Case) -> tuple[Circumstances, EffectSize | None]:
    """Circumstances and effect of the cause that a fix was proposed for; only the former where nothing was proven."""
    proven = next((v for v in store.knowledge.verdicts(case.investigation.id) if v.verdict is Verdict.PROVEN), None)
    return circumstances(store, case, proven.suspect_keys if proven else ()), proven_effect(case, proven)


def _exclusion(
    store: Store, case: Case, ranked: Ranked, reason: str, run_id: str, effect: EffectSize | None
) -> NegativeResult:
    factor = ranked.factor
    where = circumstances(store, case, (factor.key,))
    commit = {"commit": factor.commit.hash} if factor.commit else {}
    return NegativeResult(
        claim=f"{factor.title} causes: {case.leading.statement}",
        intervention=f"re-run without {factor.title}" if factor.testable else f"control with {factor.title}",
        context={**where.context, **commit, "suspect": factor.key},
        scale=where.scale,
        data=where.data,
        code_version=where.code_version,
        expected="the anomaly recedes" if factor.testable else "the control shows the anomaly",
        observed=reason,
        reason_class=EXCLUDED,
        reason=reason,
        evidence=(EvidenceRef(kind="run", id=run_id),),
        reopen_if="other code, config or data in which this change acts differently",
        investigation_id=case.investigation.id,
        actor=ACTOR,
        expected_effect=whole(case) if effect else None,
        observed_effect=effect,
    )
