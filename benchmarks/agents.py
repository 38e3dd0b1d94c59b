"""Chat without a model: written questions, right evidence, and "the store does not know".

`--incidents FILE` loads published incidents (one JSON object a line) into a fresh store, each as a run with its
timeline, an anomaly, a case and negative results, and asks the questions of `agent_questions/incidents.jsonl`.
`--home FOLDER` asks those of `agent_questions/demo.jsonl` over the home of a finished `lathe demo`.

answered_with_right_evidence  share of questions with a known answer whose first statement cites the right object
                              (over a demo: any statement shown, where several rows belong to one answer)
unknown_said_unknown          share of questions the store cannot answer to which it says so

Who wrote the questions had seen the code. "Published cause" is what the authors say; nothing here is `proven`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.chat import Answer, Answers, ChatContext, Retrieval
from agents.tools import READING, Toolbox
from context_store import EmbeddedPostgres, Store, migrate, open_store
from context_store.records import Anomaly, NegativeResult, NewRun, Project, TimelineEvent
from contracts.enums import CauseKind, InvestigationState, RunRole, Scope, TimelineKind, Verdict
from contracts.evidence import EvidenceRef

QUESTIONS = Path(__file__).parent / "agent_questions"
PROJECT = "published"
_NOW = 1_790_000_000.0
_KINDS = {
    "code": TimelineKind.CODE, "config": TimelineKind.CONFIG, "data": TimelineKind.DATA, "resume": TimelineKind.RESUME,
    "environment": TimelineKind.ENVIRONMENT,
}  # fmt: skip

Refs = Mapping[str, frozenset[str]]  # evidence kind -> ids of one incident


@dataclass(frozen=True, kw_only=True)
class Graded:
    question: str
    unknown: bool
    right: bool
    answer: str


def load_incidents(store: Store, path: Path) -> dict[str, Refs]:
    """Store them; the references of each, by its id."""
    store.projects.put(Project(id=PROJECT, path=f"/{PROJECT}"))
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {each["id"]: _load_incident(store, each) for each in lines}


def _load_incident(store: Store, incident: Mapping[str, Any]) -> Refs:
    run_id, case_id = incident["id"], f"case-{incident['id']}"
    run = EvidenceRef(kind="run", id=run_id)
    new = NewRun(id=run_id, project_id=PROJECT, name=run_id, role=RunRole.TRAINING, folder=f"/{PROJECT}/{run_id}")
    store.runs.create(new)
    event = store.timeline.add(
        TimelineEvent(
            run_id=run_id, segment=0, step=0, kind=_KINDS.get(incident["cause_kind"], TimelineKind.NOTE),
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
    negatives = [store.negatives.add(_negative(each, incident, case_id, run)) for each in incident["negative_results"]]
    return {
        "run": frozenset({run_id}),
        "event": frozenset({str(event.id)}),
        "anomaly": frozenset({str(anomaly.id)}),
        "investigation": frozenset({case_id}),
        "negative": frozenset(str(each.id) for each in negatives),
    }


def _negative(tried: Mapping[str, str], incident: Mapping[str, Any], case_id: str, run: EvidenceRef) -> NegativeResult:
    return NegativeResult(
        claim=f"it helps against: {incident['symptom']}", intervention=tried["tried"], context={"run": run.id},
        expected="the symptom goes away", observed=tried["why_it_failed"], reason_class="published",
        reason=tried["why_it_failed"], evidence=(run,), reopen_if="", investigation_id=case_id, actor="publication",
    )  # fmt: skip


def rules_of(store: Store) -> Answers:
    """Chat without a model."""
    return Retrieval(store, Toolbox(store, READING))


def grade_incidents(
    brain: Answers, known: Mapping[str, Refs], questions: Sequence[Mapping[str, Any]]
) -> Iterator[Graded]:
    """By the first statement's evidence."""
    for number, each in enumerate(questions):
        answer = brain.answer(each["question"], ChatContext(thread_id=f"question-{number}"))
        unknown = bool(each.get("unknown"))
        right = not answer.known
        if not unknown:
            first = answer.statements[0].evidence if answer.known else ()
            refs = known[each["about"]]
            right = any(ref.id in refs[kind] for kind in each["kinds"] for ref in first if ref.kind == kind)
        yield _graded(each["question"], unknown, right, answer)


