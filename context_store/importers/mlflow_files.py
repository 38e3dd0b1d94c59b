"""MLflow's FileStore: `mlruns/<experiment>/<run>/` with meta.yaml, metrics, params and tags as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from context_store.importers.configs import read_mapping
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Items, Problem
from context_store.importers.mlflow_runs import STATUS, tracked
from context_store.importers.tracked_runs import Metric, items_of


def find(tree: Tree) -> list[Source]:
    metas = [path for path in tree.files if path.name == "meta.yaml"]
    runs = sorted(path.parent for path in metas if b"run_id:" in head(path) or b"run_uuid:" in head(path))
    others = [path for path in metas if path.parent not in runs and b"experiment_id:" in head(path)]
    inside: dict[Path, list[Path]] = {run: [] for run in runs}
    for path in tree.files:
        for parent in path.parents:
            if parent in inside:
                inside[parent].append(path)
                break
    found = [
        Source(files=(run / "meta.yaml",), companions=tuple(path for path in paths if path != run / "meta.yaml"))
        for run, paths in inside.items()
    ]
    empty = [path for path in others if not any(run.parent == path.parent for run in runs)]
    shared = tuple(path for path in others if path not in empty)
    if found and (shared or empty):
        found[0] = Source(files=found[0].files, companions=(*found[0].companions, *shared, *empty))
    return found


def read(source: Source) -> Items:
    folder = source.files[0].parent
    try:
        meta = read_mapping(folder / "meta.yaml")
    except (OSError, ValueError) as error:
        yield Problem(file=str(folder / "meta.yaml"), position="the file", what=f"damaged: {error}"[:300])
        return
    if meta.get("lifecycle_stage") == "deleted":
        yield Problem(file=str(folder), position="the run", what="deleted in MLflow; restore it there to import it")
        return
    metrics: dict[str, Metric] = {}
    for path in _files(folder / "metrics"):
        metric, problems = _metric(path)
        yield from problems
        if metric is not None:
            metrics[path.relative_to(folder / "metrics").as_posix()] = metric
    run = tracked(
        str(meta.get("run_id") or meta.get("run_uuid") or folder.name),
        name=str(meta.get("run_name") or ""),
        experiment=_experiment(folder.parent),
        origin=str(folder),
        status=STATUS.get(str(meta.get("status")), str(meta.get("status") or "")),
        started_ms=meta.get("start_time"),
        ended_ms=meta.get("end_time"),
        params=_texts(folder / "params"),
        tags=_texts(folder / "tags"),
        metrics=metrics,
    )
    yield from items_of(run)


def _metric(path: Path) -> tuple[Metric | None, list[Problem]]:
    """Lines of `timestamp value step`; the oldest files have no step."""
    times, steps, values = [], [], []
    problems: list[Problem] = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        words: list[Any] = line.split()
        try:
            time, value, step = int(words[0]), float(words[1]), int(words[2]) if len(words) > 2 else 0
        except (ValueError, IndexError):
            problems.append(Problem(file=str(path), position=f"line {number}", what=f"no point: {line[:80]!r}"))
            continue
        times.append(time)
        values.append(value)
        steps.append(step)
    if not steps:
        return None, problems
    return Metric(times=np.array(times, np.int64), steps=np.array(steps, np.int64), values=np.array(values)), problems


def _texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text(errors="replace") for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _experiment(folder: Path) -> str:
    try:
        return str(read_mapping(folder / "meta.yaml").get("name") or folder.name)
    except (OSError, ValueError):
        return folder.name


FORMAT = Format(name="MLflow files", find=find, read=read)
