"""What isolation costs: the same episodes of our own scaffold in the sandbox and as plain processes, interleaved."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agents.sandbox import Sandbox
from loops.evolve.evaluation import Evaluator, Job
from loops.evolve.tasks import Split, Suite, read_suite

SCAFFOLD = Path(__file__).parents[2] / "loops" / "evolve" / "scaffolds" / "default"
_ROOT = Path(__file__).parents[2]


def plain(suite: Suite, jobs: list[Job]) -> list[dict[str, Any]]:
    """The supervisor without any isolation. Only for scaffolds that we wrote."""
    code = f"import sys; sys.path[:0] = {[str(_ROOT), *sys.path]!r}; from loops.evolve.inside.{{}} import main; main()"
    with tempfile.TemporaryDirectory() as place:
        specs = [{"id": str(n), "task": suite.tasks[job.task].shown, "seed": job.seed} for n, job in enumerate(jobs)]
        ran = _said([code.format("supervisor"), str(SCAFFOLD), "-", "no-trace"], specs, place)
    with tempfile.TemporaryDirectory() as place:
        items = [
            {"id": row["id"], "grader": suite.tasks[jobs[int(row["id"])].task].grader, "files": row["files"]}
            for row in ran
        ]
        return _said([code.format("grade")], items, place)


def _said(words: list[str], items: list[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", *words], input="".join(json.dumps(item) + "\n" for item in items),
        capture_output=True, text=True, cwd=folder, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def overhead(sandbox: Sandbox, rounds: int = 3) -> dict[str, Any]:
    """Median over rounds of seconds isolated / seconds plain - 1; the scores must be the same."""
    suite = read_suite()
    evaluator = Evaluator(sandbox=sandbox, suite=suite)
    jobs = [Job(task=task, seed=1) for task in suite.of(Split.FIX)]
    evaluator.run(SCAFFOLD, jobs[:2])  # what is looked up once
    ratios, same = [], True
    for _ in range(rounds):
        started = time.perf_counter()
        isolated = evaluator.run(SCAFFOLD, jobs)
        between = time.perf_counter()
        loose = plain(suite, jobs)
        ratios.append((between - started) / (time.perf_counter() - between))
        same &= [outcome.score for outcome in isolated] == [row["score"] for row in loose]
    return {"overhead": statistics.median(ratios) - 1.0, "ratios": ratios, "same_scores": same, "episodes": len(jobs)}
