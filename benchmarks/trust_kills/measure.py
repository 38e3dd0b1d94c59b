"""The storm over several waves of jobs, a calm wave as the reference, and what witnesses outside the database counted.

Keys: `lost` (jobs or logged points that were accepted and are not there), `repeated_effects` (branches made twice,
segments begun or ended twice, messages received twice that no key tells apart, edges passed twice),
`different_outcomes` (waves that ended otherwise than the calm one), `resume_p99_s`.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.place import place
from benchmarks.trust_kills.jobs import Desk, Person, Wave, branch_log, outcome, train_bad_run
from benchmarks.trust_kills.storm import Storm, crew
from benchmarks.trust_parts.project import make_project
from benchmarks.trust_parts.receiver import receiver
from context_store import Store
from context_store.experiments import EDGES, Edge
from contracts.events import Finished, Metrics, SegmentStarted, read_events, segment_folder
from control_plane.run_folders import segment_numbers, segment_owner
from control_plane.wiring import Lathe

KILLS_A_BATCH = 20
_CALM_S = 100.0


def measure(folder: Path, kills: int = 100, seed: int = 1) -> dict[str, Any]:
    """Batches of a calm wave and two stormed ones, each let end; resumable: finished batches are kept in `folder`."""
    batches, record = [], folder / "batches.json"
    kept = json.loads(record.read_text()) if record.exists() else []
    for number in range(math.ceil(kills / KILLS_A_BATCH)):
        if number < len(kept):
            batches.append(kept[number])
            continue
        share = min(KILLS_A_BATCH, kills - KILLS_A_BATCH * number)
        batches.append(_batch(folder / f"batch-{number}", share, seed + number))
        record.write_text(json.dumps(batches))
        sys.stderr.write(f"{json.dumps(batches[-1])}\n")
    return _sum(batches)


def _batch(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """One calm wave, then a storm over two others, in a home of its own; one that was cut short begins anew."""
    shutil.rmtree(folder, ignore_errors=True)
    small = make_project(folder / "project")
    with place(folder) as found, Lathe.open(found.settings) as lathe, receiver() as inbox:
        desk = Desk(lathe=lathe, small=small, person=Person(found), receiver=inbox)
        calm, *stormy = waves = [Wave(name=name) for name in ("calm", "storm-1", "storm-2")]
        for wave in waves:
            train_bad_run(lathe, small, wave)
        with crew(found, waves) as processes:
            desk.begin(calm)
            missing = Storm(processes, desk, [calm], random.Random(seed)).calm(_CALM_S)
            for wave in stormy:
                desk.begin(wave)
            storm = Storm(processes, desk, stormy, random.Random(seed))
            storm.run(kills)
            missing += storm.calm(_CALM_S)
        lathe.shipper.catch_up(0.0)
        whole = [wave for wave in waves if wave not in missing]
        outcomes = {wave.name: outcome(desk, wave) for wave in whole}
        differing = [name for name, found in outcomes.items() if found != outcomes.get(calm.name)]
        return {
            "kills": kills,
            "kills_by_victim": Counter(victim for victim, _ in storm.resumes),
            "resumes_s": [[victim, round(seconds, 3)] for victim, seconds in storm.resumes],
            "lost": [f"job {wave.name}" for wave in missing] + lost_points(lathe.store),
            "repeated_effects": repeated(desk, waves),
            "repeated_posts": repeated_posts(desk, waves),
            "different_outcomes": [_difference(outcomes[name], outcomes[calm.name]) for name in differing],
            "jobs": 5 * len(waves),
        }  # fmt: skip


def lost_points(store: Store) -> list[str]:
    """Steps that stand in a run folder and not, with the same values, in the store."""
    lost = []
    for run in store.runs.list(limit=500):
        for number in segment_numbers(Path(run.folder)):
            logged = {
                read.event.step: read.event.values
                for read in read_events(segment_folder(Path(run.folder), number) / "events.log")
                if isinstance(read.event, Metrics)
            }
            full = store.series.read(run.id, "loss", view="full")
            stored = {
                int(step): float(value)
                for step, value, segment in zip(full.steps, full.values, full.segments, strict=True)
                if segment == number
            }
            if stored != {step: values["loss"] for step, values in logged.items()}:
                lost.append(f"points of {run.id} segment {number}: {len(stored)} of {len(logged)}")
    return lost


def repeated(desk: Desk, waves: Sequence[Wave]) -> list[str]:
    """By git's own log, by the run folders, by what came over the wire, and by the marks of the experiments."""
    found = []
    for wave in waves:
        made = branch_log(desk.small, f"lathe/job-{wave.name}")
        found += [f"branch of {wave.name} made {len(made)} times"] if len(made) > 1 else []
        keys = Counter(post.key for post in desk.receiver.posts if post.text == wave.name)
        found += [f"{len(keys)} messages of {wave.name}"] if len(keys) > 1 else []
        found += _edges(desk.store, wave)
    for run in desk.store.runs.list(limit=500):
        found += _segments(Path(run.folder))
    return found