def grade_demo(store: Store, brain: Answers, questions: Sequence[Mapping[str, Any]]) -> Iterator[Graded]:
    """By the evidence of all statements shown."""
    facts = demo_facts(store)
    for number, each in enumerate(questions):
        question = each["question"].format(**facts)
        answer = brain.answer(question, ChatContext(thread_id=f"question-{number}"))
        unknown = bool(each.get("unknown"))
        cited = {str(ref) for ref in answer.citations}
        wanted = {text.format(**facts) for text in each.get("evidence", ())}
        kinds = {ref.kind for ref in answer.citations}
        right = not answer.known if unknown else wanted <= cited and each.get("evidence_kind", "") in {"", *kinds}
        yield _graded(question, unknown, right and (unknown or answer.known), answer)


def demo_facts(store: Store) -> dict[str, Any]:
    """Names the questions speak of, from the newest case with a proven cause."""
    case = next(each for each in store.knowledge.investigations() if each.verdict is Verdict.PROVEN)
    verdict = next(v for v in store.knowledge.verdicts(case.id) if v.verdict is Verdict.PROVEN)
    anomaly = store.knowledge.anomalies(investigation_id=case.id)[0]
    suspects = store.knowledge.suspects(case.id)
    culprit = next(key for key in verdict.suspect_keys if key.startswith("commit:")).removeprefix("commit:")
    innocent = next(each for each in suspects if each.status is Verdict.REFUTED)
    return {
        "run": case.run_id, "case": case.id, "verdict": verdict.id, "anomaly": anomaly.id, "culprit": culprit,
        "culprit8": culprit[:8], "onset_lo": anomaly.onset[0], "onset_hi": anomaly.onset[1],
        "statistic": anomaly.series[0].partition("/")[0], "innocent": innocent.title, "innocent_key": innocent.key,
    }  # fmt: skip


def summary(rows: Sequence[Graded]) -> dict[str, Any]:
    """The two shares, with their counts and the questions answered wrongly."""
    known, unknown = [r for r in rows if not r.unknown], [r for r in rows if r.unknown]
    return {
        "questions": len(rows),
        "answered_with_right_evidence": sum(r.right for r in known) / max(1, len(known)),
        "answered": f"{sum(r.right for r in known)}/{len(known)}",
        "unknown_said_unknown": sum(r.right for r in unknown) / max(1, len(unknown)),
        "unknown": f"{sum(r.right for r in unknown)}/{len(unknown)}",
        "brain": "rules",
        "wrong": [{"question": r.question, "answer": r.answer} for r in rows if not r.right],
    }


def read_questions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@contextmanager
def fresh_store() -> Iterator[Store]:
    """A store that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    server = EmbeddedPostgres(folder, durable=False)
    try:
        url = server.start()
        migrate(url)
        with open_store(url, clock=lambda: _NOW) as store:
            yield store
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _graded(question: str, unknown: bool, right: bool, answer: Answer) -> Graded:
    return Graded(question=question, unknown=unknown, right=right, answer=answer.text[:400])


def _demo_rows(home: Path) -> list[Graded]:
    from control_plane.settings import load_settings
    from control_plane.wiring import Lathe

    with Lathe.open(load_settings(home)) as lathe:
        return list(grade_demo(lathe.store, rules_of(lathe.store), read_questions(QUESTIONS / "demo.jsonl")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--incidents", type=Path, help="published incidents, JSON lines")
    parser.add_argument("--home", type=Path, help="home of a finished demo")
    options = parser.parse_args()
    if options.incidents is None and options.home is None:
        parser.error("give --incidents, --home or both")
    rows: list[Graded] = []
    if options.incidents is not None:
        with fresh_store() as store:
            known = load_incidents(store, options.incidents)
            rows += grade_incidents(rules_of(store), known, read_questions(QUESTIONS / "incidents.jsonl"))
    if options.home is not None:
        rows += _demo_rows(options.home)
    for each in rows:
        mark = "right" if each.right else "WRONG"
        sys.stderr.write(f"{mark}  {each.question}\n")
    if options.json:
        sys.stdout.write(json.dumps(summary(rows)) + "\n")


if __name__ == "__main__":
    main()
