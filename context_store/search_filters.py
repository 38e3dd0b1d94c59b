"""What a hit has to be, as SQL over `search_text s`: each filter means something for every kind of text.

Some of it is looked up when it is asked for, because it may change after the text: which code a run got, which fields
a change of code reads, and how a case ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from context_store.database import driver
from context_store.records.search import SearchFilter, TextKind

Where = tuple[str, Mapping[str, Any]]  # SQL and its parameters


def conditions_of(connection: sa.Connection, chosen: SearchFilter) -> Where:
    """What holds for what is chosen."""
    given: Mapping[str, Any] = {
        "s.kind = ANY(%(kinds)s)": ("kinds", [str(kind) for kind in chosen.kinds] or None),
        "s.project_id = %(project)s": ("project", chosen.project_id),
        "s.layers @> ARRAY[%(layer)s::integer]": ("layer", chosen.layer),
        _FIELD: ("field", chosen.field),
        "s.at >= to_timestamp(%(since)s)": ("since", chosen.since),
        "s.at <= to_timestamp(%(until)s)": ("until", chosen.until),
        _OUTCOME: ("outcome", chosen.outcome),
    }
    used = {condition: pair for condition, pair in given.items() if pair[1] is not None}
    where, values = _where_it_happened(connection, chosen)
    return " AND ".join(["TRUE", *where, *used]), dict(used.values()) | values


def _where_it_happened(connection: sa.Connection, chosen: SearchFilter) -> tuple[list[str], dict[str, Any]]:
    """Run and steps. A change of code has a step only within a run: where it came into force."""
    values: dict[str, Any] = {"run": chosen.run_id, "lo": chosen.lo, "hi": chosen.hi}
    values = {name: value for name, value in values.items() if value is not None}
    conditions = {"run": "s.run_id = %(run)s", "lo": "s.step_hi >= %(lo)s", "hi": "s.step_lo <= %(hi)s"}
    used = [conditions[name] for name in values]
    if chosen.run_id is None or (chosen.kinds and TextKind.HUNK not in chosen.kinds):
        return used, values
    hunks = driver(connection).execute(_HUNKS_OF_RUN, {"lo": None, "hi": None, **values}).fetchall()
    if not hunks:
        return used, values
    in_force = "s.kind = 'hunk' AND s.source_key = ANY(%(hunks)s)"
    return [f"({' AND '.join(used)} OR {in_force})"], values | {"hunks": [key for (key,) in hunks]}


# The keys of the hunks that came into force with a segment of a run, at its first step: commits in the history of its
# code version that are not in that of the version before it. Before the first segment stands that of the run it was
# forked from, or with which the project's training before it ended; for the very first everything is new.
_HUNKS_OF_RUN = """
    WITH RECURSIVE run_here AS (SELECT * FROM run WHERE id = %(run)s), before AS (
        SELECT coalesce(
            (SELECT s.code_version FROM segment s, run_here r WHERE s.run_id = r.parent_run_id
                AND s.start_step <= r.parent_step ORDER BY s.number DESC LIMIT 1),
            (SELECT s.code_version FROM run_here r JOIN run e ON e.project_id = r.project_id AND e.role = r.role
                AND (e.created_at, e.number) < (r.created_at, r.number)
                JOIN segment s ON s.run_id = e.id AND s.code_version <> ''
                ORDER BY e.created_at DESC, e.number DESC, s.number DESC LIMIT 1), '') AS code_version
    ), start AS (
        SELECT s.number, s.start_step AS step, s.code_version AS tip,
            coalesce(lag(s.code_version) OVER (ORDER BY s.number), before.code_version) AS base
        FROM segment s, before WHERE s.run_id = %(run)s AND s.code_version <> ''
    ), wanted AS (
        SELECT * FROM start WHERE tip <> base AND (%(lo)s::bigint IS NULL OR step >= %(lo)s)
            AND (%(hi)s::bigint IS NULL OR step <= %(hi)s)
    ), reached (number, is_base, hash) AS (
        SELECT number, FALSE, tip FROM wanted
        UNION
        SELECT number, TRUE, base FROM wanted WHERE base <> ''
        UNION
        SELECT reached.number, reached.is_base, parent FROM reached
            JOIN code_commit c ON c.project_id = (SELECT project_id FROM run_here) AND c.hash = reached.hash,
            unnest(c.parents) AS parent
    ), came AS (
        SELECT number, hash FROM reached WHERE NOT is_base EXCEPT SELECT number, hash FROM reached WHERE is_base
    )
    SELECT DISTINCT h.project_id || '/' || h.commit || '/' || h.ordinal FROM hunk h
    WHERE h.project_id = (SELECT project_id FROM run_here) AND h.commit IN (SELECT hash FROM came)
"""
_IS_FIELD = "({0} = %(field)s OR starts_with({0}, %(field)s || '.'))"
# A change of code has the fields it reads, a negative result those its context names (JSON text), a case those of its
# suspects that were not excluded (KIND:FIELD) and those that the change of code it proved reads.
_FIELD = f"""(
    EXISTS (SELECT FROM unnest(s.fields) f WHERE {_IS_FIELD.format("f")})
    OR s.kind = 'hunk' AND s.source_key IN (
        SELECT h.project_id || '/' || h.commit || '/' || h.ordinal FROM hunk_field h WHERE {_IS_FIELD.format("h.field")}
    )
    OR s.kind = 'negative' AND s.source_key IN (
        SELECT t.id::text FROM negative_result t, left(to_json(%(field)s::text)::text, -1) AS f
        WHERE strpos(t.context, f || '":') > 0 OR strpos(t.context, f || '.') > 0
    )
    OR s.kind = 'investigation' AND s.source_key IN (
        SELECT t.investigation_id FROM suspect t, substr(t.key, strpos(t.key, ':') + 1) AS f
        WHERE t.status IS DISTINCT FROM 'refuted' AND {_IS_FIELD.format("f")}
        UNION ALL
        SELECT t.investigation_id FROM hunk_field h JOIN suspect t ON h.commit = ANY(t.commits)
        WHERE t.status = 'proven' AND {_IS_FIELD.format("h.field")}
    )
)"""  # noqa: S608 - constants only
# A finding has the outcome of its case too; a change that of the suspect it was.
_OUTCOME = """(
    s.outcome = %(outcome)s
    OR s.kind = 'anomaly' AND s.source_key IN (
        SELECT m.anomaly_id::text FROM investigation i JOIN investigation_anomaly m ON m.investigation_id = i.id
        WHERE i.verdict = %(outcome)s
    )
    OR s.kind = 'hunk' AND s.source_key IN (
        SELECT h.project_id || '/' || h.commit || '/' || h.ordinal
        FROM suspect t JOIN hunk h ON h.commit = ANY(t.commits) WHERE t.status = %(outcome)s
    )
    OR s.kind = 'change' AND s.source_key IN (
        SELECT e.id::text FROM suspect t JOIN investigation i ON i.id = t.investigation_id
        JOIN timeline_event e ON e.run_id = i.run_id AND t.key = ANY(ARRAY[
            'launch:' || search_field(e.detail, 'key'), 'environment:' || search_field(e.detail, 'key')])
        WHERE t.status = %(outcome)s
    )
)"""
