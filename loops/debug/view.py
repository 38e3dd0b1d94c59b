"""A run as plain arrays: what every detector and measure reads. Built from the store, or by hand in tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from context_store import Store
from context_store.records import SeriesMatrix
from contracts.events import Scalar

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

_LOSSES = ("lm_loss", "loss")
SCALES = ("loss_scale", "amp/scale", "grad_scale")  # of a mixed-precision training
_LAYER = re.compile(r"layers\.(\d+)(?=\.|/|$)")


@dataclass(frozen=True, kw_only=True)
class SegmentView:
    """One start or resume. Steps `start_step + 1` .. `last_step` were made by it.

    `declared` and `effective` are flat configs with dotted keys; `effective` is what was last used in the segment,
    `moving` the keys of it that changed on the way.
    """

    number: int
    start_step: int
    last_step: int
    code_version: str
    seed: int = 0
    dp_size: int = 1
    start_checkpoint: str = ""
    declared: Mapping[str, Scalar] = field(default_factory=dict)
    effective: Mapping[str, Scalar] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()
    environment: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One statistic over the layers: `values` [L, S] on the run's steps, `template` with `*` for the layer."""

    template: str
    layers: tuple[int, ...]
    names: tuple[str, ...]
    values: Floats


@dataclass(frozen=True, kw_only=True)
class ParentView:
    """Losses and loss scale of the run that a run was forked from at `step`; (code version, seed, declared) as then."""

    step: int
    steps: Steps
    values: Mapping[str, Floats]
    setting: tuple[str, int, dict[str, Scalar]]

    def series(self, name: str) -> tuple[Steps, Floats]:
        """The finite points of one loss."""
        keep = np.isfinite(self.values[name])
        return self.steps[keep], self.values[name][keep]


@dataclass(frozen=True, kw_only=True)
class Redone:
    """The steps of one series that `segment` did again after `earlier` had: both values, step by step."""

    name: str
    segment: int
    earlier: int
    steps: Steps
    before: Floats
    after: Floats


@dataclass(frozen=True, kw_only=True)
class RunView:
    """Canonical view of a run: the newest segment per step.

    `steps` [S] ascending. `values` maps a series name to [S] floats; NaN where it was not logged, and `present` says
    which points were. Series that a run lacks are simply not in the map.
    """

    run_id: str
    steps: Steps
    values: Mapping[str, Floats]
    present: Mapping[str, NDArray[np.bool_]]
    segments: tuple[SegmentView, ...]
    parent: ParentView | None = None
    redone: tuple[Redone, ...] = ()

    def series(self, name: str) -> tuple[Steps, Floats]:
        """The logged, finite points of one series; empty arrays when the run has no such series."""
        if name not in self.values:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
        values = self.values[name]
        keep = self.present[name] & np.isfinite(values)
        return self.steps[keep], values[keep]

    @cached_property
    def families(self) -> Mapping[str, Family]:
        """Every statistic that exists for at least three layers, by template (`weight_norm/layers.*.router`)."""
        grouped: dict[str, dict[int, str]] = {}
        for name in self.values:
            if len(found := _LAYER.findall(name)) == 1 and "/experts." not in name:
                grouped.setdefault(_LAYER.sub("layers.*", name), {})[int(found[0])] = name
        return {
            template: Family(
                template=template,
                layers=tuple(sorted(by_layer)),
                names=tuple(by_layer[layer] for layer in sorted(by_layer)),
                values=np.stack([self.values[by_layer[layer]] for layer in sorted(by_layer)]),
            )
            for template, by_layer in sorted(grouped.items())
            if len(by_layer) >= 3
        }

    def family(self, template: str) -> Family | None:
        """The family of a template, or None when the run lacks it."""
        return self.families.get(template)

    @cached_property
    def boundaries(self) -> tuple[SegmentView, ...]:
        """Segments that continue earlier steps: the change takes effect at `start_step + 1`."""
        return tuple(s for s in self.segments if s.start_step > 0 and np.any(self.steps <= s.start_step))

    @cached_property
    def stretches(self) -> tuple[tuple[int, int], ...]:
        """First and last step between two resumes, in order; those of the run when it was never resumed."""
        cuts = sorted({s.start_step for s in self.boundaries if s.start_step < self.steps[-1]})
        ends = (*cuts, *map(int, self.steps[-1:]))
        return tuple(zip((int(np.min(self.steps, initial=1)), *(cut + 1 for cut in cuts)), ends, strict=False))

    def segment_at(self, step: int) -> SegmentView | None:
        """The newest segment that made `step`."""
        made = [s for s in self.segments if s.start_step < step <= s.last_step]
        return made[-1] if made else None

    def before(self, segment: SegmentView) -> SegmentView | None:
        """The segment whose steps the canonical view shows just before `segment` starts."""
        earlier = [s for s in self.segments if s.number < segment.number and s.start_step < segment.start_step]
        return earlier[-1] if earlier else None

    def end_of(self, segment: SegmentView) -> int:
        """Last step that the canonical view shows of `segment`: its end, or where a later one took over."""
        later = [s.start_step for s in self.segments if s.number > segment.number and s.last_step > s.start_step]
        return min([segment.last_step, *later])


