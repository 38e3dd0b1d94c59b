"""lm-evaluation-harness results, of all versions: `acc` and `acc_stderr`, or `acc,none` and `acc_stderr,none`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from context_store.canonical import content_hash
from context_store.importers.configs import flat
from context_store.importers.evals import EvalFile, items_of
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import FoundScore, Items, Problem

HARNESS = "lm-evaluation-harness"
_STDERR = "_stderr"


def find(tree: Tree) -> list[Source]:
    files = [path for path in tree.files if path.suffix == ".json" and _is_results(path)]
    return [Source(files=(path,), companions=_samples(path, tree)) for path in files]


def read(source: Source) -> Items:
    path = source.files[0]
    try:
        content = json.loads(path.read_bytes())
        found = _eval_file(path, content, source.companions)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield Problem(file=str(path), position="the file", what=f"damaged: {error}"[:300])
        return
    yield from items_of(found)


def _is_results(path: Path) -> bool:
    """The beginning has `results` of tasks; an older file ends with `versions`."""
    start = head(path)
    return b'"results"' in start and (_STDERR.encode() in start or b",none" in start) and b'"log_history"' not in start


def _samples(path: Path, tree: Tree) -> tuple[Path, ...]:
    """Single answers: they have no step, and are not read; scores refer to them."""
    return tuple(each for each in tree.files if each.parent == path.parent and each.name.startswith("samples_"))


def _eval_file(path: Path, content: Mapping[str, Any], samples: Sequence[Path]) -> EvalFile:
    config: Mapping[str, Any] = content.get("config") or {}
    arguments = config.get("model_args", "")
    model = content.get("model_name") or content.get("model_source") or ""
    described = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    at = content.get("date")
    harness = content.get("git_hash")
    environment = {"harness": HARNESS, "harness_commit": harness} if harness else {"harness": HARNESS}
    return EvalFile(
        path=path,
        model=f"{model} {described}".strip() or path.stem,
        scores=list(_scores(path, content, samples)),
        config=flat(config),
        environment=environment,
        at=float(at) if isinstance(at, int | float) else 0.0,
    )


def _checkpoint(content: Mapping[str, Any]) -> str:
    """What was evaluated: a path, or NAME@REVISION; "" when the file does not say."""
    arguments = (content.get("config") or {}).get("model_args") or ""
    if isinstance(arguments, str):
        arguments = dict(each.partition("=")[::2] for each in arguments.split(","))
    name = arguments.get("pretrained") or arguments.get("model") or arguments.get("path") or content.get("model_name")
    revision = arguments.get("revision")
    return f"{name or ''}@{revision}" if revision and revision != "main" else str(name or "")


def _scores(path: Path, content: Mapping[str, Any], samples: Sequence[Path]) -> Iterator[FoundScore]:
    counts = content.get("n-samples", {})
    at = content.get("date")
    for task, values in {**content["results"], **content.get("groups", {})}.items():
        for key, value in values.items():
            metric, _, chosen = key.partition(",")
            if metric.endswith(_STDERR) or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            stderr = values.get(f"{metric}{_STDERR},{chosen}" if chosen else f"{metric}{_STDERR}")
            count = counts.get(task, {})
            yield FoundScore(
                benchmark=task,
                metric=metric if chosen in ("", "none") else f"{metric}.{chosen}",
                value=float(value),
                stderr=float(stderr) if isinstance(stderr, int | float) else None,
                num_samples=count.get("effective") if isinstance(count, Mapping) else None,
                checkpoint=_checkpoint(content),
                raw=str(next((each for each in samples if each.name.startswith(f"samples_{task}_")), path)),
                at=float(at) if isinstance(at, int | float) else 0.0,
                **_identity(content, task, chosen),
            )


def _identity(content: Mapping[str, Any], task: str, chosen: str) -> dict[str, Any]:
    """What the file says of how the task was run. Older files say little: that stays unknown (None)."""
    config: Mapping[str, Any] = content.get("config") or {}
    own: Mapping[str, Any] = (content.get("configs") or {}).get(task) or {}
    until = (own.get("generation_kwargs") or {}).get("until")
    chat, words = content.get("chat_template_sha"), own.get("doc_to_text")
    settings = {
        "task_version": content.get("versions", {}).get(task),
        "task_hash": content.get("task_hashes", {}).get(task),
        "limit": config.get("limit"),
        "generation": {**(own.get("generation_kwargs") or {}), **_mapping(config.get("gen_kwargs"))} or None,
    }
    return {
        "harness": HARNESS,
        "harness_version": content.get("lm_eval_version") or content.get("git_hash"),
        "protocol": own.get("output_type") or "as its task defines it",
        "shots": content.get("n-shot", {}).get(task, config.get("num_fewshot")),
        "template": content_hash([chat, words])[:16] if chat or words else None,
        "stop_set": None if until is None else tuple([until] if isinstance(until, str) else until),
        "extractor": chosen or None,
        "settings": {name: value for name, value in settings.items() if value is not None},
    }


def _mapping(value: Any) -> dict[str, Any]:
    """`gen_kwargs` as older versions (text) and newer ones (an object) write it."""
    return dict(value) if isinstance(value, Mapping) else {"text": value} if value else {}


FORMAT = Format(name=HARNESS, find=find, read=read)
