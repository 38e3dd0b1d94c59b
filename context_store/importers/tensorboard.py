"""TensorBoard folders. One folder is one run; each further file is a restart, a parallel writer or another run.

Which of them only shows beside the others: all files of the folder are read, whichever is given.

Parallel: a file that was begun while the one before was still written, or that shares no training scalar with it (an
evaluation job). A run whose steps begin again from where the first file began is another run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from context_store.importers.boundaries import Change, Clock
from context_store.importers.formats import Format, Source, Tree, head, listing
from context_store.importers.items import Column, Columns, FoundRun, FoundSegment, Items, Problem
from context_store.importers.tfevents import Scalars, read_scalars
from contracts.events import Scalar

_MOMENT = re.compile(r"tfevents\.(\d+)")
_PARTS = {"train": "train", "validation": "eval", "val": "eval", "eval": "eval", "test": "test"}  # Keras' own folders
_EVAL = re.compile(r"(?:^|[/_])(?:eval|val|valid|validation|test)(?:[/_]|$)")
_VERSION = b"brain.Event:"


def find(tree: Tree) -> list[Source]:
    groups: dict[Path, list[Path]] = {}
    for path in tree.files:
        if _is_events(path):
            groups.setdefault(_folder(path), []).append(path)
    return [
        Source(files=tuple(sorted(_with_siblings(paths, folder, tree), key=_order))) for folder, paths in groups.items()
    ]


def read(source: Source) -> Items:
    yield from FolderReader(source).items()


def _is_events(path: Path) -> bool:
    return "tfevents" in path.name and (_VERSION in head(path)[:64] or not head(path))


def _with_siblings(paths: list[Path], folder: Path, tree: Tree) -> list[Path]:
    if tree.root.is_dir() and folder.is_relative_to(tree.root):
        return paths
    places = [folder, *(each for each in listing(folder) if each.name in _PARTS and each.is_dir())]
    others = [each for place in places for each in listing(place) if each.is_file() and _is_events(each)]
    known = {path.resolve() for path in paths}
    return [*paths, *(each for each in others if _folder(each) == folder and each.resolve() not in known)]


def _folder(path: Path) -> Path:
    """Keras writes `train` and `validation` below the folder of the run."""
    siblings = {each.name for each in listing(path.parent.parent)} if path.parent.name in _PARTS else set()
    is_part = path.parent.name in _PARTS and len(siblings & _PARTS.keys()) > 1
    return path.parent.parent if is_part else path.parent


def _order(path: Path) -> tuple[int, str]:
    match = _MOMENT.search(path.name)
    return (int(match[1]) if match else 0, str(path))


class FolderReader:
    """The files of one folder in the order in which they were begun."""

    def __init__(self, source: Source) -> None:
        self._files = source.files
        self._folder = _folder(source.files[0])
        self._clock = Clock()
        self._num_runs = 0
        self._segment = 0
        self._last_wall = 0.0
        self._trained: set[str] = set()
        self._config: dict[str, Scalar] = {}
        self._beside = False
        self._path = self._folder
        self._num_starts = 0  # in the file that is read

    def items(self) -> Items:
        for path in self._files:
            yield from self._file(path)

    def _file(self, path: Path) -> Items:
        prefix = f"{_PARTS[path.parent.name]}/" if path.parent != self._folder else ""
        clock_tag, purge = "", None
        self._path, self._num_starts = path, 0
        for batch in read_scalars(path):
            if isinstance(batch, Problem):
                yield batch
                continue
            for event in batch.events:
                self._config |= event.config
                purge = event.started_at_step if event.started_at_step else purge
            if not len(batch):
                continue
            if not clock_tag:
                clock_tag = _clock_tag(batch)
                self._beside = self._is_beside(batch, prefix)
                if not self._beside:
                    yield from self._open(batch, clock_tag, purge)
            yield from self._batch(batch, clock_tag, prefix)
            self._last_wall = max(self._last_wall, float(batch.wall.max()))

    def _is_beside(self, batch: Scalars, prefix: str) -> bool:
        """A parallel writer, or one that shares no training scalar with those before it."""
        training = {tag for tag in (f"{prefix}{tag}" for tag in batch.tags) if not _EVAL.search(tag)}
        beside = float(batch.wall[0]) < self._last_wall or not training & self._trained
        self._trained |= training
        return self._num_runs > 0 and beside

    def _open(self, batch: Scalars, clock_tag: str, purge: int | None) -> Items:
        """A file that goes on, or begins."""
        steps = batch.step[_rows_of(batch, clock_tag)]
        gaps = np.diff(steps)
        interval = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1
        change = self._clock.judge(int(steps[0]), False, restarted=True)
        step = int(steps[0]) if purge is None else purge
        yield from self._change(change, step, float(batch.wall[0]), midway=step > 2 * interval)
        self._clock.pass_to(int(steps[0]), False)

    def _batch(self, batch: Scalars, clock_tag: str, prefix: str) -> Items:
        """A clock that goes back inside a file is another start, too."""
        rows = np.empty(0, np.intp) if self._beside else _rows_of(batch, clock_tag)
        steps = batch.step[rows]
        begin = 0
        for index in [0, *(np.flatnonzero(np.diff(steps) < 0) + 1).tolist()] if len(rows) else []:
            step = int(steps[index])
            if index:
                self._clock.pass_to(int(steps[index - 1]), False)
            change = self._clock.judge(step, False)
            cut = _first_of_step(batch, int(rows[index]), begin)
            if change is not Change.NONE:
                yield from _columns(batch, slice(begin, cut), prefix)
                yield from self._change(change, step, float(batch.wall[cut]))
                begin = cut
            self._clock.pass_to(step, False)
        yield from _columns(batch, slice(begin, len(batch)), prefix)
        if len(rows):
            self._clock.pass_to(int(steps[-1]), False)

    def _change(self, change: Change, step: int, wall: float, *, midway: bool = False) -> Items:
        if change is Change.RUN:
            self._num_runs += 1
            self._segment, self._clock = 0, Clock()
            yield FoundRun(
                key=f"{self._folder.resolve()}#{self._num_runs}",
                name=self._folder.name if self._num_runs == 1 else f"{self._folder.name}-{self._num_runs}",
                project=self._folder.resolve().parent.name,
                origin=str(self._folder),
            )
            yield self._started(step - 1 if midway else 0, wall)
        elif change is Change.SEGMENT:
            self._segment += 1
            yield self._started(step - 1, wall)

    def _started(self, start_step: int, wall: float) -> FoundSegment:
        seed = self._config.get("seed")
        self._num_starts += 1
        return FoundSegment(
            number=self._segment,
            start_step=start_step,
            config=dict(self._config),
            seed=seed if isinstance(seed, int) else 0,
            started_at=wall,
            start=self._path.name if self._num_starts == 1 else f"{self._path.name}, start {self._num_starts} in it",
            origin=str(self._path),
        )


def _clock_tag(batch: Scalars) -> str:
    """The training scalar that was logged most often."""
    counts = Counter(dict(zip(batch.tags, np.bincount(batch.tag, minlength=len(batch.tags)).tolist(), strict=True)))
    training = {tag: count for tag, count in counts.items() if not _EVAL.search(tag)}
    return max(training or counts, key=lambda tag: (counts[tag], tag))


def _rows_of(batch: Scalars, tag: str) -> NDArray[np.intp]:
    return np.flatnonzero(batch.tag == batch.tags.index(tag)) if tag in batch.tags else np.empty(0, np.intp)


def _first_of_step(batch: Scalars, row: int, begin: int) -> int:
    """Other scalars of the same step may stand before the clock's."""
    while row > begin and batch.step[row - 1] == batch.step[row]:
        row -= 1
    return row


def _columns(batch: Scalars, rows: slice, prefix: str) -> Iterator[Columns]:
    tag, step, value = batch.tag[rows], batch.step[rows], batch.value[rows]
    if not len(tag):
        return
    order = np.argsort(tag, kind="stable")
    present, begin = np.unique(tag[order], return_index=True)
    ends = [*begin[1:].tolist(), len(order)]
    columns: Mapping[str, Column] = {
        f"{prefix}{batch.tags[number]}": (step[order[lo:hi]], value[order[lo:hi]])
        for number, lo, hi in zip(present.tolist(), begin.tolist(), ends, strict=True)
    }
    yield Columns(columns=columns)


FORMAT = Format(name="TensorBoard events", find=find, read=read)
