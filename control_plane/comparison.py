"""Two segments side by side, as the API and `lathe diff` give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_store import Store, diff_config
from context_store.records import Commit, ConfigChange, Run, Segment
from contracts.errors import RepositoryError, UserInputError
from contracts.events import Scalar

_MIXTURE = "data.mixture."


def compare(store: Store, before: str, after: str) -> dict[str, Any]:
    """Config, effective values, data mixture, environment and code of RUN (its newest segment) or RUN#SEGMENT.

    `not_recorded`: the sections of which at least one side says nothing, so that no difference there means nothing.
    Raises NotFound for an unknown run, UserInputError for a segment it does not have.
    """
    (run_a, a), (run_b, b) = find_segment(store, before), find_segment(store, after)
    facts_a, facts_b = _facts(store, run_a, a), _facts(store, run_b, b)
    declared, effective = (diff_config(facts_a[name], facts_b[name]) for name in ("config", "effective"))
    mixture, config = _split_mixture(declared)
    keys = {change.key for change in declared}
    return {
        "before": f"{run_a.id}#{a.number}",
        "after": f"{run_b.id}#{b.number}",
        "config": config,
        "effective": [change for change in effective if change.key not in keys],
        "mixture": mixture,
        "environment": diff_config(a.environment, b.environment),
        "code": {"before": a.code_version, "after": b.code_version, "commits": _commits(store, run_b, a, b)},
        "not_recorded": [name for name in facts_a if not (facts_a[name] and facts_b[name])],
    }


def _facts(store: Store, run: Run, segment: Segment) -> dict[str, Mapping[str, Scalar]]:
    """What is known of a segment, by section."""
    declared = store.runs.declared(run.id, segment.number)
    return {
        "config": declared,
        "effective": store.runs.effective(run.id, segment.number),
        "mixture": {key: value for key, value in declared.items() if key.startswith(_MIXTURE)},
        "environment": segment.environment,
        "code": {"version": segment.code_version} if segment.code_version else {},
    }


def find_segment(store: Store, name: str) -> tuple[Run, Segment]:
    """RUN or RUN#SEGMENT. Raises NotFound, UserInputError."""
    run_id, _, number = name.partition("#")
    run = store.runs.get(run_id)
    segments = store.runs.segments(run_id)
    if not segments:
        raise UserInputError(f"run {run_id} has not begun yet", remedy="train it first")
    if not number:
        return run, segments[-1]
    for segment in segments:
        if str(segment.number) == number:
            return run, segment
    numbers = ", ".join(str(segment.number) for segment in segments)
    raise UserInputError(f"run {run_id} has no segment {number}", remedy=f"choose one of: {numbers}")


def _split_mixture(changes: tuple[ConfigChange, ...]) -> tuple[list[ConfigChange], list[ConfigChange]]:
    mixture = [change for change in changes if change.key.startswith(_MIXTURE)]
    return mixture, [change for change in changes if change not in mixture]


def _commits(store: Store, run: Run, a: Segment, b: Segment) -> list[Commit]:
    """Commits of `b` that `a` lacks, oldest first; empty when the history does not know them."""
    try:
        return list(store.code.commits(run.project_id, a.code_version or None, b.code_version))
    except RepositoryError:
        return []
