"""One diagnosis: 130 commits x 106 configuration fields x 48 layers, joined and ranked."""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from context_store import Store
from context_store.records import NewRun, Project
from contracts.enums import RunRole
from contracts.errors import LatheError
from contracts.events import CheckpointSaved, Event, Finished, Metrics, Scalar, SegmentStarted, encode, segment_folder
from loops.debug import detect, open_case
from loops.debug.case import load_case

COMMITS, FIELDS, LAYERS = 130, 106, 48
_RESUME, _LAST, _ROUNDS = 120, 240, 5
_SECTIONS = ("moe.balance", "moe.router", "optim.head", "optim.norm", "data", "model", "parallel", "schedule", "log")
_FIELD_NAMES = tuple(f"{_SECTIONS[i % len(_SECTIONS)]}.field_{i}" for i in range(FIELDS))


def measure_join(store: Store, folder: Path) -> dict[str, Any]:
    """Fills the store. `join_s`: from the findings to all suspects, ranked with reasons and the fields they read.

    That is: the case is opened, which links changes of code, fields and statistics (`link_s`), and read with all that
    could explain it (median of rounds). `join_through_fields`: suspects that bear on the finding through a field.
    """
    commits = _history(folder / "repository")
    store.projects.put(Project(id="p", path=str(folder / "repository")))
    began = time.perf_counter()
    store.code.ingest("p", folder / "repository")
    ingest_s = time.perf_counter() - began
    _train(store, folder / "run", commits)
    began = time.perf_counter()
    findings = detect(store, "run")
    detect_s = time.perf_counter() - began
    began = time.perf_counter()
    case_id = open_case(store, "run", findings, at=1.0)
    link_s = time.perf_counter() - began
    if case_id is None:
        raise LatheError("nothing was found", remedy="the generated run has to show its imbalance")
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        case = load_case(store, case_id)
        times.append(time.perf_counter() - began)
    return {
        "join_s": link_s + statistics.median(times),
        "link_s": link_s,
        "join_through_fields": sum(bool(ranked.fields) for ranked in case.ranked),
        "join_suspects": len(case.ranked),
        "join_first": case.ranked[0].factor.title if case.ranked else None,
        "detect_s": detect_s,
        "ingest_130_commits_s": ingest_s,
    }


def _history(repository: Path) -> list[str]:
    """A repository of 130 commits to twelve modules; all but the first ten come into force at the resume.

    Each commit adds a function that reads one of the fields.
    """
    repository.mkdir()

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments]
        return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    commits = []
    for number in range(COMMITS):
        module = repository / f"module_{number % 12}.py"
        lines = module.read_text().splitlines() if module.exists() else []
        place = f"def balance_penalty_{number}(probs, load, config):\n    scale_{number} = {number}.0\n"
        read = f"    return scale_{number} * config.{_FIELD_NAMES[number % FIELDS]} * (probs * load).sum()\n"
        module.write_text("\n".join([*lines, place, read]))
        git("add", "-A")
        git("commit", "-q", "-m", f"module {number % 12}: change {number}")
        commits.append(git("rev-parse", "HEAD"))
    return commits


def _train(store: Store, folder: Path, commits: list[str]) -> None:
    """Two segments; at the resume half of the fields change, and two layers lose their balance."""
    store.runs.create(NewRun(id="run", project_id="p", name="run", role=RunRole.TRAINING, folder=str(folder)))
    rng = np.random.default_rng(0)
    for number, (start, end, code) in enumerate([(0, _RESUME, commits[9]), (_RESUME, _LAST, commits[-1])]):
        started = SegmentStarted(
            run_id="run", segment=number, start_step=start, code_version=code, seed=1, dp_size=4,
            start_checkpoint=f"{folder}/step-{start}" if start else "", config=_config(number),
            environment={"python": "3"}, wall_time=1.0 + start,
        )  # fmt: skip
        events: list[Event] = [started]
        events += [Metrics(step=step, values=_values(rng, step, number)) for step in range(start + 1, end + 1)]
        events.append(CheckpointSaved(step=end, path=f"{folder}/step-{end}", sha256=f"{end:064x}", size_bytes=1))
        events.append(Finished(step=end, reason="completed"))
        log = segment_folder(folder, number) / "events.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"".join(encode(event) for event in events))
    store.ingest.ship("run", folder)


def _config(segment: int) -> dict[str, Scalar]:
    return {name: i + segment * (i % 2) for i, name in enumerate(_FIELD_NAMES)}


def _values(rng: np.random.Generator, step: int, segment: int) -> dict[str, float]:
    values = {"loss": 4.0 - 0.002 * step + 0.01 * rng.normal()}
    for layer in range(LAYERS):
        lost = 3.0 if segment and layer in (15, 18) else 0.0
        values[f"max_vio/layers.{layer}"] = 1.0 + lost + 0.05 * rng.normal()
        values[f"grad_norm/layers.{layer}.router"] = 0.1 + 0.005 * rng.normal()
    return values
