"""What speaks against a verdict. The rules here are the adversary of the proof: they read the verdict and the re-runs
it names afresh, and know nothing of how it came about. A model may add objections, and take none away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from agents import evidence
from agents.chat.answer import Statement
from agents.roles.grounding import exists, rows_of_case
from agents.tools import Row
from context_store import Store
from context_store.records import Diagnostic, VerdictRecord
from contracts.enums import DiagnosticKind, Scope, Verdict
from contracts.evidence import EvidenceRef

_GONE_BELOW = 0.25  # measure under which the anomaly counts as gone (loops/README.md)
_NEEDED = (DiagnosticKind.REPLAY, DiagnosticKind.CONTROL)
_NEEDED_OF_PLACE = (DiagnosticKind.REPLAY, DiagnosticKind.SWAP)  # a machine is told by an exchange


class Critic:
    name = "critic"
    order = (
        "Try to prove the verdict wrong. Say, one sentence each, what else could explain what the re-runs show, what "
        "they did not rule out, and where verdict and evidence do not fit."
    )

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def look(self, case_id: str) -> Sequence[Row]:
        return rows_of_case(self._store, case_id, self._clock)

    def plain(self, case_id: str) -> Sequence[Statement]:
        """Objections, or that there are none and what was looked at."""
        said = []
        for verdict in self._store.knowledge.verdicts(case_id):
            refs = (evidence.numbered("verdict", verdict.id), *verdict.evidence)
            found = [*lacking(self._store, verdict), *doubts(self._store, verdict)]
            none = f"no objection to '{verdict.verdict}': all {len(verdict.evidence)} evidence ids exist"
            if verdict.verdict is Verdict.PROVEN:
                none += ", replay, control and placebo were run, and leaving out nothing else cured"
            said += [Statement(text=text, evidence=refs) for text in found or [none]]
        return said


def withheld(store: Store, verdict: VerdictRecord) -> VerdictRecord:
    """The verdict, or, where its proof lacks something, `cannot_tell` with what it lacks. Nothing becomes stronger."""
    lacks = lacking(store, verdict)
    if not lacks or verdict.verdict is not Verdict.PROVEN:
        return verdict
    statement = f"withheld: {'; '.join(lacks)}. What was to be said: {verdict.statement}"
    kept = tuple(ref for ref in verdict.evidence if exists(store, ref))
    return replace(verdict, verdict=Verdict.CANNOT_TELL, statement=statement, evidence=kept or _case(verdict))


def lacking(store: Store, verdict: VerdictRecord) -> list[str]:
    """What forbids to show it as proven."""
    missing = [str(ref) for ref in verdict.evidence if not exists(store, ref)]
    found = [f"it rests on {', '.join(missing)}, which the store does not have"] if missing else []
    if verdict.verdict is not Verdict.PROVEN:
        return found
    if verdict.scope is Scope.OBSERVED:
        found.append("nothing was re-run, so it can only be observed")
    kinds = {each.kind for each in _read(store, verdict)}
    is_place = all(key.startswith("place:") for key in verdict.suspect_keys)
    needed = _NEEDED_OF_PLACE if verdict.suspect_keys and is_place else _NEEDED
    found += [f"no {kind} was run" for kind in needed if kind not in kinds]
    suspects = {each.key: each for each in store.knowledge.suspects(verdict.investigation_id)}
    strangers = [key for key in verdict.suspect_keys if key not in suspects]
    return found + [f"{key} is no suspect of the case" for key in strangers]


def doubts(store: Store, verdict: VerdictRecord) -> list[str]:
    """What should be read beside a verdict that is called proven."""
    if verdict.verdict is not Verdict.PROVEN:
        return []
    read = _read(store, verdict)
    found = []
    if all(each.kind is not DiagnosticKind.PLACEBO for each in read):
        found.append("no innocent change was left out for comparison")
    if verdict.interval is None or verdict.interval[0] <= 0.0 <= verdict.interval[1]:
        found.append("the interval of the effect is missing or holds 0")
    for each in read:
        cured = each.kind is DiagnosticKind.REVERT and each.measure is not None and each.measure < _GONE_BELOW
        if cured and not set(each.suspect_keys) & set(verdict.suspect_keys):
            found.append(f"leaving out {', '.join(each.suspect_keys)} cured too (measure {each.measure:.2f})")
    return found


def _read(store: Store, verdict: VerdictRecord) -> list[Diagnostic]:
    return [each for each in store.knowledge.diagnostics(verdict.investigation_id) if each.measure is not None]


def _case(verdict: VerdictRecord) -> tuple[EvidenceRef, ...]:
    return (evidence.case(verdict.investigation_id),)
