"""Mixture weights by step: the configuration fields `data.mixture.SOURCE`, declared and effective, read as events."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from context_store.lineage import load_lineage
from context_store.models import ConfigValueRow, SubsetRow
from context_store.records import MixtureEvent

PREFIX = "data.mixture."


def at(connection: sa.Connection, run_id: str, step: int | None) -> dict[str, float]:
    """Weights in force after `step` steps (None: at the end). What was really used counts more than what was said."""
    lineage = load_lineage(connection, run_id)
    found: dict[str, float] = {}
    for state in _states(_groups(connection, run_id)):
        if (step is None or state.step <= step) and lineage.counts(state.segment, state.step):
            found = state.weights
    return found


def events(connection: sa.Connection, run_id: str) -> list[MixtureEvent]:
    """Each weight that was set or changed, ascending by (segment, step, source). A segment is compared with where it
    continues from."""
    subsets = set(connection.execute(sa.select(SubsetRow.id)).scalars())
    return [
        MixtureEvent(
            run_id=run_id,
            segment=state.segment,
            step=state.step,
            source=source,
            before=state.before.get(source),
            after=state.weights.get(source),
            declared=state.declared,
            subset_id=source if source in subsets else None,
        )
        for state in _states(_groups(connection, run_id))
        for source in sorted(state.before.keys() | state.weights.keys())
        if state.before.get(source) != state.weights.get(source)
    ]


@dataclass(frozen=True, kw_only=True)
class _State:
    """All weights from a step of a segment on, and those before it."""

    segment: int
    step: int
    declared: bool
    before: dict[str, float]
    weights: dict[str, float]


def _states(groups: dict[tuple[int, int, bool], dict[str, float]]) -> list[_State]:
    """A segment declares its whole mixture, so what it no longer names ends with it."""
    states: list[_State] = []
    for (segment, step, declared), after in groups.items():
        earlier = [state for state in states if state.segment == segment or state.step <= step]
        before = earlier[-1].weights if earlier else {}
        weights = after if declared else before | after
        states.append(_State(segment=segment, step=step, declared=declared, before=before, weights=weights))
    return states


def _groups(connection: sa.Connection, run_id: str) -> dict[tuple[int, int, bool], dict[str, float]]:
    """Weights by (segment, step, declared), in order; what is declared at a step comes before what is effective."""
    query = (
        sa.select(ConfigValueRow.__table__)
        .where(ConfigValueRow.run_id == run_id, ConfigValueRow.key.startswith(PREFIX, autoescape=True))
        .order_by(ConfigValueRow.segment, ConfigValueRow.step, ConfigValueRow.source, ConfigValueRow.key)
    )
    groups: dict[tuple[int, int, bool], dict[str, float]] = {}
    for row in connection.execute(query):
        if isinstance(row.value, int | float):
            group = groups.setdefault((row.segment, row.step, row.source == "declared"), {})
            group[row.key.removeprefix(PREFIX)] = float(row.value)
    return groups
