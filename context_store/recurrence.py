"""Recognising an anomaly that was diagnosed before. What looks alike in other circumstances is only a hint.

Alike: the same detector, and statistics and places in common. The same circumstances: the same project, no known
configuration value that differs (besides what never bears on training), and the proven cause in force here as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from context_store.code import Code
from context_store.database import Database, driver
from context_store.knowledge import Knowledge
from context_store.reapplied import Standing, standing
from context_store.records import Anomaly, Investigation, Precedent, SearchFilter, Segment, TextKind
from context_store.runs import Runs
from context_store.search import Search
from contracts.enums import Verdict
from contracts.errors import RepositoryError
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from contracts.names import SeriesName

_MIN_SHAPE = 0.5
_MAX_CASES = 200
_INCIDENT = "incident "
_MIN_SIMILARITY = 0.35  # of an incident's text; it is a hint in any case
_MAX_NAMED = 5
# Which run it is, how long it lasts and what is written down: none of it changes how a step trains.
_ASIDE = re.compile(r"(?:^|[._])(?:seed|name|path|dir|folder|id|url|tags?|notes?|max_steps?|num_steps|log\w*|save\w*|"
                    r"checkpoint\w*|eval\w*)(?:[._]|$)")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Scene:
    """Where an anomaly happened."""

    project_id: str
    code_version: str
    config: Mapping[str, Scalar]
    environment: Mapping[str, Scalar]


class Recurrence:
    def __init__(self, database: Database, knowledge: Knowledge, runs: Runs, code: Code, search: Search) -> None:
        self._database = database
        self._knowledge = knowledge
        self._runs = runs
        self._code = code
        self._search = search

    def like(self, anomaly: Anomaly, limit: int = 3) -> list[Precedent]:
        """Strong ones first, then by score; imported incidents last. Cases of this very anomaly do not count."""
        here = self._scene(anomaly)
        cases = [self._precedent(anomaly, here, past, case) for past, case in self._diagnosed(anomaly)]
        best: dict[str | None, Precedent] = {}
        for found in sorted(cases, key=lambda each: (each.is_strong, each.score)):
            if found.score >= _MIN_SHAPE:
                best[found.investigation_id] = found
        ordered = sorted(best.values(), key=lambda each: (each.is_strong, each.score), reverse=True)
        return [*ordered, *self._incidents(anomaly)][:limit]

    def _diagnosed(self, anomaly: Anomaly) -> list[tuple[Anomaly, Investigation]]:
        """Anomalies of the same detector with the case that has a verdict on them, newest first."""
        with self._database.begin() as connection:
            values = {"kind": anomaly.kind, "id": anomaly.id, "limit": _MAX_CASES}
            pairs = driver(connection).execute(_DIAGNOSED, values).fetchall()
        return [(self._knowledge.anomaly(past), self._knowledge.investigation(case)) for past, case in pairs]

    def _precedent(self, anomaly: Anomaly, here: _Scene, past: Anomaly, case: Investigation) -> Precedent:
        score, common = _shape(anomaly.series, past.series)
        there = self._scene(past)
        matched = [f"the same finding ({anomaly.kind})", *common]
        differs = [] if here.project_id == there.project_id else [f"project {there.project_id}, here {here.project_id}"]
        matched_config, other_config = _compare(here.config, there.config)
        matched += matched_config
        differs += other_config
        causes = [s for s in self._knowledge.suspects(case.id) if s.status is Verdict.PROVEN]
        if case.verdict is not Verdict.PROVEN:
            differs.append(f"the cause was not proven then ({case.verdict})")
        for cause in causes:
            in_force, sentence = self._in_force(cause.key, cause.title, here, there)
            (matched if in_force else differs).append(sentence)
        verdict = f"{case.verdict}, scope {case.scope}"
        return Precedent(
            investigation_id=case.id,
            title=case.title,
            diagnosis=f"{case.statement or 'no statement'} ({verdict})",
            is_strong=not differs and bool(matched_config),
            matched=tuple(matched),
            differs=tuple(differs),
            evidence=(EvidenceRef(kind="investigation", id=case.id), EvidenceRef(kind="anomaly", id=str(past.id))),
            score=score,
        )

    def _in_force(self, key: str, title: str, here: _Scene, there: _Scene) -> tuple[bool, str]:
        """Whether what was proven then can act here too."""
        kind, _, what = key.partition(":")
        if kind == "commit":
            return self._in_code(what, title, here, there)
        if kind == "environment" and here.environment.get(what) != there.environment.get(what):
            return False, f"the proven cause, {title}, is not so here: {what} is {here.environment.get(what)}"
        return True, f"nothing speaks against the proven cause, {title}"

    def _in_code(self, cause: str, title: str, here: _Scene, there: _Scene) -> tuple[bool, str]:
        """Also when it was taken back since, or is there again as another commit."""
        change = self._code.hunks(here.project_id, cause) or self._code.hunks(there.project_id, cause)
        try:
            known = self._code.commits(here.project_id, None, here.code_version) if here.code_version else []
        except RepositoryError:
            known = []
        history = self._code.hunks_of_files(here.project_id, {hunk.path for hunk in change})
        order = [commit.hash for commit in known]
        found = standing(change, history, order) if change else Standing(in_force=cause in order, by=cause)
        name = f"the proven cause, {title}, is"
        if found.in_force:
            return True, f"{name} in this code{'' if found.by == cause else f' again, as {found.by[:12]}'}"
        return False, f"{name} not in this code" + (f": taken back by {found.by[:12]}" if change and found.by else "")

    def _scene(self, anomaly: Anomaly) -> _Scene:
        run = self._runs.get(anomaly.run_id)
        before = [each for each in self._runs.segments(run.id) if each.start_step <= anomaly.onset[1]]
        segment: Segment | None = before[-1] if before else None
        return _Scene(
            project_id=run.project_id,
            code_version=segment.code_version if segment else "",
            config=self._runs.declared(run.id, segment.number) if segment else {},
            environment=segment.environment if segment else {},
        )

    def _incidents(self, anomaly: Anomaly) -> list[Precedent]:
        """Imported incidents with a similar symptom. Their circumstances are not known, so they stay hints."""
        text = f"{anomaly.statement} {anomaly.kind.replace('_', ' ')} {' '.join(_statistics(anomaly.series))}"
        hits = self._search.nearest(text, SearchFilter(kinds=(TextKind.NOTE,)), limit=10)
        return [
            Precedent(
                investigation_id=None,
                title=hit.title,
                diagnosis=hit.outcome or "no cause is given",
                is_strong=False,
                matched=("a similar symptom in words",),
                differs=("another project; its circumstances are not known",),
                evidence=(hit.reference,),
                score=round(hit.similarity, 4),
            )
            for hit in hits
            if hit.title.startswith(_INCIDENT) and hit.similarity is not None and hit.similarity >= _MIN_SIMILARITY
        ]


def _statistics(series: Sequence[str]) -> list[str]:
    return sorted({SeriesName.parse(name).statistic for name in series})


def _places(series: Sequence[str]) -> set[str]:
    """Statistic and module, whatever layer, expert or rank."""
    parsed = [SeriesName.parse(name) for name in series]
    return {f"{name.statistic}/{re.sub(r'layers[.][0-9]+', 'layers', name.module)}" for name in parsed}


def _shape(ours: Sequence[str], theirs: Sequence[str]) -> tuple[float, list[str]]:
    """(0..1, what is in common): mean of the shares of places and of layers in common (Jaccard)."""
    parts = [(_places(ours), _places(theirs))]
    layers = [{SeriesName.parse(name).layer for name in names} - {None} for names in (ours, theirs)]
    if any(layers):
        parts.append(({str(layer) for layer in layers[0]}, {str(layer) for layer in layers[1]}))
    shares = [len(a & b) / max(len(a | b), 1) for a, b in parts]
    common = [f"the same statistics ({', '.join(sorted({p.partition('/')[0] for p in parts[0][0] & parts[0][1]}))})"]
    common += [f"the same layers ({', '.join(sorted(a & b, key=int))})" for a, b in parts[1:] if a & b]
    return (0.7 * shares[0] + 0.3 * shares[1] if len(shares) == 2 else shares[0]), common if shares[0] else []


def _compare(here: Mapping[str, Scalar], there: Mapping[str, Scalar]) -> tuple[list[str], list[str]]:
    """(the same, not the same) of what both configurations say, in words."""
    shared = [key for key in here.keys() & there.keys() if not _ASIDE.search(key)]
    other = sorted(key for key in shared if here[key] != there[key])
    if not shared:
        return [], ["the configuration of one of them is not known"]
    if not other:
        return [f"the same configuration ({len(shared)} values)"], []
    named = [f"{key}: {there[key]}, here {here[key]}" for key in other[:_MAX_NAMED]]
    return [], [*named, *([f"{len(other) - _MAX_NAMED} more values"] if len(other) > _MAX_NAMED else [])]


_DIAGNOSED = """
    SELECT a.id, i.id FROM anomaly a JOIN investigation_anomaly m ON m.anomaly_id = a.id
    JOIN investigation i ON i.id = m.investigation_id
    WHERE a.kind = %(kind)s AND i.verdict IS NOT NULL AND NOT EXISTS (
        SELECT FROM investigation_anomaly own WHERE own.investigation_id = i.id AND own.anomaly_id = %(id)s)
    ORDER BY i.opened_at DESC, a.id LIMIT %(limit)s
"""
