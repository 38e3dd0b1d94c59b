"""200 mixed requests a second against the real API while a training logs 10 steps a second of 1,000 series through it.

Keys: `api_p99_ms` (from when a request was due), `api_errors` (any answer that was not expected), `lost_points` (of
what the training logged and the client called committed, compared value by value).
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.place import Place, end, place
from benchmarks.trust_load.logger import NAMES, STEPS_PER_S, value
from benchmarks.trust_load.rate import Answered, Ask, fire, listen
from context_store import Store, open_store
from context_store.records import (
    Amount,
    NegativeResult,
    NewProposal,
    NewRun,
    Project,
    SeriesMatrix,
    TimelineEvent,
)
from contracts.enums import EffectKind, InvestigationState, Role, RunRole, TimelineKind
from contracts.evidence import EvidenceRef
from control_plane.services.ports import LOOPBACK

LIVE = "live"
_EXPIRES = 4e9
_LISTENERS = 3
_NUM_RUNS = 30
_OLD_STEPS = 5000


def fill(store: Store) -> None:
    """What a team has after some weeks: runs with long series, cases, proposals, negative results, a feed."""
    store.projects.put(Project(id="old", path="/nowhere"))
    steps = np.arange(1, _OLD_STEPS + 1)
    names = ("loss", "grad_norm", *(f"grad_norm/layers.{layer}" for layer in range(48)))
    for number in range(_NUM_RUNS):
        run_id = f"old-{number}"
        store.runs.create(NewRun(id=run_id, project_id="old", name=run_id, role=RunRole.TRAINING, folder="/nowhere"))
        values = np.sin(np.outer(np.arange(1, len(names) + 1), steps / 97.0 + number))
        store.series.write(
            run_id, SeriesMatrix(names=names, steps=steps, values=values, present=np.ones(values.shape, bool))
        )
        for step in range(0, _OLD_STEPS, 250):
            store.timeline.add(
                TimelineEvent(
                    run_id=run_id, segment=0, step=step, kind=TimelineKind.NOTE, title=f"note at {step}", detail={},
                    at=0.0,
                )
            )  # fmt: skip
        _case(store, run_id)
    for number in range(2000):
        store.activity.publish("progress", f"message {number}", run_id=f"old-{number % _NUM_RUNS}")


def _case(store: Store, run_id: str) -> None:
    case_id = store.knowledge.open_investigation(f"case-{run_id}", run_id, (), f"the loss of {run_id} rises", 0.0).id
    store.budgets.open(case_id, Amount(cpu_s=100.0, reruns=10))
    store.knowledge.set_investigation(case_id, state=InvestigationState.CLOSED)
    evidence = (EvidenceRef(kind="run", id=run_id),)
    store.proposals.put(
        NewProposal(
            investigation_id=case_id, kind=EffectKind.NOTIFY, title=f"tell about {run_id}",
            payload={"url": "http://127.0.0.1:9/", "text": run_id}, diff="-a\n+b\n" * 50, base_state="c0ffee",
            risk="low", verification="none", evidence=evidence, expires_at=_EXPIRES,
        )
    )  # fmt: skip
    for number in range(10):
        store.negatives.add(
            NegativeResult(
                claim=f"warm-up {number} of {run_id} is to blame", intervention="a longer warm-up", context={},
                expected="the loss falls", observed="it rises", reason_class="tried", reason="the loss still rises",
                evidence=evidence, reopen_if="", investigation_id=case_id, actor="loop:debug", project_id="old",
            )
        )  # fmt: skip


def mix(place: Place, count: int, seed: int) -> list[Ask]:
    """Requests as pages, clients and scripts send them, in random order."""
    rng = random.Random(seed)
    viewer, researcher = place.secrets[Role.VIEWER], place.secrets[Role.RESEARCHER]

    def one() -> Ask:
        run, layer = f"old-{rng.randrange(_NUM_RUNS)}", rng.randrange(48)
        live = "&".join(f"name={name}" for name in rng.sample(NAMES, 2))
        paths = {
            "runs": "runs?limit=50",
            "run": f"runs/{run}",
            "live run": f"runs/{LIVE}/points?{live}&buckets=300",
            "points": f"runs/{run}/points?name=loss&name=grad_norm/layers.{layer}&buckets=300",
            "series": f"runs/{run}/series?statistic=grad_norm",
            "timeline": f"runs/{run}/timeline",
            "activity": f"activity?after={rng.randrange(1900)}&limit=50",
            "proposals": "proposals?state=open",
            "cases": "investigations",
            "case": f"investigations/case-{run}",
            "search": f"negatives?q=warm-up+{rng.randrange(10)}&limit=10",
            "history": f"runs/{run}/history?name=loss&lo=100&hi=600",
            "config": "run-table?metric=loss&limit=20",
            "health": "health",
        }
        weights = (8, 8, 14, 14, 6, 6, 16, 4, 4, 3, 4, 4, 2, 4)
        name = rng.choices([*paths, "new negative"], [*weights, 3])[0]
        if name == "new negative":
            return Ask(name=name, path="/api/v1/negatives", token=researcher, body=_negative(rng, run), expected=(201,))
        return Ask(name=name, path=f"/api/v1/{paths[name]}", token=viewer)

    return [one() for _ in range(count)]


def _negative(rng: random.Random, run: str) -> dict[str, Any]:
    claim = f"learning rate {rng.random()} of {run} is to blame"
    texts = {"claim": claim, "intervention": "half of it", "observed": "no change", "reason": "it still rises"}
    return {**texts, "evidence": [f"run:{run}"], "project_id": "old"}


async def _drive(place: Place, asks: Sequence[Ask], per_second: float) -> tuple[list[Answered], int]:
    stop = asyncio.Event()
    token = place.secrets[Role.VIEWER]
    listeners = [asyncio.create_task(listen(LOOPBACK, place.port, token, stop)) for _ in range(_LISTENERS)]
    answers = await fire(LOOPBACK, place.port, asks, per_second)
    stop.set()
    return answers, min(await asyncio.gather(*listeners))


def lost_points(store: Store, num_steps: int) -> int:
    """Of those logged; a wrong value counts as lost."""
    found = store.series.matrix(LIVE, NAMES)
    expected = np.array([[value(step, index) for step in range(1, num_steps + 1)] for index in range(len(NAMES))])
    if found.steps.tolist() != list(range(1, num_steps + 1)):
        return int(expected.size - found.present.sum()) or expected.size
    return int((found.values != expected).sum())


def measure(folder: Path, seconds: float = 60.0, per_second: float = 200.0, seed: int = 1) -> dict[str, Any]:
    with place(folder) as found:
        with open_store(found.url) as store:
            fill(store)
        processes = [found.start_api(), found.start_worker()]
        try:
            found.wait_for_api()
            spool, token = str(folder / "spool"), found.secrets[Role.RESEARCHER]
            url = f"http://{LOOPBACK}:{found.port}"
            logger = found.python("logger", "-m", "benchmarks.trust_load.logger", url, token, spool, LIVE, str(seconds))
            processes.append(logger)
            _wait_for_run(found)
            asks = mix(found, int(seconds * per_second), seed)
            answers, heard = asyncio.run(_drive(found, asks, per_second))
            logger.wait(timeout=120)
            with open_store(found.url) as store:
                lost = lost_points(store, int(seconds * STEPS_PER_S))
        finally:
            for process in reversed(processes):
                end(process)
    return {**summary(answers), "lost_points": lost, "api_feed_messages": heard}


def _wait_for_run(found: Place) -> None:
    with open_store(found.url) as store:
        while LIVE not in {run.id for run in store.runs.list(project_id="load")}:
            pass


def summary(answers: Sequence[Answered]) -> dict[str, Any]:
    by_name: dict[str, list[float]] = defaultdict(list)
    for each in answers:
        by_name[each.name].append(each.latency_s * 1000)
    for name, values in sorted(by_name.items(), key=lambda item: -percentile(item[1], 0.99)):
        middle, high = percentile(values, 0.5), percentile(values, 0.99)
        sys.stderr.write(f"{name:14} {len(values):5} requests, median {middle:7.1f} ms, p99 {high:7.1f} ms\n")
    errors = [f"{each.name}: {each.error}" for each in answers if each.error]
    latencies = [each.latency_s * 1000 for each in answers]
    return {
        "api_p50_ms": round(percentile(latencies, 0.5), 1),
        "api_p99_ms": round(percentile(latencies, 0.99), 1),
        "api_max_ms": round(max(latencies), 1),
        "api_requests": len(answers),
        "api_errors": len(errors),
        "api_first_errors": errors[:5],
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
