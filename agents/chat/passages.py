"""Everything that a question about what was found out may be answered with: one passage for each thing of a case.

What was said of a case in one place is told apart by its part: the case itself, what was seen, what had changed, what
was tried, who was suspected, re-runs, verdicts, proposals, the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.chat.sources import Sources
from agents.tools import Row
from agents.tools.changes import commit_row
from agents.tools.knowledge import (
    anomaly_row,
    case_row,
    diagnostic_row,
    negative_row,
    proposal_row,
    run_row,
    suspect_row,
    verdict_row,
)
from context_store.records import Investigation, Suspect
from context_store.records.search import SearchFilter
from contracts.errors import RepositoryError

_ALL_CASES = 30  # so few are all looked at
_MAX_CASES, _MAX_HITS = 8, 40
_MAX_LINES = 400  # characters of the lines that a suspect changes


class Part(StrEnum):
    CASE = "case"
    VERDICT = "verdict"
    SYMPTOM = "symptom"
    CHANGE = "change"
    SUSPECT = "suspect"
    TRIED = "tried"
    RERUN = "rerun"
    PROPOSAL = "proposal"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class Passage:
    """`told`: what its own words are, by which it is told from its neighbours; `row`: what is shown."""

    case_id: str
    part: Part
    told: str
    row: Row


class Passages:
    def __init__(self, sources: Sources) -> None:
        self._from = sources

    def of(self, cases: Sequence[Investigation]) -> list[Passage]:
        return [each for case in cases for each in self._of_case(case)]

    def near(self, text: str, run_id: str | None) -> list[Investigation]:
        """Cases that may be meant: of the run, all where there are few, else those that search finds most of."""
        known = self._from.store.knowledge.investigations(run_id=run_id)
        if len(known) <= _ALL_CASES:
            return known
        hits = self._from.store.search.find(text, SearchFilter(run_id=run_id), limit=_MAX_HITS)
        votes: dict[str, float] = {}
        for hit in hits:
            key = hit.reference.id if hit.reference.kind == "investigation" else f"run {hit.run_id}"
            votes[key] = votes.get(key, 0.0) + hit.score
        scored = {case.id: votes.get(case.id, 0.0) + votes.get(f"run {case.run_id}", 0.0) for case in known}
        best = sorted(known, key=lambda case: -scored[case.id])[:_MAX_CASES]
        return [case for case in best if scored[case.id] > 0]

    def _of_case(self, case: Investigation) -> Iterator[Passage]:
        store = self._from.store

        def passage(part: Part, told: str, row: Row) -> Passage:
            return Passage(case_id=case.id, part=part, told=told, row=row)

        yield passage(Part.CASE, f"{case.title}. {case.statement}", case_row(case))
        for verdict in store.knowledge.verdicts(case.id):
            yield passage(Part.VERDICT, verdict.statement, verdict_row(verdict))
        for found in store.knowledge.anomalies(investigation_id=case.id):
            yield passage(Part.SYMPTOM, f"{found.statement} {' '.join(found.series[:4])}", anomaly_row(found))
        for suspect in store.knowledge.suspects(case.id):
            told = f"{suspect.title}. {suspect.reason} {self._lines(case, suspect)}"
            yield passage(Part.SUSPECT, told, suspect_row(suspect))
        for tried in store.negatives.list(case.id):
            yield passage(Part.TRIED, f"{tried.intervention}: {tried.reason}", negative_row(tried))
        for rerun in store.knowledge.diagnostics(case.id):
            yield passage(Part.RERUN, f"re-run, {rerun.kind} {rerun.label}: {rerun.reading}", diagnostic_row(rerun))
        for wish in store.proposals.list(investigation_id=case.id):
            yield passage(Part.PROPOSAL, f"{wish.title} {wish.risk} {wish.decided_by} {wish.state}", proposal_row(wish))
        if not case.run_id:
            return
        yield from (passage(Part.CHANGE, each.text, each) for each in self._changes(case.run_id))
        run = run_row(store.runs.get(case.run_id))
        yield passage(Part.RUN, run.text, run)

    def _changes(self, run_id: str) -> Iterable[Row]:
        return (*self._from.rows("timeline", run_id=run_id), *self._from.rows("commits", run_id=run_id))

    def _lines(self, case: Investigation, suspect: Suspect) -> str:
        """Who wrote a suspected commit, and what it changes."""
        store, told = self._from.store, []
        for commit in suspect.commits:
            try:
                told.append(commit_row(store.code.commit(case.project_id, commit)).text)
            except RepositoryError:  # a history that is not stored any more
                continue
            told += [hunk.text for hunk in store.code.hunks(case.project_id, commit)]
        return " ".join(told)[:_MAX_LINES]
