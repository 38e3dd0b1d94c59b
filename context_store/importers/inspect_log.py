"""Inspect logs: one JSON file, or a zip (`.eval`) with its header in `header.json`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from context_store.importers.configs import flat
from context_store.importers.evals import EvalFile, Score, items_of
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Fact, Items, Problem
from contracts.enums import TimelineKind

_HEADER = "header.json"


def find(tree: Tree) -> list[Source]:
    return [Source(files=(path,)) for path in tree.files if _is_log(path)]


def read(source: Source) -> Items:
    path = source.files[0]
    try:
        content = _content(path)
        found = _eval_file(path, content)
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        what = f"damaged, or the evaluation was cut off before its end: {error}"
        yield Problem(file=str(path), position="the header", what=what[:300])
        return
    except NotImplementedError:
        what = "a compression that Python cannot read; convert it: inspect log convert --to json"
        yield Problem(file=str(path), position="the header", what=what)
        return
    yield from items_of(found)
    if content.get("status") != "success":
        message = str((content.get("error") or {}).get("message", ""))[:300]
        title = f"the evaluation ended as {content.get('status')}: its scores are not of all samples"
        yield Fact(step=0, kind=TimelineKind.NOTE, title=title, detail={"message": message})


def _is_log(path: Path) -> bool:
    if path.suffix == ".eval":
        return head(path).startswith(b"PK")
    start = head(path)[:8192]
    return path.suffix == ".json" and b'"eval"' in start and b'"status"' in start and b'"task"' in start


def _content(path: Path) -> dict[str, Any]:
    if path.suffix != ".eval":
        content = json.loads(path.read_bytes())
    else:
        with zipfile.ZipFile(path) as archive:
            content = json.loads(archive.read(_HEADER))
    if not isinstance(content, dict):
        raise ValueError("no object")
    return content


def _eval_file(path: Path, content: Mapping[str, Any]) -> EvalFile:
    spec = content["eval"]
    revision = spec.get("revision") or {}
    packages = spec.get("packages") or {}
    environment = {"harness": "inspect", **{f"package.{key}": value for key, value in packages.items()}}
    if revision.get("commit"):
        environment["git.commit"] = revision["commit"]
    sections = {key: spec.get(key) or {} for key in ("config", "task_args", "model_args", "model_generate_config")}
    return EvalFile(
        path=path,
        model=str(spec["model"]),
        scores=list(_scores(content, spec)),
        config=flat({"task": spec["task"], "model": spec["model"], **sections}),
        environment=environment,
        at=_moment(spec.get("created")),
    )


def _scores(content: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Score]:
    results = content.get("results") or {}
    identity = {
        "task_version": spec.get("task_version"),
        "task_args": spec.get("task_args"),
        "dataset": (spec.get("dataset") or {}).get("name"),
        "samples": (spec.get("dataset") or {}).get("samples"),
        "epochs": (spec.get("config") or {}).get("epochs"),
        "limit": (spec.get("config") or {}).get("limit"),
        "packages": spec.get("packages"),
    }
    for score in results.get("scores", []):
        metrics = score.get("metrics", {})
        stderr = (metrics.get("stderr") or {}).get("value")
        for name, metric in metrics.items():
            value = metric.get("value")
            if name == "stderr" or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            yield Score(
                benchmark=str(spec["task"]),
                metric=name,
                value=float(value),
                stderr=float(stderr) if isinstance(stderr, int | float) else None,
                num_samples=results.get("completed_samples"),
                identity={**identity, "scorer": score.get("scorer"), "reducer": score.get("reducer")},
            )


def _moment(text: Any) -> float:
    """Unix seconds of an ISO time with a zone; 0.0 without."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo else 0.0


FORMAT = Format(name="Inspect log", find=find, read=read)
