"""Rows in the order of a log become runs and segments. Holds one piece of points at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from context_store.importers.boundaries import Change, Clock
from context_store.importers.collector import Collector
from context_store.importers.items import Columns, Ended, Fact, FoundRun, FoundSegment, Items
from contracts.enums import RunState
from contracts.events import Scalar

_MIDWAY = 1000  # a first step beyond any logging interval: the log begins in the middle of a training


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known when a segment begins. `checkpoint_step`: steps completed in the checkpoint it was started from.

    `first_row`: as it stands in the source, which tells this start from others.
    """

    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    code_version: str = ""
    checkpoint: str = ""
    checkpoint_step: int | None = None
    started_at: float = 0.0
    first_row: str = ""
    file: str = ""


class RowRuns:
    """`known` is asked at each beginning of a segment, `facts` at that of a run, `closing` at the end of a segment."""

    def __init__(
        self,
        origin: Path,
        *,
        name: str = "",
        names: Mapping[str, str] | None = None,
        known: Callable[[], Known] = Known,
        facts: Callable[[], Iterator[Fact]] = lambda: iter(()),
        closing: Callable[[], Iterator[Fact]] = lambda: iter(()),
    ) -> None:
        self._origin = origin
        self._name = name or origin.stem
        self._names = names or {}
        self._known, self._facts, self._closing = known, facts, closing
        self._clock = Clock()
        self._collector = Collector()
        self._segment = 0
        self._total: int | None = None
        self.num_runs = 0

    def row(
        self,
        step: int,
        values: Mapping[str, float],
        *,
        is_eval: bool = False,
        total: int | None = None,
        restarted: bool = False,
    ) -> Items:
        """One row of the training's own log. `restarted`: a process started since the last row."""
        change = self._clock.judge(step, is_eval, restarted=restarted)
        if change is Change.RUN:
            yield from self._begin_run(step, total)
        elif change is Change.SEGMENT:
            yield from self._end_segment(last=False)
            self._segment += 1
            yield self._started(step - 1)
        self._clock.pass_to(step, is_eval)
        self._total = total or self._total
        yield from self.more(step, values)

    def more(self, step: int, values: Mapping[str, float]) -> Iterator[Columns]:
        """Values that do not move the clock, of other ranks for instance."""
        self._collector.add(step, values)
        if self._collector.is_full:
            yield from self._collector.take()

    def end(self, ended: Ended | None = None) -> Items:
        """After the last row; `ended`: what the source says about it."""
        if self.num_runs:
            yield from self._end_segment(last=True, ended=ended)

    def _begin_run(self, step: int, total: int | None) -> Items:
        if self.num_runs:
            yield from self._end_segment(last=False)
        self.num_runs += 1
        self._segment, self._clock, self._total = 0, Clock(), total
        yield FoundRun(
            key=f"{self._origin.resolve()}#{self.num_runs}",
            name=self._name if self.num_runs == 1 else f"{self._name}-{self.num_runs}",
            project=self._origin.resolve().parent.name,
            origin=str(self._origin),
            names=self._names,
        )
        is_midway = step > _MIDWAY or (total is not None and step > max(1, total // 10))
        yield self._started(step - 1 if is_midway else 0)
        yield from self._facts()

    def _started(self, start_step: int) -> FoundSegment:
        known = self._known()
        config = dict(known.config)
        if self._total is not None:
            config.setdefault("total_steps", self._total)
        seed = config.get("seed")
        return FoundSegment(
            number=self._segment,
            start_step=start_step if known.checkpoint_step is None else known.checkpoint_step,
            config=config,
            environment=known.environment,
            code_version=known.code_version,
            seed=seed if isinstance(seed, int) else 0,
            start_checkpoint=known.checkpoint,
            started_at=known.started_at,
            start=hashlib.sha256(known.first_row.encode("utf-8", "backslashreplace")).hexdigest()[:16],
            origin=known.file,
        )

    def _end_segment(self, *, last: bool, ended: Ended | None = None) -> Items:
        yield from self._collector.take()
        yield from self._closing()
        if ended is not None:
            yield ended
        elif self._total is not None and self._clock.last >= self._total:
            yield Ended(state=RunState.COMPLETED)
        elif not last:
            yield Ended(state=RunState.STOPPED, message="another start follows in the same log")
