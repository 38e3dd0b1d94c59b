"""The dry run of a spec: a few steps twice, and once more from a checkpoint. Says what re-runs of it can show."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.backend import Launch
from contracts.errors import ConfigError
from contracts.events import CheckpointSaved, CodeExecuted, Event, Metrics, read_events, segment_folder
from control_plane.backends.command_registry import Registered
from control_plane.backends.segment import run_segment

_TINY = 1e-300
_GRACE_S = 20.0

Series = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """`spread`, `resume_spread`: largest relative difference between the runs, by series that differs at all.

    `resumed_from` None: no checkpoint was found before the last step, so going on from one was not tried.
    `lines_traced` False: verdicts on changes of code cannot be `proven`, since nobody knows which lines ran.
    """

    version: str
    steps: int
    first_step: int
    last_step: int
    series: tuple[str, ...]
    spread: Mapping[str, float]
    checkpoints: tuple[int, ...]
    resumed_from: int | None
    resume_spread: Mapping[str, float]
    files_executed: int
    lines_traced: bool
    wall_s: float  # of the first run

    @property
    def is_exact(self) -> bool:
        """True when nothing differed at all, so that a replay can be compared bit by bit."""
        return not self.spread and not self.resume_spread and self.resumed_from is not None


def probe(registered: Registered, project: Path, commit: str, home: Path) -> ProbeReport:
    """Run the spec on a checked-out project. ConfigError when a run fails or logs nothing; its folder then stays."""
    spec = registered.spec.probe
    folder = home / f"probe-{registered.version}"  # beside that of the runs: from there a run finds its spec
    shutil.rmtree(folder, ignore_errors=True)
    first = Launch(
        run_id="first",
        segment=0,
        run_folder="",
        project=str(project),
        code_version=commit,
        entry=registered.entry,
        overrides=dict(spec.overrides),
        max_step=spec.steps,
    )
    recorded, wall_s = _run(first, folder)
    again, _ = _run(replace(first, run_id="again"), folder)
    start = _newest_before(recorded, spec.steps)
    resumed = _run(replace(first, run_id="resumed", start_checkpoint=start.path), folder)[0] if start else []
    shutil.rmtree(folder)
    series = _series(recorded)
    steps = [step for points in series.values() for step in points]
    executed = [event for event in recorded if isinstance(event, CodeExecuted)]
    return ProbeReport(
        version=registered.version,
        steps=spec.steps,
        first_step=min(steps),
        last_step=max(steps),
        series=tuple(sorted(series)),
        spread=_spread(series, _series(again)),
        checkpoints=tuple(event.step for event in recorded if isinstance(event, CheckpointSaved)),
        resumed_from=start.step if start else None,
        resume_spread=_spread(_after(series, start.step), _series(resumed)) if start else {},
        files_executed=len({path for event in executed for path in event.modules}),
        lines_traced=any(event.lines for event in executed),
        wall_s=wall_s,
    )


def _newest_before(events: list[Event], step: int) -> CheckpointSaved | None:
    saved = [event for event in events if isinstance(event, CheckpointSaved) and event.step < step]
    return max(saved, key=lambda event: event.step, default=None)


def _run(wanted: Launch, folder: Path) -> tuple[list[Event], float]:
    """Events and seconds of one run, in a folder of its own beside the others."""
    launch = replace(wanted, run_folder=str(folder / wanted.run_id))
    launch.folder.mkdir(parents=True)
    outcome = run_segment(launch, cancel_grace_s=_GRACE_S)
    if outcome.reason != "completed":
        raise ConfigError(f"the dry run {outcome.reason}: {outcome.message}", remedy=outcome.remedy)
    log = segment_folder(launch.folder, launch.segment) / "events.log"
    return [read.event for read in read_events(log)], outcome.wall_s


def _series(events: list[Event]) -> Series:
    found: dict[str, dict[int, float]] = {}
    for event in events:
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                found.setdefault(name, {})[event.step] = value
    return found


def _after(series: Series, step: int) -> Series:
    """Without the steps up to `step`, and without the series that then are empty."""
    cut = {name: {s: value for s, value in points.items() if s > step} for name, points in series.items()}
    return {name: points for name, points in cut.items() if points}


def _spread(one: Series, two: Series) -> dict[str, float]:
    """Infinite where a point is missing in one of them."""
    found = {}
    for name in sorted(one.keys() | two.keys()):
        a, b = one.get(name, {}), two.get(name, {})
        largest = max((_difference(a.get(step), b.get(step)) for step in a.keys() | b.keys()), default=0.0)
        if largest > 0.0:
            found[name] = largest
    return found


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return float("inf")
    if a == b or (a != a and b != b):
        return 0.0
    return abs(a - b) / max(abs(a), abs(b), _TINY)