def repeated_posts(desk: Desk, waves: Sequence[Wave]) -> int:
    """Messages that came again under the key of the first: a receiver that knows the key drops them."""
    return sum(max(0, desk.receiver.count(wave.name) - 1) for wave in waves)


def _segments(folder: Path) -> list[str]:
    """One segment for each owner, begun once and ended at most once."""
    numbers = segment_numbers(folder)
    owners = Counter(segment_owner(folder, number) for number in numbers)
    found = [f"{folder.name}: {count} segments of {owner}" for owner, count in owners.items() if count > 1]
    for number in numbers:
        events = [read.event for read in read_events(segment_folder(folder, number) / "events.log")]
        for kind in (SegmentStarted, Finished):
            times = sum(isinstance(event, kind) for event in events)
            found += [f"{folder.name} segment {number}: {times} {kind.__name__}"] if times > 1 else []
    return found


def _edges(store: Store, wave: Wave) -> list[str]:
    steps = store.experiments.history(wave.experiment_id)
    outer = [step for step in steps if EDGES[step.before, step.after] is Edge.OUTER]
    numbers = [step.sequence for step in steps]
    proposals = {step.proposal_id for step in outer}
    wrong = numbers != list(range(len(steps))) or None in proposals or len(proposals) != len(outer)
    return [f"edges of {wave.experiment_id}: {numbers}"] if wrong else []


def _difference(found: dict[str, Any], calm: dict[str, Any]) -> dict[str, Any]:
    return {name: [found[name], calm[name]] for name in found if found[name] != calm[name]}


def _sum(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds = sorted(each[1] for batch in batches for each in batch["resumes_s"])
    by_victim: Counter[str] = Counter()
    for batch in batches:
        by_victim.update(batch["kills_by_victim"])
    slowest = max((each for batch in batches for each in batch["resumes_s"]), key=lambda each: each[1])
    faults = {name: [each for b in batches for each in b[name]] for name in _FAULTS}
    return {
        "kills": sum(batch["kills"] for batch in batches),
        "kills_by_victim": dict(by_victim),
        **{name: len(found) for name, found in faults.items()},
        "first_faults": [each for found in faults.values() for each in found][:5],
        "repeated_posts": sum(batch["repeated_posts"] for batch in batches),
        "jobs": sum(batch["jobs"] for batch in batches),
        "resume_p50_s": seconds[len(seconds) // 2],
        "resume_p99_s": seconds[math.ceil(0.99 * len(seconds)) - 1],
        "resume_worst_s": _worst(batches),
        "slowest_resume": slowest,
    }


def _worst(batches: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds by who was killed."""
    found: dict[str, float] = {}
    for victim, seconds in (each for batch in batches for each in batch["resumes_s"]):
        found[victim] = max(seconds, found.get(victim, 0.0))
    return found


_FAULTS = ("lost", "repeated_effects", "different_outcomes")
