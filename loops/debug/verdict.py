"""From the planner's decision to a verdict that may be shown: with scope, n, effect, interval, and what would
overturn it. Whatever a proof lacks turns `proven` into `cannot_tell`, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from context_store import Store
from context_store.records import Diagnostic, VerdictRecord
from contracts.enums import CauseKind, DiagnosticKind, Scope, Verdict
from contracts.evidence import EvidenceRef
from loops.debug.case import Case
from loops.debug.executed import files_differ, inputs_differ, is_imported, ran_lines
from loops.debug.experiments import commits_in_order, payload_of
from loops.debug.facts import Decision, Facts, Identity, On
from loops.debug.nature import in_words, nature_of
from loops.debug.places import placebo_of, swap_of
from loops.debug.readout import (
    ABSENT_BELOW,
    WALL_CLOCK,
    Exactness,
    Measured,
    control_of,
    exactness,
    learned_alike,
    read_pairs,
    read_rerun,
    read_swap,
)
from loops.statistics.paired import block_bootstrap, sign_test_p, t_interval

_NOISE_FACTOR = 2.0  # the recession must exceed the noise by this much
_MIN_REPLAYS = 3  # that show the spread, when they are not bitwise equal
_OVERTURNS_CHANGE = (
    "a re-run of the same code from the same checkpoint without the anomaly, one with the change left out that still "
    "shows it, or an innocent change whose removal cures as well"
)
_OVERTURNS_PLACE = (
    "an exchange after which the rank still shows it, one after which whoever is in its place does not, or a re-run on "
    "other machines that shows it as well"
)
_MIN_PAIRS = 5  # a claim beyond this run needs as many seed pairs (three agreeing pairs are p = 0.125)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The numbers a verdict rests on. `noise`: how far replays and placebo lie from 1. `effect`: how much the revert
    takes away of the anomaly (1 = all of it), with a 95 % interval over the steps of this run."""

    exact: Exactness
    replays: tuple[float, ...]  # measure of each
    noise: float
    effect: float
    interval: tuple[float, float]
    lacks: tuple[str, ...]  # what is missing for a proof, one sentence each


def verdicts_of(store: Store, case: Case, facts: Facts, decision: Decision) -> list[VerdictRecord]:
    """The verdict on this run, and one on fresh seeds, apart, when pairs were run."""
    runs = _Runs(store, case)
    if decision.verdict is not Verdict.PROVEN:
        return [_cannot_tell(case, runs, decision.reason, None)]
    if decision.cause_kind is CauseKind.HARDWARE:
        proof = _place_proof(store, case, runs, facts)
    else:
        proof = _proof(store, case, runs, facts, decision)
    if proof.lacks:
        return [_cannot_tell(case, runs, f"{decision.reason}; but {' and '.join(proof.lacks)}", proof)]
    found = [_proven(case, runs, facts, decision, proof)]
    fresh = _fresh_verdict(store, case, runs, facts, decision)
    return found if fresh is None else [*found, fresh]


def told_from_measurement(store: Store, case: Case, facts: Facts, decision: Decision) -> Decision:
    """The decision, which blames the measurement alone where the run learns the same with its cause and without it.

    Gradients, weights and data have to be bitwise equal in the two re-runs; nothing is said of what only times show.
    """
    is_other = decision.verdict is not Verdict.PROVEN or decision.cause_kind is CauseKind.HARDWARE
    if is_other or case.probe.series[0].startswith(WALL_CLOCK):
        return decision
    kept, left_out = Identity(on=facts.everything), facts.leaving_out(decision.cause[0])
    runs = [str(payload_of(case, each)["run_id"]) for each in (kept, left_out)]
    alike = learned_alike(store, case, runs[0], runs[1])
    if not alike.num_series or not alike.is_exact:
        return decision
    reason = (
        f"{decision.reason}; gradients, weights and data are bitwise the same with it and without it "
        f"({alike.num_series} series over {alike.num_steps} steps): only what is written changed"
    )
    return replace(decision, cause_kind=CauseKind.MEASUREMENT, reason=reason)


def cause_kind_of(decision: Decision, verdict: VerdictRecord) -> CauseKind:
    """A cause is named only when it is proven."""
    return decision.cause_kind if verdict.verdict is Verdict.PROVEN else CauseKind.NONE


class _Runs:
    """The executed diagnostics of a case, by what was in force in them."""

    def __init__(self, store: Store, case: Case) -> None:
        self._case = case
        self.all = [d for d in store.knowledge.diagnostics(case.investigation.id) if d.reading]
        self._by_run = {d.run_id: d for d in self.all}

    def of(self, on: On, without: On = frozenset(), seed: int | None = None) -> Diagnostic | None:
        return self.at(Identity(on=on, without=without, seed=seed))

    def at(self, identity: Identity) -> Diagnostic | None:
        return self._by_run.get(str(payload_of(self._case, identity)["run_id"]))

    @property
    def replays(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.all if d.kind is DiagnosticKind.REPLAY)

    @property
    def evidence(self) -> tuple[EvidenceRef, ...]:
        return tuple(EvidenceRef(kind="run", id=d.run_id) for d in self.all if d.measure is not None)


