"""Inspect logs: one JSON file, or a zip (`.eval`) with its header in `header.json`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from context_store.canonical import content_hash
from context_store.importers.configs import flat
from context_store.importers.evals import EvalFile, items_of
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Fact, FoundScore, Items, Problem
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
        scores=list(_scores(path, content, spec)),
        config=flat({"task": spec["task"], "model": spec["model"], **sections}),
        environment=environment,
        at=_moment(spec.get("created")),
    )


def _scores(path: Path, content: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FoundScore]:
    results = content.get("results") or {}
    identity = _identity(content, spec)
    for score in results.get("scores", []):
        metrics = score.get("metrics", {})
        stderr = (metrics.get("stderr") or {}).get("value")
        for name, metric in metrics.items():
            value = metric.get("value")
            if name == "stderr" or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            reducer = {"reducer": score["reducer"]} if score.get("reducer") else {}
            yield FoundScore(
                benchmark=str(spec["task"]),
                metric=name,
                value=float(value),
                stderr=float(stderr) if isinstance(stderr, int | float) else None,
                num_samples=results.get("completed_samples"),
                checkpoint=_checkpoint(spec),
                raw=str(path),
                at=_moment(spec.get("created")),
                extractor=score.get("scorer"),
                **{**identity, "settings": {**identity["settings"], **reducer}},
            )


def _checkpoint(spec: Mapping[str, Any]) -> str:
    """What was evaluated: a path when the log has one, else the model's name without the kind of its provider."""
    arguments = spec.get("model_args") or {}
    named = str(spec["model"])
    provider, _, rest = named.partition("/")
    return str(arguments.get("model_path") or (rest if provider in ("hf", "vllm", "sglang") else named))


def _identity(content: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    dataset, config = spec.get("dataset") or {}, spec.get("config") or {}
    generate = {**(spec.get("model_generate_config") or {}), **((content.get("plan") or {}).get("config") or {})}
    steps = (content.get("plan") or {}).get("steps") or []
    templates = [each["params"]["template"] for each in steps if (each.get("params") or {}).get("template")]
    arguments = spec.get("task_args") or {}
    stop = generate.pop("stop_seqs", None)
    settings = {
        "task_version": spec.get("task_version"),
        "task_args": arguments or None,
        "dataset": dataset.get("name"),
        "samples": dataset.get("samples"),
        "epochs": config.get("epochs"),
        "limit": config.get("limit"),
        "generation": generate or None,
    }
    return {
        "harness": "inspect",
        "harness_version": (spec.get("packages") or {}).get("inspect_ai"),
        "protocol": " > ".join(str(each.get("solver")) for each in steps) or "as its task defines it",
        "shots": arguments.get("fewshot") if isinstance(arguments.get("fewshot"), int) else None,
        "template": content_hash(templates)[:16] if templates else None,
        "stop_set": None if stop is None else tuple(stop),
        "settings": {name: value for name, value in settings.items() if value is not None},
    }


def _moment(text: Any) -> float:
    """Unix seconds of an ISO time with a zone; 0.0 without."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo else 0.0


FORMAT = Format(name="Inspect log", find=find, read=read)
