"""Why do we believe this, in a ledger of a million entries."""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

import psycopg

from context_store import Store
from context_store.records import Anomaly, NewRun, Project, VerdictRecord
from contracts.enums import RunRole, Scope, Verdict
from contracts.evidence import EvidenceRef

_ROWS, _CASES, _ROUNDS = 1_000_000, 200, 200


def measure_lineage(store: Store) -> dict[str, Any]:
    """Fills the store. Asks after verdicts down to the points they rest on."""
    verdicts = [_case(store, number) for number in range(_CASES)]
    with psycopg.connect(store.url) as connection:
        columns = "(at, actor, action, subject, detail, evidence)"
        with connection.cursor() as cursor, cursor.copy(f"COPY ledger_entry {columns} FROM STDIN") as copy:
            for number in range(_ROWS):
                case = number % _CASES
                evidence = [f"run:run-{case}", f"anomaly:{1 + (number // _CASES) % _CASES}"]
                subject = f"investigation:case-{case}" if number % 3 else f"run:run-{case}"
                copy.write_row(("2026-11-30", "loop:debug", "measure", subject, f'{{"step":{number}}}', evidence))
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    rng = random.Random(0)
    times, nodes = [], []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        why = store.why.of("verdict", str(rng.choice(verdicts)))
        times.append(1000 * (time.perf_counter() - began))
        nodes.append(len(why.nodes))
        if not why.raw_slices:
            raise AssertionError("a verdict without a raw slice below it")
    cuts = statistics.quantiles(times, n=100)
    return {
        "lineage_p95_ms": cuts[94],
        "lineage_median_ms": cuts[49],
        "lineage_rows": _ROWS,
        "lineage_median_nodes": statistics.median(nodes),
    }


def _case(store: Store, number: int) -> int:
    """A run, its anomaly, a case and its verdict; the verdict's number."""
    run_id, case_id = f"run-{number}", f"case-{number}"
    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id=run_id, project_id="p", name=run_id, role=RunRole.TRAINING, folder="/r"))
    points = EvidenceRef(kind="series", id=f"{run_id}/max_vio%2Flayers.5", slice="180..195")
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id=run_id, kind="level_shift", series=("max_vio/layers.5",), onset=(180, 195), severity=1.0,
            statement="layer 5 departs", evidence=(points,),
        )
    )  # fmt: skip
    store.knowledge.open_investigation(case_id, run_id, [anomaly.id], "layer 5 departs", at=1.0)
    verdict = VerdictRecord(
        investigation_id=case_id, verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, suspect_keys=("commit:abc",),
        num_reruns=5, effect=1.0, interval=(0.5, 1.5), statement="it was abc", would_overturn="another re-run",
        evidence=(EvidenceRef(kind="anomaly", id=str(anomaly.id)), EvidenceRef(kind="run", id=run_id)),
    )  # fmt: skip
    return store.knowledge.put_verdict(verdict).id
