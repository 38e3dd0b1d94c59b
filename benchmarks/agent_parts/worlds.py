"""The two stores that questions are asked of: published incidents, and the home of a finished `lathe demo`.

"Published cause" is what the authors say; nothing here is `proven` that Lathe did not prove.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from context_store import EmbeddedPostgres, Store, migrate, open_store
from context_store.embedding import default_embedder
from context_store.records import Anomaly, NegativeResult, NewRun, Project, TimelineEvent
from contracts.enums import CauseKind, InvestigationState, RunRole, Scope, TimelineKind, Verdict
from contracts.errors import UserInputError
from contracts.evidence import KINDS, EvidenceRef

PUBLISHED = Path(__file__).parents[1] / "agent_questions" / "published.jsonl"
PROJECT = "published"
_NOW = 1_790_000_000.0
_EVENTS = {
    "code": TimelineKind.CODE, "config": TimelineKind.CONFIG, "data": TimelineKind.DATA, "resume": TimelineKind.RESUME,
    "environment": TimelineKind.ENVIRONMENT,
}  # fmt: skip


@contextmanager
def fresh_store() -> Iterator[Store]:
    """A store that is gone afterwards, searched with the embedder that the product takes."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    server = EmbeddedPostgres(folder, durable=False)
    try:
        url = server.start()
        migrate(url)
        with open_store(url, clock=lambda: _NOW, embedder=default_embedder()) as store:
            yield store
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Incidents:
    """Published incidents, each as a run with a case, an event, an anomaly and negative results."""

    first_only = True

    def __init__(self, store: Store, path: Path = PUBLISHED) -> None:
        """Stores them. `path`: one JSON object a line."""
        store.projects.put(Project(id=PROJECT, path=f"/{PROJECT}"))
        self._names: dict[str, set[str]] = defaultdict(set)
        for line in path.read_text().splitlines():
            self._load(store, json.loads(line))

    def filled(self, text: str) -> str:
        return text

    def is_named(self, ref: EvidenceRef, name: str) -> bool:
        if name not in self._names:
            raise UserInputError(f"no incident has '{name}'", remedy=f"use one of: {', '.join(self._names)}")
        return f"{ref.kind}:{ref.id}" in self._names[name]

    def _load(self, store: Store, incident: Mapping[str, Any]) -> None:
        run_id, case_id = incident["id"], f"case-{incident['id']}"
        run = EvidenceRef(kind="run", id=run_id)
        new = NewRun(id=run_id, project_id=PROJECT, name=run_id, role=RunRole.TRAINING, folder=f"/{PROJECT}/{run_id}")
        store.runs.create(new)
        event = store.timeline.add(
            TimelineEvent(
                run_id=run_id, segment=0, step=0, kind=_EVENTS.get(incident["cause_kind"], TimelineKind.NOTE),
                title=incident["what_changed"], at=_NOW,
            )
        )  # fmt: skip
        anomaly = store.knowledge.put_anomaly(
            Anomaly(
                run_id=run_id, kind="published", series=tuple(incident["affected_metric"]), onset=(0, 0), severity=0.5,
                statement=incident["symptom"], evidence=(run,),
            )
        )  # fmt: skip
        store.knowledge.open_investigation(case_id, run_id, [anomaly.id], incident["symptom"], _NOW)
        store.knowledge.set_investigation(
            case_id, state=InvestigationState.CLOSED, verdict=Verdict.CANNOT_TELL, scope=Scope.OBSERVED,
            statement=f"Published cause: {incident['proven_cause']} Fix: {incident['fix']}",
            cause_kind=CauseKind(incident["cause_kind"]),
        )  # fmt: skip
        for number, tried in enumerate(incident["negative_results"], start=1):
            kept = store.negatives.add(_negative(tried, incident, case_id, run))
            self._name(f"{run_id}/tried", f"negative:{kept.id}")
            self._name(f"{run_id}/tried-{number}", f"negative:{kept.id}")
        self._name(f"{run_id}/case", f"investigation:{case_id}")
        self._name(f"{run_id}/change", f"event:{event.id}")
        self._name(f"{run_id}/symptom", f"anomaly:{anomaly.id}")
        self._name(f"{run_id}/run", f"run:{run_id}")

    def _name(self, name: str, ref: str) -> None:
        self._names[name].add(ref)


def _negative(tried: Mapping[str, str], incident: Mapping[str, Any], case_id: str, run: EvidenceRef) -> NegativeResult:
    return NegativeResult(
        claim=f"it helps against: {incident['symptom']}", intervention=tried["tried"], context={"run": run.id},
        expected="the symptom goes away", observed=tried["why_it_failed"], reason_class="published",
        reason=tried["why_it_failed"], evidence=(run,), reopen_if="", investigation_id=case_id, actor="publication",
    )  # fmt: skip


class Demo:
    """The store of a finished demo, or any that holds a case with a proven cause."""

    first_only = False

    def __init__(self, store: Store) -> None:
        self._store = store

    def filled(self, text: str) -> str:
        for name, value in self.facts.items():
            text = text.replace("{" + name + "}", str(value))
        return text

    def is_named(self, ref: EvidenceRef, name: str) -> bool:
        kind, _, part = name.partition(":")
        if kind not in KINDS or not part:
            raise UserInputError(f"'{name}' names no evidence", remedy="write KIND:ID, for instance run:main")
        if kind == "event" and ref.kind == "event":
            step, _, of_kind = part.partition("/")
            return self._events[ref.id] in {(int(step), each) for each in ([of_kind] if of_kind else TimelineKind)}
        if ref.kind != kind and (kind, ref.kind) != ("diagnostic", "run"):
            return False
        return part == ref.id if part.isdigit() else part in self._telling(ref)

    def _telling(self, ref: EvidenceRef) -> str:
        """The id, and what else names it: kind and label of a re-run, kind of a proposal."""
        known = unquote(ref.id)
        return f"{known} {self._diagnostics.get(known.rpartition('/')[2], '')} {self._proposals.get(known, '')}"

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Names that questions speak of, from the newest case with a proven cause."""
        knowledge = self._store.knowledge
        case = next(each for each in knowledge.investigations() if each.verdict is Verdict.PROVEN)
        verdict = next(each for each in knowledge.verdicts(case.id) if each.verdict is Verdict.PROVEN)
        anomaly = knowledge.anomalies(investigation_id=case.id)[0]
        culprit = next(key for key in verdict.suspect_keys if key.startswith("commit:")).removeprefix("commit:")
        innocent = next(each for each in knowledge.suspects(case.id) if each.status is Verdict.REFUTED)
        return {
            "run": case.run_id, "case": case.id, "verdict": verdict.id, "anomaly": anomaly.id, "culprit": culprit,
            "culprit8": culprit[:8], "onset_lo": anomaly.onset[0], "onset_hi": anomaly.onset[1],
            "statistic": anomaly.series[0].partition("/")[0], "innocent": innocent.title, "innocent_key": innocent.key,
        }  # fmt: skip

    @cached_property
    def _events(self) -> Mapping[str, tuple[int, str]]:
        runs = self._store.runs.list(limit=1000)
        return {str(each.id): (each.step, each.kind) for run in runs for each in self._store.timeline.list(run.id)}

    @cached_property
    def _diagnostics(self) -> Mapping[str, str]:
        knowledge = self._store.knowledge
        known = [each for case in knowledge.investigations() for each in knowledge.diagnostics(case.id)]
        return {each.run_id or each.key: f"{each.kind}/{each.label}" for each in known}

    @cached_property
    def _proposals(self) -> Mapping[str, str]:
        return {each.id: each.kind for each in self._store.proposals.list()}
