"""The debug loop: from an internal metric to the proven cause and a fixed, continuing run (R801-3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from agents.roles import Colleague, withheld
from context_store import Store
from context_store.records import Diagnostic, Effect, Suspect, VerdictRecord
from contracts.enums import CauseKind, DiagnosticKind, EffectState, SignalStrength, Verdict
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef
from loops.core import Applied, Charter, Conclusion, Link, LoopClass, Planned, Question, Request, Update, Verified
from loops.debug.case import Case, load_case
from loops.debug.executed import is_inert
from loops.debug.experiments import commits_in_order, cost_s, payload_of, request_of
from loops.debug.facts import Decision, Experiment, Facts, Identity, Option, Seen, confounded_with
from loops.debug.guidance import arranged, in_force, take_up
from loops.debug.lessons import outcomes, store_declined, store_exclusions, store_failed_fix, store_harm
from loops.debug.nature import nature_of, store_nature
from loops.debug.planner import next_step, why_next
from loops.debug.proposal import fix_trial, propose_fix
from loops.debug.ranking import Ranked
from loops.debug.readout import (
    Measured,
    control_of,
    exactness,
    lookup,
    read_rerun,
    read_small,
    read_swap,
    seen_of,
    why_impossible,
)
from loops.debug.report import write_report
from loops.debug.small import is_dear, smaller
from loops.debug.substance import Substance
from loops.debug.verdict import cause_kind_of, told_from_measurement, verdicts_of
from loops.debug.verification import judge_fix

# The innocent change to leave out: best one that does change numbers, so that it measures how far noise carries,
# but not the data, since then the steps are no longer pairs.
_PLACEBO_ORDER = (
    Substance.SMALL_NUMBER,
    Substance.RENAME,
    Substance.LOGGING,
    Substance.COMMENT,
    Substance.LOGIC,
    Substance.DOCUMENTATION,
    Substance.LARGE_NUMBER,
)

_WORDS = {Seen.PRESENT: "there", Seen.PARTIAL: "there in part", Seen.ABSENT: "gone"}
_NO_RERUN = "nothing here can be run again: the run has no code version or no series to measure"


@dataclass(frozen=True, kw_only=True)
class DebugOptions:
    """`fresh_seeds`: also compare faulty and good code from random weights with these seeds (five or more).

    `colleague`: suggests an order and looks for objections; None: by rules.
    """

    fresh_seeds: tuple[int, ...] = ()
    colleague: Colleague | None = None


class DebugLoop:
    """Propose a suspect, execute cheap re-runs, measure whether the anomaly is gone, write down what is excluded."""

    name = "debug"
    charter = Charter(
        loop_class=LoopClass.DEBUG,
        broken_links=(Link.EXECUTE,),
        why_broken="a full training cannot be repeated to test one suspected change",
        closes_at="short re-runs from the run's own checkpoint before the onset, then the continuing run itself",
        signal=SignalStrength.PAIRED_RERUN,
    )

    def __init__(self, store: Store, options: DebugOptions | None = None) -> None:
        self._store = store
        self._options = options or DebugOptions()
        self._colleague = self._options.colleague or Colleague(store)
        self._cases: dict[str, Case] = {}  # read once: scene and ranking of a case do not change
        self._exact: dict[str, bool] = {}  # by replay

    def recall(self, case_id: str) -> Question:
        """Earlier exclusions that share words with the anomaly or its suspects."""
        case = self._case(case_id)
        words = [case.leading.kind, case.leading.statement, *case.leading.series[:4]]
        words += [ranked.factor.title for ranked in case.ranked[:6]]
        return Question(text=" ".join(words), project_id=case.project_id)

    def propose(self, case_id: str) -> Planned | Conclusion:
        """The planner's next batch of re-runs; suspects and diagnostics are stored as planned."""
        case = self._case(case_id)
        if not _can_rerun(case):
            return Conclusion(reason=_why_no_rerun(case))
        self._store_suspects(case)
        self._colleague.suggest_order(case_id)
        take_up(self._store, case_id)
        facts = self._facts(case)
        step = next_step(facts)
        if isinstance(step, Decision):
            trial = fix_trial(self._store, case, facts, step)
            if trial is None or self._is_planned(case, request_of(case, trial.identity, trial.base)):
                return Conclusion(reason=step.reason)
            step = (trial,)
        requests = tuple(request_of(case, experiment.identity, experiment.base) for experiment in step)
        for experiment, request in zip(step, requests, strict=True):
            self._store_diagnostic(case, experiment, request.effect.key, str(request.effect.payload["run_id"]))
        labels = "; ".join(f"{experiment.kind}: {experiment.label}" for experiment in step)
        cost = sum(request.cost.cpu_s for request in requests)
        why = why_next(facts, step, requests[0].cost.cpu_s)
        is_first = not any(d.reading for d in self._store.knowledge.diagnostics(case_id))
        free = [
            f"recomputed from the log, which costs nothing: {each.sentence}" for each in case.recomputed if is_first
        ]
        said = (*free, f"re-run {labels} (at most {cost:.0f} CPU s)", why)
        return Planned(requests=requests, reason="; ".join(filter(None, said)))

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        """Read each finished re-run, controls first, since the others are measured against them."""
        case = self._case(case_id)
        by_key = {effect.key: effect for effect in effects}
        pending = [d for d in self._store.knowledge.diagnostics(case_id) if d.effect_key in by_key]
        ordered = sorted(pending, key=lambda d: d.kind is not DiagnosticKind.CONTROL)
        sentences = []
        for diagnostic in ordered:
            read = self._read(case, diagnostic, by_key[diagnostic.effect_key])
            self._store.knowledge.put_diagnostic(read)
            sentences.append(f"{read.label}: {read.reading}")
        return "; ".join(sentences)

    def update(self, case_id: str, stopped: str) -> Update:
        """Verdict, exclusions with reasons, the lesson, the report, and the fix when the cause is proven."""
        case = self._case(case_id)
        facts = self._facts(case)
        decision = told_from_measurement(self._store, case, facts, self._decision(case, facts, stopped))
        candidates = [withheld(self._store, v) for v in verdicts_of(self._store, case, facts, decision)]
        verdicts = [self._store.knowledge.put_verdict(each) for each in candidates]
        verdict = verdicts[0]
        if verdict.verdict is not Verdict.PROVEN:
            if nature := nature_of(case.anomalies):
                store_nature(self._store, case_id, nature, case.investigation.opened_at)
            decision = Decision(verdict=verdict.verdict, reason=decision.reason, baseline=decision.baseline)
        diagnostics = self._store.knowledge.diagnostics(case_id)
        reasons = store_exclusions(self._store, case, facts, decision, diagnostics)
        store_harm(self._store, case, facts, verdict)
        self._store_suspects(case, decision, reasons, outcomes(case, facts, diagnostics))
        self._close_with(case, verdict, cause_kind_of(decision, verdict))
        proposal = None
        if verdict.verdict is Verdict.PROVEN:
            proposal = propose_fix(self._store, case, facts, decision, verdict)
        self._put_report(case)
        return Update(
            statement=f"{verdict.verdict} ({verdict.scope}): {verdict.statement}",
            evidence=verdict.evidence,
            proposal_id=proposal.id if proposal else None,
        )

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """Whether the fix holds in the continuing run; a declined or failed one becomes a negative result."""
        case = self._case(case_id)
        if applied.effect is not None and applied.effect.state is EffectState.RUNNING:
            looked = judge_fix(self._store, case, applied.effect)
            return Verified(sentence=looked.sentence, undo=looked.held is False)
        sentence, held = self._outcome(case, applied)
        statement = self._store.knowledge.verdicts(case_id)[0].statement
        self._store.knowledge.set_investigation(case_id, statement=f"{statement} {sentence[:1].upper()}{sentence[1:]}.")
        self._put_report(case)
        return Verified(sentence=sentence, undo=held is False)

    def _put_report(self, case: Case) -> None:
        case_id = case.investigation.id
        text = write_report(self._store, case) + self._colleague.review(case_id)
        self._store.knowledge.put_report(case_id, text)

    def _case(self, case_id: str) -> Case:
        if case_id not in self._cases:
            self._cases[case_id] = load_case(self._store, case_id)
        return self._cases[case_id]

    def _is_planned(self, case: Case, request: Request) -> bool:
        known = self._store.knowledge.diagnostics(case.investigation.id)
        return any(d.effect_key == request.effect.key and d.reading for d in known)

    # --- parts of the steps -------------------------------------------------------------------------------------

    def _facts(self, case: Case) -> Facts:
        if case.scene is None:
            return Facts(ranked=(), chronological=(), placebos=(), seen=lambda _: None)
        weights = {ranked.factor.key: ranked.score for ranked in case.ranked}
        testable = [ranked.factor for ranked in case.ranked if ranked.factor.testable]
        commits = [factor.key for factor in commits_in_order(case.scene)]
        launches = [factor.key for factor in testable if factor.commit is None and not factor.circumstance]
        quiet = sorted(
            (factor for factor in reversed(testable) if factor.commit is not None),
            key=lambda factor: (factor.cause_kind is CauseKind.DATA, _PLACEBO_ORDER.index(factor.substance)),
        )
        diagnostics = self._store.knowledge.diagnostics(case.investigation.id)
        facts = Facts(
            ranked=tuple(
                Option(
                    key=factor.key,
                    title=factor.title,
                    cause_kind=factor.cause_kind,
                    is_new=factor.is_new,
                    circumstance=factor.circumstance,
                    weight=weights[factor.key],
                )
                for factor in testable
            ),
            chronological=(*commits, *launches),
            placebos=tuple(factor.key for factor in quiet),
            seen=lookup(case, diagnostics),
            exact=self._is_exact(case, diagnostics),
            inert=frozenset(factor.key for factor in testable if is_inert(factor)),
            fresh_seeds=self._options.fresh_seeds,
            seat=case.seat,
            is_dear=self._is_dear(case),
            confounded=_confounded(case),
        )
        return arranged(facts, in_force(self._store, case.investigation.id))

    def _is_dear(self, case: Case) -> bool:
        """By the budget that the case was opened with: what was spent since changes no plan."""
        assert case.scene is not None
        whole, small = (Identity(on=frozenset(), small=each) for each in (False, True))
        if not smaller(case.scene.segment.declared):
            return False
        try:
            budget_s = self._store.budgets.state(case.investigation.id).cpu_s
        except NotFound:
            return False
        return is_dear(cost_s(case, whole), cost_s(case, small), budget_s)

    def _is_exact(self, case: Case, diagnostics: Sequence[Diagnostic]) -> bool | None:
        """None while there is no replay that could be measured."""
        replay = next((d for d in diagnostics if d.kind is DiagnosticKind.REPLAY and d.measure is not None), None)
        if replay is None:
            return None
        if replay.run_id not in self._exact:
            self._exact[replay.run_id] = exactness(self._store, case, replay.run_id).is_exact
        return self._exact[replay.run_id]

    def _decision(self, case: Case, facts: Facts, stopped: str) -> Decision:
        if not _can_rerun(case):
            return Decision(verdict=Verdict.CANNOT_TELL, reason=_why_no_rerun(case))
        step = next_step(replace(facts, fresh_seeds=()) if stopped else facts)  # a proof stands without its seeds
        if isinstance(step, Decision):
            return step
        reason = f"{stopped or 'it was stopped'} before the suspects were told apart"
        return Decision(verdict=Verdict.CANNOT_TELL, reason=reason)

    def _store_suspects(
        self,
        case: Case,
        decision: Decision | None = None,
        reasons: Mapping[str, str] = MappingProxyType({}),
        notes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`reasons`: why a suspect is excluded; `notes`: what is said of the others."""
        for rank, ranked in enumerate(case.ranked, start=1):
            key = ranked.factor.key
            status, outcome = None, notes.get(key, "")
            if decision is not None and key in decision.cause:
                status, outcome = Verdict.PROVEN, decision.reason
            elif key in reasons:
                status, outcome = Verdict.REFUTED, reasons[key]
            self._store.knowledge.put_suspect(_suspect(case, ranked, rank, status, outcome))

    def _store_diagnostic(self, case: Case, experiment: Experiment, effect_key: str, run_id: str) -> None:
        """Unless it is known: a plan that is asked for again must not wipe out a reading."""
        case_id = case.investigation.id
        if any(d.run_id == run_id for d in self._store.knowledge.diagnostics(case_id)):
            return
        self._store.knowledge.put_diagnostic(
            Diagnostic(
                investigation_id=case_id,
                key=run_id,
                kind=experiment.kind,
                label=experiment.label,
                suspect_keys=experiment.suspects,
                run_id=run_id,
                effect_key=effect_key,
            )
        )

    def _read(self, case: Case, diagnostic: Diagnostic, effect: Effect) -> Diagnostic:
        """The diagnostic with its measure and one sentence. Without a measure it was impossible, or read in pairs."""
        if effect.state is EffectState.DONE and diagnostic.kind is DiagnosticKind.FRESH_SEED:
            return _with_reading(diagnostic, None, "read in pairs, see the verdict on fresh seeds")
        if effect.state is EffectState.DONE and diagnostic.kind is DiagnosticKind.SWAP and case.seat:
            return _swap_read(diagnostic, read_swap(self._store, case, diagnostic.run_id, case.seat), effect, case)
        if effect.state is EffectState.DONE and diagnostic.kind is DiagnosticKind.PROXY:
            return self._small_read(case, diagnostic, effect)
        control = control_of(self._store.knowledge.diagnostics(case.investigation.id))
        against = None if diagnostic.kind is DiagnosticKind.CONTROL else control
        measured = read_rerun(self._store, case, diagnostic, against) if effect.state is EffectState.DONE else None
        if measured is None:
            return _with_reading(diagnostic, None, why_impossible(effect, case))
        text = f"the anomaly is {_WORDS[seen_of(measured.mean)]} (measure {measured.mean:.2f})"
        if diagnostic.kind is DiagnosticKind.REPLAY:
            exact = exactness(self._store, case, diagnostic.run_id)
            first = ", ".join(exact.differing[:3])
            equal = f"bitwise equal in {exact.num_series} series" if exact.is_exact else f"not bitwise equal ({first})"
            text = f"{text}; {equal} over {exact.num_steps} steps"
        return _with_reading(diagnostic, measured.mean, text)

    def _small_read(self, case: Case, diagnostic: Diagnostic, effect: Effect) -> Diagnostic:
        control = payload_of(case, Identity(on=self._facts(case).control, small=True))
        measured = read_small(self._store, case, diagnostic.run_id, str(control["run_id"]))
        if measured is None:
            return _with_reading(diagnostic, None, why_impossible(effect, case))
        text = f"in small the anomaly is {_WORDS[seen_of(measured.mean)]} (measure {measured.mean:.2f})"
        return _with_reading(diagnostic, measured.mean, text)

    def _close_with(self, case: Case, verdict: VerdictRecord, kind: CauseKind) -> None:
        self._store.knowledge.set_investigation(
            case.investigation.id,
            verdict=verdict.verdict,
            scope=verdict.scope,
            statement=verdict.statement,
            cause_kind=kind,
        )

    def _outcome(self, case: Case, applied: Applied) -> tuple[str, bool | None]:
        """One sentence, and whether the fix held; None when that cannot be said."""
        effect, proposal = applied.effect, applied.proposal
        if effect is None:
            return store_declined(self._store, case, proposal), None
        if effect.state is not EffectState.DONE:
            sentence = f"the fix could not be applied: {effect.message}"
            store_failed_fix(self._store, case, proposal, sentence)
            return sentence, None
        checked = judge_fix(self._store, case, effect)
        if checked.held is False:
            store_failed_fix(self._store, case, proposal, checked.sentence)
        return checked.sentence, checked.held


def _can_rerun(case: Case) -> bool:
    return case.scene is not None and bool(case.scene.faulty) and bool(case.probe.series)


def _confounded(case: Case) -> tuple[str, ...]:
    """What was new as well, places of ranks apart, and nothing here can switch off."""
    new = (ranked.factor for ranked in case.ranked if ranked.factor.is_new and not ranked.factor.testable)
    return tuple(factor.title for factor in new if factor.rank is None)


def _why_no_rerun(case: Case) -> str:
    """With all that was new when it began: without a re-run nothing tells these apart."""
    new = [ranked.factor.title for ranked in case.ranked if ranked.factor.is_new]
    return "; ".join(filter(None, (_NO_RERUN, confounded_with(new))))


def _suspect(case: Case, ranked: Ranked, rank: int, status: Verdict | None, outcome: str) -> Suspect:
    evidence: tuple[EvidenceRef, ...] = ranked.evidence
    return Suspect(
        investigation_id=case.investigation.id,
        key=ranked.factor.key,
        cause_kind=ranked.factor.cause_kind,
        title=ranked.factor.title,
        commits=ranked.factor.commits,
        evidence=evidence,
        score=round(ranked.score, 6),
        rank=rank,
        status=status,
        reason=f"{ranked.reason} | {outcome}" if outcome else ranked.reason,
    )


def _swap_read(diagnostic: Diagnostic, measured: Measured | None, effect: Effect, case: Case) -> Diagnostic:
    if measured is None:
        return _with_reading(diagnostic, None, why_impossible(effect, case))
    went = {Seen.PRESENT: "stays with the rank", Seen.ABSENT: "goes with the place"}
    text = went.get(seen_of(measured.mean), "neither stays with the rank nor goes with the place")
    return _with_reading(diagnostic, measured.mean, f"the anomaly {text} ({measured.mean:.2f} of it stays)")


def _with_reading(diagnostic: Diagnostic, measure: float | None, reading: str) -> Diagnostic:
    return Diagnostic(
        investigation_id=diagnostic.investigation_id,
        key=diagnostic.key,
        kind=diagnostic.kind,
        label=diagnostic.label,
        suspect_keys=diagnostic.suspect_keys,
        run_id=diagnostic.run_id,
        effect_key=diagnostic.effect_key,
        measure=measure,
        reading=reading,
    )
