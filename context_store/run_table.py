"""Many runs in one table: their latest values and configuration, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from context_store import scans
from context_store.canonical import from_canonical
from context_store.database import driver
from context_store.records import Run, RunTableRow
from contracts.events import Scalar


def run_table(
    connection: sa.Connection, runs: Sequence[Run], metrics: Sequence[str] | None, keys: Sequence[str] | None
) -> list[RunTableRow]:
    """One row a run, in order; None: all metrics, all configuration keys."""
    ids = [run.id for run in runs]
    latest = scans.latest(connection, ids, metrics)
    config = _declared(connection, ids, keys)
    return [RunTableRow(run=run, latest=latest[run.id], config=config.get(run.id, {})) for run in runs]


def _declared(
    connection: sa.Connection, run_ids: Sequence[str], keys: Sequence[str] | None
) -> dict[str, dict[str, Scalar]]:
    """What the configuration of each run's newest segment that has one declared."""
    parameters = {"runs": list(run_ids), "keys": None if keys is None else list(keys)}
    known: dict[str, Any] = {}
    found: dict[str, dict[str, Scalar]] = {}
    for run_id, names, texts in driver(connection).execute(_DECLARED, parameters, binary=True):
        found[run_id] = {}
        for name, text in zip(names, texts, strict=True):
            if text not in known:
                known[text] = from_canonical(text)
            found[run_id][name] = known[text]
    return found


_DECLARED = """
    SELECT c.run_id, array_agg(c.key), array_agg(c.value)
    FROM unnest(%(runs)s::text[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT max(segment) AS segment FROM config_value WHERE run_id = wanted.id AND source = 'declared') AS newest
    JOIN config_value c ON c.run_id = wanted.id AND c.segment = newest.segment AND c.source = 'declared'
    WHERE %(keys)s::text[] IS NULL OR c.key = ANY(%(keys)s)
    GROUP BY c.run_id
"""