def view_run(
    store: Store, run_id: str, *, names: tuple[str, ...] | None = None, upto_segment: int | None = None
) -> RunView:
    """Read a run from the store. Raises NotFound when there is no such run.

    `names` limits the series (None: all). `upto_segment`: as the run was before any later segment took over.
    """
    wanted = store.series.names(run_id) if names is None else names
    known = [s for s in store.runs.segments(run_id) if upto_segment is None or s.number <= upto_segment]
    matrix = read_matrix(store, run_id, wanted, upto_segment=upto_segment)
    segments = tuple(
        SegmentView(
            number=s.number,
            start_step=s.start_step,
            last_step=s.last_step,
            code_version=s.code_version,
            seed=s.seed,
            dp_size=s.dp_size,
            start_checkpoint=s.start_checkpoint,
            declared=store.runs.declared(run_id, s.number),
            effective=store.runs.effective(run_id, s.number, s.start_step + 1)
            or store.runs.effective(run_id, s.number),
            moving=_moving(store, run_id, s.number, s.start_step + 1),
            environment=s.environment,
        )
        for s in known
    )
    return RunView(
        run_id=run_id,
        steps=matrix.steps,
        values={name: matrix.values[i] for i, name in enumerate(matrix.names)},
        present={name: matrix.present[i] for i, name in enumerate(matrix.names)},
        segments=segments,
        parent=_parent(store, run_id) if names is None else None,
        redone=_redone(store, run_id, segments) if names is None else (),
    )


def _moving(store: Store, run_id: str, segment: int, first_step: int) -> frozenset[str]:
    first, last = (store.runs.effective(run_id, segment, step) for step in (first_step, None))
    return frozenset(key for key, value in first.items() if last[key] != value)


def _redone(store: Store, run_id: str, segments: Sequence[SegmentView]) -> tuple[Redone, ...]:
    """The repeated steps of the losses, the resume that repeats them first."""
    again = [s for s in segments if any(e.number < s.number and e.last_step > s.start_step for e in segments)]
    names = [name for name in _LOSSES if name in store.series.names(run_id)] if again else []
    found = []
    for name in names:
        data = store.series.read(run_id, name, view="full")
        finite = np.isfinite(data.values)
        for segment in again:
            earlier = max(e.number for e in segments if e.number < segment.number and e.last_step > segment.start_step)
            mine, theirs = (finite & (data.segments == number) for number in (segment.number, earlier))
            steps, i, j = np.intersect1d(data.steps[mine], data.steps[theirs], return_indices=True)
            if steps.size:
                after, before = data.values[mine][i], data.values[theirs][j]
                found.append(
                    Redone(
                        name=name, segment=segment.number, earlier=earlier, steps=steps, before=before, after=after
                    )
                )  # fmt: skip
    return tuple(found)


def _parent(store: Store, run_id: str) -> ParentView | None:
    run = store.runs.get(run_id)
    if run.parent_run_id is None or run.parent_step is None:
        return None
    names = tuple(name for name in (*_LOSSES, *SCALES) if name in store.series.names(run.parent_run_id))
    matrix = store.series.matrix(run.parent_run_id, names)
    made = [s for s in store.runs.segments(run.parent_run_id) if s.start_step <= run.parent_step]
    if not made:
        return None
    declared = store.runs.declared(run.parent_run_id, made[-1].number)
    return ParentView(
        step=run.parent_step,
        steps=matrix.steps,
        values={name: matrix.values[i] for i, name in enumerate(matrix.names)},
        setting=(made[-1].code_version, made[-1].seed, dict(declared)),
    )


def view_series(store: Store, run_id: str, names: tuple[str, ...]) -> RunView:
    """Only some series of a run, without its segments: enough to measure a re-run."""
    matrix = store.series.matrix(run_id, names)
    return RunView(
        run_id=run_id,
        steps=matrix.steps,
        values={name: matrix.values[i] for i, name in enumerate(matrix.names)},
        present={name: matrix.present[i] for i, name in enumerate(matrix.names)},
        segments=(),
    )


def read_matrix(
    store: Store,
    run_id: str,
    names: Sequence[str],
    *,
    lo: int | None = None,
    hi: int | None = None,
    upto_segment: int | None = None,
) -> SeriesMatrix:
    """The canonical values, or, with `upto_segment`, those that were canonical before later segments."""
    spans = {s.number: s.start_step for s in store.runs.segments(run_id)}
    if upto_segment is None or all(number <= upto_segment for number in spans):
        return store.series.matrix(run_id, names, lo=lo, hi=hi)
    rows = []
    for name in names:
        data = store.series.read(run_id, name, lo=lo, hi=hi, view="full")
        kept = [
            (int(step), float(value))
            for step, value, segment in zip(data.steps, data.values, data.segments, strict=True)
            if segment <= upto_segment and not _superseded(int(step), int(segment), upto_segment, spans)
        ]
        rows.append(dict(kept))
    steps = np.array(sorted({step for row in rows for step in row}), dtype=np.int64)
    present = np.array([[int(step) in row for step in steps] for row in rows], dtype=np.bool_).reshape(len(rows), -1)
    values = np.array([[row.get(int(step), np.nan) for step in steps] for row in rows]).reshape(len(rows), -1)
    return SeriesMatrix(names=tuple(names), steps=steps, values=values, present=present)


def _superseded(step: int, segment: int, upto: int, starts: Mapping[int, int]) -> bool:
    return any(step > start for number, start in starts.items() if segment < number <= upto)


def make_view(
    run_id: str, steps: Steps, values: Mapping[str, Floats], segments: tuple[SegmentView, ...] = ()
) -> RunView:
    """A run from arrays in memory; every value counts as logged. One segment over all steps when none is given."""
    whole = SegmentView(number=0, start_step=0, last_step=int(steps[-1]) if steps.size else 0, code_version="")
    return RunView(
        run_id=run_id,
        steps=steps,
        values=values,
        present={name: np.ones(steps.size, dtype=np.bool_) for name in values},
        segments=segments or (whole,),
    )
