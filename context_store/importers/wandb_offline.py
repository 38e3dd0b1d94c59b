"""W&B offline folders: `run-ID.wandb` with what lies beside it. No wandb, no server.

All folders of one run id are one run, each a start of it: whichever is given, those beside it are read too. `_step`
counts calls of `log` and begins again on a resume, so the x axis is the one that the run defined, else a logged
training step, and only without both `_step`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_store.importers.boundaries import Change, Clock
from context_store.importers.collector import Collector
from context_store.importers.configs import flat, read_mapping
from context_store.importers.formats import Format, Source, Tree, head, listing
from context_store.importers.items import Ended, Fact, FoundRun, FoundSegment, Items, Problem
from context_store.importers.wandb_frames import MAGIC, read_records
from context_store.importers.wandb_records import Description, describe, history_of, metadata, row_of
from contracts.enums import RunState, TimelineKind
from contracts.events import Scalar

_AXES = ("train/global_step", "global_step", "trainer/global_step", "train/update_step", "update_step", "train/step")
_BESIDE = {"config.yaml", "wandb-metadata.json", "wandb-summary.json", "requirements.txt", "output.log", "diff.patch"}
_FOLDERS = {"files", "logs", "tmp"}
_FOLDER_TIME = re.compile(r"run-(\d{8}_\d{6})")
_PACKAGE = re.compile(r"^([\w.-]+)==(\S+)$")
CLOCKS = ("_step", "_timestamp", "_runtime")


@dataclass(kw_only=True)
class Start:
    """One folder: one start of the run."""

    folder: Path
    log: Path | None
    found: Description = field(default_factory=Description)
    summary: dict[str, Any] = field(default_factory=dict)
    uncommitted_sha256: str = ""
    problems: list[Problem] = field(default_factory=list)
    rows: Callable[[], Iterator[dict[str, float]]] | None = None  # instead of the log: of a server

    @property
    def identity(self) -> str:
        """Of the start, wherever its folder lies; that of the folder when the log does not say it any more."""
        return self.found.start or self.folder.name

    @property
    def is_damaged(self) -> bool:
        return any(problem.file == str(self.log) for problem in self.problems)

    @property
    def soundness(self) -> tuple[bool, int]:
        """Orders copies of one start: undamaged before damaged, then the longer log."""
        return (not self.is_damaged, self.log.stat().st_size if self.log else 0)


def find(tree: Tree) -> list[Source]:
    by_run: dict[str, list[Path]] = {}
    for path in tree.files:
        if path.suffix == ".wandb" and head(path).startswith(MAGIC):
            by_run.setdefault(path.stem.removeprefix("run-"), []).append(path)
    logged = {path.parent for paths in by_run.values() for path in paths}
    found = [_source(tree, sorted(_with_siblings(paths, tree), key=_order)) for paths in by_run.values()]
    for path in tree.files:
        folder = path.parent.parent if path.parent.name in _FOLDERS else path.parent
        if path.name == "wandb-metadata.json" and folder not in logged:
            found.append(_source(tree, [path]))
    return found


def read(source: Source) -> Items:
    starts = [_describe(path) for path in source.files]
    for start in starts:
        yield from start.problems
    starts, copies = _in_order(starts)
    yield from copies
    first = starts[0]
    name = next((start.found.name for start in starts if start.found.name), "") or _id_of(first)
    yield FoundRun(
        key=f"wandb:{_id_of(first)}",
        name=name,
        project=first.found.project or _declared_project(first) or first.folder.parent.name,
        origin=str(first.folder),
        names={clock: clock for clock in CLOCKS},
    )
    yield from RunReader(starts).items()


def _source(tree: Tree, paths: list[Path]) -> Source:
    folders = {path.parent.parent if path.parent.name in _FOLDERS else path.parent for path in paths}
    beside = [
        path
        for path in tree.files
        if path not in paths
        and ((path.parent in folders and path.name in _BESIDE) or any(_is_inside(path, each) for each in folders))
    ]
    return Source(files=tuple(paths), companions=tuple(beside))


def _is_inside(path: Path, folder: Path) -> bool:
    return any(path.is_relative_to(folder / name) for name in _FOLDERS)


def _order(path: Path) -> tuple[str, str]:
    match = _FOLDER_TIME.search(path.parent.name)
    return (match[1] if match else "", str(path))


def _with_siblings(paths: list[Path], tree: Tree) -> list[Path]:
    """The starts beside those that were given alone: a start by itself does not say which of the run it is."""
    given, known = tree.folder.resolve(), {path.resolve() for path in paths}
    beside = []
    for runs in {path.parent.parent for path in known}:
        if not runs.is_relative_to(given):
            folders = [each for each in listing(runs) if each.is_dir() and not each.is_symlink()]
            others = [folder / paths[0].name for folder in folders]
            beside += [each for each in others if each not in known and head(each).startswith(MAGIC)]
    return [*paths, *beside]


def _in_order(starts: list[Start]) -> tuple[list[Start], list[Problem]]:
    """By time, each once: of copies of one start the one that has most to read."""
    if all(start.found.started_at for start in starts):
        starts = sorted(starts, key=lambda start: start.found.started_at)
    best: dict[str, Start] = {}
    for start in starts:
        if start.identity not in best or start.soundness > best[start.identity].soundness:
            best[start.identity] = start
    copies = [start for start in starts if best[start.identity] is not start]
    problems = [
        Problem(file=str(each.log), position="the file", what=f"a copy of {best[each.identity].log}; left out")
        for each in copies
    ]
    return [start for start in starts if best[start.identity] is start], problems


def _id_of(start: Start) -> str:
    if start.found.run_id:
        return start.found.run_id
    return start.log.stem.removeprefix("run-") if start.log else start.folder.name.rpartition("-")[2]


def _declared_project(start: Start) -> str:
    """A command line or configuration often names it, when the log itself is gone."""
    named = (start.found.environment.get("args.wandb_project"), start.found.config.get("wandb_project"))
    return next((name for name in named if isinstance(name, str)), "")


# --- describing a start


def _describe(path: Path) -> Start:
    log = path if path.suffix == ".wandb" else None
    folder = path.parent.parent if path.parent.name in _FOLDERS else path.parent
    start = Start(folder=folder, log=log)
    if log is not None:
        _read_descriptions(log, start)
    for name, take in (("wandb-metadata.json", _metadata), ("config.yaml", _config), ("wandb-summary.json", _summary)):
        for place in (folder, folder / "files"):
            if (place / name).is_file():
                try:
                    take(start, read_mapping(place / name))
                except (OSError, ValueError) as error:
                    problem = Problem(file=str(place / name), position="the file", what=str(error)[:300])
                    start.problems.append(problem)
    _packages(start)
    patch = next(
        (place / "diff.patch" for place in (folder, folder / "files") if (place / "diff.patch").is_file()), None
    )
    if patch is not None and patch.stat().st_size:
        start.uncommitted_sha256 = hashlib.sha256(patch.read_bytes()).hexdigest()
    return start


def _read_descriptions(log: Path, start: Start) -> None:
    for record in read_records(log):
        if isinstance(record, Problem):
            start.problems.append(record)
        elif history_of(record) is None:
            try:
                describe(record, start.found)
            except ValueError as error:
                start.problems.append(Problem(file=str(log), position="a record", what=f"damaged: {error}"))


def _metadata(start: Start, content: dict[str, Any]) -> None:
    start.found.environment = metadata(content) | start.found.environment


def _config(start: Start, content: dict[str, Any]) -> None:
    for key, entry in content.items():
        if key not in ("_wandb", "wandb_version"):
            start.found.config[key] = entry["value"] if isinstance(entry, dict) and "value" in entry else entry


def _summary(start: Start, content: dict[str, Any]) -> None:
    start.summary = {key: value for key, value in content.items() if key != "_wandb"}


def _packages(start: Start) -> None:
    for place in (start.folder, start.folder / "files"):
        path = place / "requirements.txt"
        if path.is_file():
            lines = path.read_text(errors="replace").splitlines()
            found = [match for line in lines if (match := _PACKAGE.match(line.strip()))]
            start.found.environment |= {f"package.{match[1]}": match[2] for match in found}


# --- reading its history


class RunReader:
    """All starts of one run."""

    def __init__(self, starts: Sequence[Start]) -> None:
        self._starts = starts
        self._clock = Clock()
        self._collector = Collector()
        self._segment = -1
        self._axis = ""
        self._last = -1  # the last step on the axis
        self._is_lost = False  # rows are missing since the last step on the axis
        self._unplaced = 0
        self._beside_axis = 0

    def items(self) -> Items:
        for number, start in enumerate(self._starts):
            begun = False
            for row in self._rows(start):
                self._choose_axis(row, start)
                step = self._step_of(row)
                if step is None:
                    self._unplaced += 1
                    continue
                if not begun:
                    yield self._begin(start, step)
                    begun = True
                yield from self._add(row, step, start)
            if not begun:
                yield self._begin(start, 0 if self._last < 0 else self._last + 1)
            yield from self._end(start, last=number == len(self._starts) - 1)

    def _rows(self, start: Start) -> Iterator[dict[str, float]]:
        if start.rows is not None:
            yield from start.rows()
        for record in read_records(start.log) if start.log else ():
            history = None if isinstance(record, Problem) else history_of(record)
            self._is_lost = self._is_lost or isinstance(record, Problem)
            if history is not None:
                try:
                    yield row_of(history)
                except (ValueError, IndexError):
                    self._unplaced += 1

    def _choose_axis(self, row: dict[str, float], start: Start) -> None:
        if not self._axis:
            defined = [metric for metric in start.found.step_metrics.values() if metric in row]
            logged = [axis for axis in _AXES if axis in row and row[axis].is_integer()]
            self._axis = next(iter(defined + logged), "_step")

    def _step_of(self, row: dict[str, float]) -> int | None:
        value = row.get(self._axis)
        if value is not None and value.is_integer() and abs(value) < 2**63:
            self._last, self._is_lost = int(value), False
            return self._last
        if self._last < 0 or self._is_lost:
            return None
        self._beside_axis += 1
        return self._last

    def _add(self, row: dict[str, float], step: int, start: Start) -> Items:
        own = start.found.step_metrics
        if not own:
            self._collector.add(step, row)
            if self._collector.is_full:
                yield from self._collector.take()
            return
        placed: dict[int, dict[str, float]] = {}
        for name, value in row.items():
            axis = own.get(name) or next((own[each] for each in own if "*" in each and fnmatch.fnmatch(name, each)), "")
            at = row.get(axis, float("nan")) if axis else float("nan")
            placed.setdefault(int(at) if at.is_integer() and abs(at) < 2**63 else step, {})[name] = value
        for at_step, values in placed.items():
            self._collector.add(at_step, values)
        if self._collector.is_full:
            yield from self._collector.take()

    def _begin(self, start: Start, step: int) -> FoundSegment:
        self._segment += 1
        change = self._clock.judge(step, False, restarted=True)
        fresh = self._segment == 0 or change is Change.RUN
        found = start.found
        config: dict[str, Scalar] = flat(found.config)
        commit = str(found.environment.get("git.commit", ""))
        self._clock.pass_to(step, False)
        seed = config.get("seed")
        return FoundSegment(
            number=self._segment,
            start_step=0 if fresh else max(0, step - 1),
            config=config,
            environment=found.environment | {"x_axis": self._axis or "_step"},
            code_version="" if start.uncommitted_sha256 else commit,
            seed=seed if isinstance(seed, int) else 0,
            started_at=found.started_at,
            start=start.identity,
            origin=str(start.folder),
            is_damaged=start.is_damaged,
        )

    def _end(self, start: Start, *, last: bool) -> Items:
        yield from self._collector.take()
        yield from self._facts(start)
        found = start.found
        if found.exit_code is None:
            killed = "no exit record: it was killed, or is still running"
            yield Ended(state=RunState.STOPPED, message=killed if start.log else "only its files are there, no log")
        else:
            at = found.started_at + found.runtime_s if found.started_at and found.runtime_s else None
            state = RunState.COMPLETED if found.exit_code == 0 else RunState.FAILED
            yield Ended(state=state, message=f"exit code {found.exit_code}" if found.exit_code else "", at=at)
        if last and self._unplaced:
            what = f"{self._unplaced} rows are damaged or have no step"
            yield Problem(file=str(start.log), position="the history", what=what)

    def _facts(self, start: Start) -> Iterator[Fact]:
        step = max(0, self._last)
        if start.summary:
            detail = json.loads(json.dumps(start.summary))
            yield Fact(step=step, kind=TimelineKind.EVAL, title="final summary", detail=detail)
        if start.uncommitted_sha256:
            title = "the working tree had uncommitted changes: the recorded commit is not what ran"
            detail = {"recorded_commit": start.found.environment.get("git.commit", "")}
            yield Fact(step=0, kind=TimelineKind.CODE, title=title, detail=detail | {"diff": start.uncommitted_sha256})
        if start.found.forked_from:
            yield Fact(step=step, kind=TimelineKind.FORK, title=f"forked from W&B run {start.found.forked_from}")
        for title, text in start.found.alerts:
            yield Fact(step=step, kind=TimelineKind.NOTE, title=f"alert: {title}", detail={"text": text})
        if self._beside_axis:
            title = f"{self._beside_axis} rows have no {self._axis}; they stand at the last one before them"
            yield Fact(step=step, kind=TimelineKind.NOTE, title=title)
            self._beside_axis = 0


FORMAT = Format(name="W&B offline", find=find, read=read)