def _proof(store: Store, case: Case, runs: _Runs, facts: Facts, decision: Decision) -> Proof:
    every, cause = facts.everything, decision.cause
    control = control_of(runs.all)
    replay = runs.of(every)
    assert replay is not None
    circumstance = cause[0] not in every
    revert = runs.of(every, frozenset(cause)) if circumstance else runs.of(every - {cause[0]})
    placebo = runs.of(every - {decision.placebo}) if decision.placebo else None
    exact = exactness(store, case, replay.run_id)
    noise = max(off(each) for each in (*runs.replays, *([placebo] if placebo else [])))
    is_control = revert is not None and control is not None and revert.run_id == control.run_id
    against = None if circumstance or is_control else control  # measured against itself, any run would be cured
    measured = read_rerun(store, case, revert, against) if revert else None
    effect, interval = recession(measured, noise)
    lacks = [] if placebo else ["no innocent change could be left out for comparison (placebo)"]
    lacks += _too_faint(runs, exact, effect, noise)
    lacks += [] if circumstance or revert is None else _not_executed(store, case, facts, cause, replay, runs)
    measures = tuple(d.measure for d in runs.replays if d.measure is not None)
    return Proof(exact=exact, replays=measures, noise=noise, effect=effect, interval=interval, lacks=tuple(lacks))


def _place_proof(store: Store, case: Case, runs: _Runs, facts: Facts) -> Proof:
    """As `_proof`: the exchange takes the part of both the revert and the add, that of two others is the placebo."""
    seat = facts.seat
    assert seat is not None
    replay = runs.of(facts.everything)
    swap, placebo = runs.at(swap_of(facts, seat).identity), runs.at(placebo_of(facts, seat).identity)
    assert replay is not None
    assert swap is not None
    assert placebo is not None
    exact = exactness(store, case, replay.run_id)
    noise = max(off(each) for each in (*runs.replays, placebo))
    effect, interval = recession(read_swap(store, case, swap.run_id, seat), noise)
    return Proof(
        exact=exact,
        replays=tuple(d.measure for d in runs.replays if d.measure is not None),
        noise=noise,
        effect=effect,
        interval=interval,
        lacks=tuple(_too_faint(runs, exact, effect, noise)),
    )


def _too_faint(runs: _Runs, exact: Exactness, effect: float, noise: float) -> list[str]:
    """What the numbers lack."""
    lacks = []
    if not exact.is_exact and len(runs.replays) < _MIN_REPLAYS:
        lacks.append("the replay is not bitwise equal, and its spread was not measured by three replays")
    if effect <= 1.0 - ABSENT_BELOW or effect < _NOISE_FACTOR * noise:
        lacks.append(f"that takes away {effect:.2f} of the anomaly, not clearly more than the noise {noise:.2f}")
    return lacks


def off(diagnostic: Diagnostic) -> float:
    """How far a re-run that should show all of the anomaly is from it; 1 when it was not measured."""
    return abs(1.0 - diagnostic.measure) if diagnostic.measure is not None else 1.0


def recession(measured: Measured | None, noise: float) -> tuple[float, tuple[float, float]]:
    """1 - measure of the revert, and its interval: step-to-step variation, at least as wide as the noise."""
    if measured is None:
        return 0.0, (0.0, 0.0)
    recession = 1.0 - measured.per_step
    if recession.size < 4:
        mean = float(recession.mean())
        return mean, (mean - noise, mean + noise)
    found = block_bootstrap(recession, rng=np.random.default_rng(0))
    return found.mean, (min(found.low, found.mean - noise), max(found.high, found.mean + noise))


def _not_executed(
    store: Store, case: Case, facts: Facts, cause: Sequence[str], replay: Diagnostic, runs: _Runs
) -> list[str]:
    """Sentences for each cause that cannot have acted in the faulty replay, or not otherwise than in the revert.

    Its lines did not run, its files never differed; or, without lines to run, neither configuration nor data differed.
    """
    assert case.scene is not None
    ordered = commits_in_order(case.scene)
    executed = store.runs.executed(replay.run_id, 0)
    missing = []
    for factor in (f for f in case.scene.factors if f.key in cause):
        later = ordered[ordered.index(factor) + 1 :] if factor in ordered else []
        ran = ran_lines(factor, later, executed)
        revert = runs.of(facts.everything - {factor.key})
        if ran is False and not executed.modules:
            missing.append(
                f"nothing told which lines ran (a command must keep PYTHONPATH), so not those of {factor.title}"
            )
        elif ran is False and is_imported(factor, executed):
            missing.append(f"the lines of {factor.title} were not traced (only the first steps of a process are)")
        elif ran is False:
            missing.append(f"the re-runs did not execute the lines of {factor.title}")
        elif revert is None or (ran and not files_differ(store, factor, replay.run_id, revert.run_id)):
            missing.append(f"the re-runs with and without {factor.title} imported the same files")
        elif ran is None and not inputs_differ(store, replay.run_id, revert.run_id):
            missing.append(f"the re-runs with and without {factor.title} had the same configuration and data")
    return missing


