"""The report of what was redacted: counted where it stood, because each mark says what kind of secret it replaced."""

from __future__ import annotations

from context_store.database import Database, driver
from context_store.records.redactions import Redaction

# Table, column, and the column that says whose it is.
_PLACES = (
    ("run", "name", "id"), ("run", "folder", "id"), ("run", "message", "id"),
    ("segment", "environment", "run_id"), ("segment", "start_checkpoint", "run_id"), ("segment", "message", "run_id"),
    ("segment", "remedy", "run_id"), ("config_value", "value", "run_id"), ("config_value", "key", "run_id"),
    ("timeline_event", "title", "run_id"), ("timeline_event", "detail", "run_id"),
    ("code_commit", "author", "project_id"), ("code_commit", "subject", "project_id"),
    ("hunk", "path", "project_id"), ("hunk", "text", "project_id"), ("negative_result", "claim", "project_id"),
    ("negative_result", "intervention", "project_id"), ("negative_result", "context", "project_id"),
    ("negative_result", "expected", "project_id"), ("negative_result", "observed", "project_id"),
    ("negative_result", "reason", "project_id"), ("negative_result", "reopen_if", "project_id"),
    ("anomaly", "statement", "run_id"), ("investigation", "title", "run_id"),
    ("investigation", "statement", "run_id"), ("document_text", "text", "sha256"),
)  # fmt: skip


class Redactions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[Redaction]:
        """Most first. Reads all stored text, which takes seconds in a large store."""
        found: list[Redaction] = []
        with self._database.snapshot() as connection:
            for table, column, owner in _PLACES:
                query = _COUNT.format(table=table, column=column, owner=owner)
                rows = driver(connection).execute(query).fetchall()
                found += [Redaction(where=f"{table}.{column}", owner=row[0], kind=row[1], count=row[2]) for row in rows]
        return sorted(found, key=lambda each: (-each.count, each.where, each.owner, each.kind))


_COUNT = """
    SELECT coalesce({owner}::text, ''), coalesce(mark[1], ''), count(*)::int
    FROM "{table}", regexp_matches("{column}"::text, '\\[redacted(?: (\\w+))?\\]', 'g') AS mark
    WHERE strpos("{column}"::text, '[redacted') > 0 GROUP BY 1, 2
"""
