"""A real small language model (SmolLM2 135M, extra `local-llm`) under all protocols in words: the gap table.

What it shows is how far protocols move one model, and which outputs could not be read; nothing about the model. Its
server gives no log-likelihoods of given texts, so `ppl_acc_norm` is named as not run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.local_brain import NAME, is_installed, local_server
from context_store.canonical import content_hash
from loops.evals.endpoint import Endpoint
from loops.evals.gaps import findings
from loops.evals.model import Asked, Written
from loops.evals.protocol import PROTOCOLS, Mode, Protocol
from loops.evals.run import Evaluation, evaluate, save
from loops.evals.task import Task
from loops.evals.tasks import generated
from loops.potential.maximum import corrected_maximum

_MAX_TOKENS = 48
_CHAT = ("0_shot_answer_is", "0_shot_boxed", "0_shot_direct")


@dataclass(frozen=True, kw_only=True)
class _Resumed(Endpoint):
    """Keeps each answer, so that an interrupted run goes on."""

    kept: Path

    def write(self, asked: Sequence[Asked]) -> list[Written]:
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        known = dict(map(json.loads, self.kept.read_text().splitlines())) if self.kept.exists() else {}
        keys = [content_hash(asdict(each)) for each in asked]
        with self.kept.open("a") as file:
            for number, (key, each) in enumerate(zip(keys, asked, strict=True), start=1):
                if key not in known:
                    known[key] = asdict(super().write([each])[0])
                    file.write(json.dumps([key, known[key]]) + "\n")
                    file.flush()
                sys.stderr.write(f"\r{number}/{len(asked)}")
        return [Written(**known[key]) for key in keys]


def gap_table(num_items: int, folder: Path) -> dict[str, Any]:
    """A row a protocol over the same items, and what the differences are flagged as."""
    if not is_installed():
        return {"local": "not run: the extra local-llm is not installed"}
    task = generated.task("math", "add", num_items)
    with local_server(num_threads=1) as base_url:
        model = _Resumed(
            base_url=base_url, name=NAME.partition("/")[2], sleep=time.sleep, kept=folder / "answers.jsonl"
        )
        done = [evaluate(task, each, model) for each in _protocols(task)]
    rows = [_row(each, folder) for each in done]
    best = corrected_maximum({each.protocol.name: each.right[None] for each in done})
    return {
        "local_items": num_items,
        "local_rows": rows,
        "local_spread_pts": max(row["accuracy"] for row in rows) - min(row["accuracy"] for row in rows),
        "local_best": f"{best.protocol}: corrected {best.value:.1f} ({best.low:.1f} to {best.high:.1f}), "
        f"largest mean {best.naive:.1f}",
        "local_findings": list(findings(done)),
        "local_not_run": "ppl_acc_norm: the server echoes no log-likelihoods",
    }


def _protocols(task: Task) -> Sequence[Protocol]:
    words = [each for each in PROTOCOLS if each.mode is Mode.GENERATION and each.shots <= len(task.examples)]
    cut = [replace(each, max_tokens=min(each.max_tokens, _MAX_TOKENS)) for each in words]
    return cut + [replace(each, name=f"{each.name}_chat", chat=True) for each in cut if each.name in _CHAT]


def _row(done: Evaluation, folder: Path) -> dict[str, Any]:
    path, _ = save(done, folder)
    by_extractor = {name: 100.0 * float(np.mean(done.right_by(name))) for name in done.outputs[0].by_extractor}
    return {
        "protocol": done.protocol.name,
        "accuracy": round(100.0 * done.accuracy, 1),
        "stderr": round(100.0 * done.stderr, 1),
        "unparsed": round(100.0 * done.unparsed, 1),
        "wrong": round(100.0 * done.wrong, 1),
        "disagreement": round(100.0 * done.disagreement, 1),
        "by_extractor": {name: round(value, 1) for name, value in by_extractor.items()},
        "raw": str(path),
    }
