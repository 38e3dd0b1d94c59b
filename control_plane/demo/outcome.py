"""How a demo ended: what Lathe says, beside what was planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from context_store import Store
from context_store.records import Anomaly, Suspect
from contracts.enums import CauseKind, EffectKind, EffectState, Scope, Verdict
from control_plane.demo.home import Truth
from control_plane.demo.pair import PILOT
from loops.debug.case import load_case
from loops.debug.verification import verify_fix


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What Lathe says about the main run. Made before the truth is opened."""

    anomaly: Mapping[str, Any] | None
    suspects: tuple[Mapping[str, Any], ...]
    culprit_commits: tuple[str, ...]
    cause_kind: str
    verdict: str
    scope: str
    statement: str
    reruns: int
    verified: bool
    negative_results: int


NOTHING_FOUND = Answer(
    anomaly=None,
    suspects=(),
    culprit_commits=(),
    cause_kind=str(CauseKind.NONE),
    verdict=str(Verdict.NOTHING_FOUND),
    scope=str(Scope.OBSERVED),
    statement="nothing wrong found",
    reruns=0,
    verified=False,
    negative_results=0,
)


def read_answer(store: Store, case_id: str) -> Answer:
    """The answer of a closed case. Without one (`case_id` ""), what was found in the pilot stands: a false alarm."""
    if not case_id:
        return _answer_on_pilot(store.knowledge.anomalies(run_id=PILOT))
    case = store.knowledge.investigation(case_id)
    suspects = store.knowledge.suspects(case_id)
    anomalies = store.knowledge.anomalies(investigation_id=case_id)
    return Answer(
        anomaly=_anomaly(anomalies[0]),
        suspects=tuple(_brief(suspect) for suspect in suspects),
        culprit_commits=_culprits(suspects),
        cause_kind=str(case.cause_kind or CauseKind.NONE),
        verdict=str(case.verdict or Verdict.CANNOT_TELL),
        scope=str(case.scope or Scope.OBSERVED),
        statement=case.statement,
        reruns=sum(bool(diagnostic.run_id) for diagnostic in store.knowledge.diagnostics(case_id)),
        verified=is_verified(store, case_id),
        negative_results=len(store.negatives.list(investigation_id=case_id)),
    )


def _answer_on_pilot(found: Sequence[Anomaly]) -> Answer:
    if not found:
        return NOTHING_FOUND
    return replace(
        NOTHING_FOUND,
        anomaly=_anomaly(found[0]),
        verdict=str(Verdict.CANNOT_TELL),
        statement=f"something was found in the pilot, and nothing in the main run: {found[0].statement}",
    )


def _anomaly(found: Anomaly) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "series": found.series,
        "onset": found.onset,
        "severity": found.severity,
        "statement": found.statement,
    }


def is_verified(store: Store, case_id: str) -> bool:
    """True when the fix was applied and holds in the continuing run."""
    done = store.effects.list(investigation_id=case_id, state=EffectState.DONE)
    segments = [effect.result["segment"] for effect in done if effect.kind == EffectKind.RESUME_WITH_PATCH]
    return any(verify_fix(store, load_case(store, case_id), int(segment)).held is True for segment in segments)


def as_object(fault: str, answer: Answer, truth: Truth, seconds: float) -> dict[str, Any]:
    """The object that `lathe demo --json` prints as its last line."""
    culprits, planted = answer.culprit_commits, truth.commits
    return {
        "fault": fault,
        "anomaly": answer.anomaly,
        "suspects": answer.suspects,
        "culprit_commit": culprits[0] if culprits else None,
        "truth_commit": planted[0] if planted else None,
        "culprit_commits": culprits,
        "truth_commits": planted,
        "cause_kind": answer.cause_kind,
        "truth_cause_kind": truth.cause_kind,
        "verdict": answer.verdict,
        "scope": answer.scope,
        "reruns": answer.reruns,
        "verified": answer.verified,
        "negative_results": answer.negative_results,
        "seconds": round(seconds, 1),
    }


def is_right(answer: Answer, truth: Truth) -> bool:
    """Exactly the planted commits and the right kind of cause; where nothing was planted, no alarm either."""
    if truth.cause_kind == CauseKind.NONE and answer.verdict != Verdict.NOTHING_FOUND:
        return False
    return set(answer.culprit_commits) == set(truth.commits) and answer.cause_kind == truth.cause_kind


def _culprits(suspects: list[Suspect]) -> tuple[str, ...]:
    proven = [suspect for suspect in suspects if suspect.status == Verdict.PROVEN]
    return tuple(dict.fromkeys(commit for suspect in proven for commit in suspect.commits))


def _brief(suspect: Suspect) -> dict[str, Any]:
    return {
        "rank": suspect.rank,
        "title": suspect.title,
        "cause_kind": suspect.cause_kind,
        "commits": suspect.commits,
        "score": suspect.score,
        "status": suspect.status,
        "reason": suspect.reason,
    }
