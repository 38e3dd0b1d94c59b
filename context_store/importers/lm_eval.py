"""lm-evaluation-harness results, of all versions: `acc` and `acc_stderr`, or `acc,none` and `acc_stderr,none`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from context_store.importers.configs import flat
from context_store.importers.evals import EvalFile, Score, items_of
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Items, Problem

_STDERR = "_stderr"


def find(tree: Tree) -> list[Source]:
    files = [path for path in tree.files if path.suffix == ".json" and _is_results(path)]
    return [Source(files=(path,), companions=_samples(path, tree)) for path in files]


def read(source: Source) -> Items:
    path = source.files[0]
    try:
        content = json.loads(path.read_bytes())
        found = _eval_file(path, content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield Problem(file=str(path), position="the file", what=f"damaged: {error}"[:300])
        return
    yield from items_of(found)


def _is_results(path: Path) -> bool:
    """The beginning has `results` of tasks; an older file ends with `versions`."""
    start = head(path)
    return b'"results"' in start and (_STDERR.encode() in start or b",none" in start) and b'"log_history"' not in start


def _samples(path: Path, tree: Tree) -> tuple[Path, ...]:
    """Single answers: they have no step, and are not read."""
    return tuple(each for each in tree.files if each.parent == path.parent and each.name.startswith("samples_"))


def _eval_file(path: Path, content: Mapping[str, Any]) -> EvalFile:
    config: Mapping[str, Any] = content.get("config") or {}
    arguments = config.get("model_args", "")
    model = content.get("model_name") or content.get("model_source") or ""
    described = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    at = content.get("date")
    harness = content.get("git_hash")
    environment = {"harness": "lm-evaluation-harness", "harness_commit": harness} if harness else {"harness": "lm-eval"}
    return EvalFile(
        path=path,
        model=f"{model} {described}".strip() or path.stem,
        scores=list(_scores(content, config)),
        config=flat(config),
        environment=environment,
        at=float(at) if isinstance(at, int | float) else 0.0,
    )


def _scores(content: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Score]:
    samples = content.get("n-samples", {})
    for task, values in {**content["results"], **content.get("groups", {})}.items():
        for key, value in values.items():
            metric, _, chosen = key.partition(",")
            if metric.endswith(_STDERR) or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            stderr = values.get(f"{metric}{_STDERR},{chosen}" if chosen else f"{metric}{_STDERR}")
            count = samples.get(task, {})
            yield Score(
                benchmark=task,
                metric=metric if chosen in ("", "none") else f"{metric}.{chosen}",
                value=float(value),
                stderr=float(stderr) if isinstance(stderr, int | float) else None,
                num_samples=count.get("effective") if isinstance(count, Mapping) else None,
                identity=_identity(content, config, task, chosen),
            )


def _identity(content: Mapping[str, Any], config: Mapping[str, Any], task: str, chosen: str) -> dict[str, Any]:
    return {
        "filter": chosen or None,
        "version": content.get("versions", {}).get(task),
        "num_fewshot": content.get("n-shot", {}).get(task, config.get("num_fewshot")),
        "task_hash": content.get("task_hashes", {}).get(task),
        "harness_commit": content.get("git_hash"),
        "limit": config.get("limit"),
        "chat_template_sha": content.get("chat_template_sha"),
        "generation": config.get("gen_kwargs"),
    }


FORMAT = Format(name="lm-evaluation-harness", find=find, read=read)