def _proven(case: Case, runs: _Runs, facts: Facts, decision: Decision, proof: Proof) -> VerdictRecord:
    names = " and ".join(facts.title(key) for key in decision.cause)
    is_place = decision.cause_kind is CauseKind.HARDWARE
    told = _told_of_place if is_place else _told_of_change
    return VerdictRecord(
        investigation_id=case.investigation.id,
        verdict=Verdict.PROVEN,
        scope=Scope.THIS_RUN,
        suspect_keys=decision.cause,
        num_reruns=len(runs.all),
        effect=proof.effect,
        interval=proof.interval,
        statement=f"{names} caused it in this run: {decision.reason}. {told(facts, decision, proof)}",
        would_overturn=_OVERTURNS_PLACE if is_place else _OVERTURNS_CHANGE,
        evidence=(*case.leading.evidence[:2], *runs.evidence),
    )


def _told_of_change(facts: Facts, decision: Decision, proof: Proof) -> str:
    low, high = proof.interval
    return (
        f"Leaving it out takes away {proof.effect:.2f} of the anomaly (95 % {low:.2f} to {high:.2f}); "
        f"{_replay(proof)}; leaving out an innocent change ({facts.title(decision.placebo or '')}) changes it by "
        f"{proof.noise:.2f}."
    )


def _told_of_place(facts: Facts, decision: Decision, proof: Proof) -> str:
    assert facts.seat is not None
    (one, two), (low, high) = facts.seat.bystanders, proof.interval
    return (
        f"{proof.effect:.2f} of the anomaly goes with the place (95 % {low:.2f} to {high:.2f}); {_replay(proof)}; "
        f"exchanging ranks {one} and {two} takes away at most {proof.noise:.2f}. Code, configuration and samples "
        "were the same each time: mend that place or leave it out."
    )


def _replay(proof: Proof) -> str:
    if proof.exact.is_exact:
        return f"the replay is bitwise equal in {proof.exact.num_series} series over {proof.exact.num_steps} steps"
    shown = ", ".join(f"{measure:.2f}" for measure in proof.replays)
    return f"the replay is not bitwise equal; {len(proof.replays)} replays show {shown} of the anomaly"


def _cannot_tell(case: Case, runs: _Runs, reason: str, proof: Proof | None) -> VerdictRecord:
    done = [d for d in runs.all if d.measure is not None]
    nature = nature_of(case.anomalies)
    looks, against = in_words(nature) if nature else ("", "")
    overturn = "re-runs that separate the suspects that are left, or telemetry of what was not recorded"
    scope = Scope.OBSERVED
    if done:
        is_small = all(each.kind is DiagnosticKind.PROXY for each in done)
        scope = Scope.SAME_CODE_SMALL if is_small else Scope.THIS_RUN
    return VerdictRecord(
        investigation_id=case.investigation.id,
        verdict=Verdict.CANNOT_TELL,
        scope=scope,
        suspect_keys=(),
        num_reruns=len(runs.all),
        effect=proof.effect if proof else None,
        interval=proof.interval if proof else None,
        statement=f"the cause cannot be told: {reason}" + (f"; {looks} (observed, not proven)" if looks else ""),
        would_overturn=f"{overturn}; {against}" if against else overturn,
        evidence=(*case.leading.evidence[:2], *runs.evidence),
    )


def _fresh_verdict(store: Store, case: Case, runs: _Runs, facts: Facts, decision: Decision) -> VerdictRecord | None:
    """Does the same code show it from random weights with other seeds? Says so only from five pairs on."""
    sides = [(runs.of(facts.everything, seed=s), runs.of(decision.baseline, seed=s)) for s in facts.fresh_seeds]
    pairs = [(faulty, good) for faulty, good in sides if faulty is not None and good is not None]
    found = read_pairs(store, case, pairs)
    if found.size < 2:
        return None
    effect = t_interval(found)
    num_same = int(np.sum(found > 0))
    p = sign_test_p(num_same, found.size)
    holds = found.size >= _MIN_PAIRS and effect.low > 0.0
    return VerdictRecord(
        investigation_id=case.investigation.id,
        verdict=Verdict.PROVEN if holds else Verdict.CANNOT_TELL,
        scope=Scope.SAME_CODE_SMALL,
        suspect_keys=decision.cause if holds else (),
        num_reruns=2 * int(found.size),
        effect=effect.mean,
        interval=(effect.low, effect.high),
        statement=(
            f"from random weights, {num_same} of {found.size} seed pairs differ the same way (sign test p = {p:.3f}); "
            f"mean {effect.mean:.2f} of this run's anomaly (95 % {effect.low:.2f} to {effect.high:.2f})"
        ),
        would_overturn=(
            "more seed pairs whose mean difference is zero"
            if holds
            else f"{_MIN_PAIRS} seed pairs or more whose mean difference is clearly above zero"
        ),
        evidence=tuple(EvidenceRef(kind="run", id=d.run_id) for pair in pairs for d in pair),
    )
