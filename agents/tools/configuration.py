"""What a run was configured with: declared fields and the environment, in force at a step."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from agents import evidence
from agents.tools.matching import words
from agents.tools.protocol import Arguments, ToolResult, result, row
from context_store import Store
from context_store.records import Segment

_GENERAL = frozenset(
    words("value set setting use used using config configuration main current final default field version start now "
          "last first optim data model train trained new old high low large size much num route routed grad gradient "
          "gradients clipped per each token tokens")
)  # fmt: skip
_MAX_FIELDS = 8


class Configuration(Arguments):
    """`text`: the fields that are meant, in words; for instance 'learning rate of the router' or 'torch version'."""

    run_id: str
    text: str = Field(min_length=1)
    step: int | None = Field(default=None, ge=0, description="in force at this step; none: at the end")


def configuration(store: Store, arguments: Configuration) -> ToolResult:
    """Fields whose last part the text names, and as much of what stands before as it names; else whole groups."""
    run_id = arguments.run_id
    store.runs.get(run_id)
    nothing = f"no field of run {run_id} is called like '{arguments.text}'"
    segments = [s for s in store.runs.segments(run_id) if arguments.step is None or s.start_step <= arguments.step]
    if not segments:
        return result([], nothing)
    segment = segments[-1]
    rows = []
    for key, value in _meant(arguments.text, fields_of(store, segment)).items():
        said = f"{key} is {value} in run {run_id} from step {segment.start_step} on"
        rows.append(row(said, evidence.config(run_id, key, segment.number)))
    return result(rows, nothing)


def fields_of(store: Store, segment: Segment) -> Mapping[str, object]:
    """Declared fields, and `environment.NAME`."""
    environment = {f"environment.{key}": value for key, value in segment.environment.items()}
    return {**store.runs.declared(segment.run_id, segment.number), **environment}


def _meant(text: str, fields: Mapping[str, object]) -> dict[str, object]:
    """None when the text speaks of anything else than the fields that fit best."""
    asked = set(words(text))
    scores = {key: _score(key, asked) for key in fields}
    top = max(scores.values(), default=0)
    found = {key: fields[key] for key, score in scores.items() if score == top > 0}
    told = {word for key in found for word in words(key)}
    return {} if len(found) > _MAX_FIELDS or (asked - told) - _GENERAL else found


def _score(key: str, asked: set[str]) -> int:
    """Words of the key that the text holds; 0 unless it holds its last part or everything before that."""
    head, _, last = key.rpartition(".")
    shared = asked & set(words(key))
    whole = [set(words(last)), set(words(head.rpartition(".")[2])) if head else {""}]
    return len(shared) if any(part and part <= asked for part in whole) else 0
