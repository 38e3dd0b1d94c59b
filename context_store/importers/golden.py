"""Series as JSON objects of step -> value: Megatron's golden values, and bare lines of `step loss`.

A value that is the text "nan" was never measured: the step was not run, or not in this half of a test. It is no NaN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from context_store.importers.companions import beside, describe
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Column, Columns, Fact, FoundRun, FoundSegment, Items, Problem
from context_store.importers.lines import sample
from contracts.enums import TimelineKind

_NAMES = {
    "iteration-time": "step_time_s",  # Megatron logs it in seconds
    "num-zeros": "num_zeros",
    "mem-allocated-bytes": "memory_bytes",
    "mem-max-allocated-bytes": "peak_memory_bytes",
}
_STEP_LOSS = re.compile(r"^(\d+)[ \t]+([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan|-?inf)$")
_MIN_LINES = 5


def find(tree: Tree) -> list[Source]:
    found = []
    for path in tree.files:
        if (path.suffix == ".json" and _is_golden(path)) or (path.suffix == ".txt" and _is_step_loss(path)):
            found.append(Source(files=(path,), companions=beside(path)))
    return found


def read(source: Source) -> Items:
    path = source.files[0]
    described = describe(source.companions)
    yield from described.problems
    columns: dict[str, Column] = {}
    missing: dict[str, list[int]] = {}
    interval = 1
    try:
        if path.suffix == ".json":
            columns, missing, interval = _golden(json.loads(path.read_bytes()))
        else:
            columns = {"loss": _step_losses(path)}
    except (ValueError, TypeError, KeyError) as error:
        yield Problem(file=str(path), position="the file", what=f"damaged: {error}")
    if not any(len(steps) for steps, _ in columns.values()):
        return
    yield FoundRun(
        key=str(path.resolve()), name=path.stem, project=path.resolve().parent.name, origin=str(path), names=_NAMES
    )
    first = min(int(steps.min()) for steps, _ in columns.values() if len(steps))
    start = 0 if first <= interval else first - 1
    yield FoundSegment(number=0, start_step=start, config=described.config, environment=described.environment)
    yield Columns(columns=columns)
    yield from _missing_facts(missing)
    if described.about:
        title = "described by a file beside the log"
        yield Fact(step=start, kind=TimelineKind.NOTE, title=title, detail=dict(described.about))


def _is_golden(path: Path) -> bool:
    start = head(path)[:2048]
    return b'"start_step"' in start and b'"step_interval"' in start and b'"values"' in start


def _is_step_loss(path: Path) -> bool:
    """Two bare columns are losses only where the name of file or folder says so."""
    lines = [line for line in sample(path, 1 << 16) if line.strip()]
    named = "loss" in path.stem.lower() or "loss" in path.resolve().parent.name.lower() or _is_titan(path)
    return named and len(lines) >= _MIN_LINES and all(_STEP_LOSS.match(line.strip()) for line in lines[:-1])


def _is_titan(path: Path) -> bool:
    return "torchtitan" in str(path.resolve()).lower()


def _golden(content: dict[str, Any]) -> tuple[dict[str, Column], dict[str, list[int]], int]:
    """Columns, the steps that were never measured by name, and the smallest interval."""
    columns: dict[str, Column] = {}
    missing: dict[str, list[int]] = {}
    for name, series in content.items():
        values = series["values"]
        missing[name] = [int(step) for step, value in values.items() if isinstance(value, str)]
        kept = {int(step): float(value) for step, value in values.items() if not isinstance(value, str)}
        columns[name] = (np.array(list(kept), np.int64), np.array(list(kept.values()), np.float64))
    return columns, missing, min(int(series["step_interval"]) for series in content.values())


def _step_losses(path: Path) -> Column:
    rows = [match for line in sample(path, 1 << 26) if (match := _STEP_LOSS.match(line.strip()))]
    return np.array([int(row[1]) for row in rows], np.int64), np.array([float(row[2]) for row in rows], np.float64)


def _missing_facts(missing: dict[str, list[int]]) -> Iterator[Fact]:
    by_steps: dict[tuple[int, ...], list[str]] = {}
    for name, steps in missing.items():
        if steps:
            by_steps.setdefault(tuple(steps), []).append(name)
    for never, names in by_steps.items():
        title = f"{len(never)} values of {', '.join(names)} were never measured (steps {never[0]} to {never[-1]})"
        yield Fact(step=never[0], kind=TimelineKind.NOTE, title=title, detail={"series": names})


FORMAT = Format(name="golden values", find=find, read=read)
