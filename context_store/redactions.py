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
    ("negative_result", "expected_effect", "project_id"), ("negative_result", "observed_effect", "project_id"),
    ("negative_result", "scale", "project_id"), ("negative_result", "data", "project_id"),
    ("negative_result", "reason_class", "project_id"), ("negative_result", "code_version", "project_id"),
    ("anomaly", "statement", "run_id"), ("investigation", "title", "run_id"),
    ("investigation", "statement", "run_id"), ("investigation", "report", "run_id"),
    ("suspect", "title", "investigation_id"), ("suspect", "reason", "investigation_id"),
    ("diagnostic", "label", "investigation_id"), ("diagnostic", "reading", "investigation_id"),
    ("verdict", "statement", "investigation_id"), ("verdict", "would_overturn", "investigation_id"),
    ("case_work", "body", "investigation_id"), ("triage_mark", "comment", "subject"),
    ("memory_entry", "key", "project_id"), ("memory_entry", "text", "project_id"),
    ("chat_thread", "title", "id"), ("chat_exchange", "question", "thread_id"),
    ("chat_exchange", "answer", "thread_id"),
    ("ledger_entry", "detail", "subject"), ("activity", "text", "run_id"), ("activity", "detail", "run_id"),
    ("proposal", "title", "id"), ("proposal", "risk", "id"), ("proposal", "verification", "id"),
    ("proposal", "comment", "id"), ("approval", "comment", "proposal_id"),
    ("effect", "message", "key"), ("effect", "remedy", "key"), ("policy", "reason", "id"),
    ("schedule", "reason", "id"), ("schedule", "last_message", "id"),
    ("experiment", "title", "id"), ("experiment_step", "note", "experiment_id"),
    ("score", "settings", "project_id"), ("score", "raw", "project_id"), ("score", "checkpoint", "project_id"),
    ("benchmark", "title", "id"), ("benchmark", "origin", "id"), ("benchmark_item", "text", "benchmark_id"),
    ("decontamination", "corpus", "benchmark_id"), ("decontamination", "matches", "benchmark_id"),
    ("decontamination", "unread", "benchmark_id"), ("decontamination", "bad", "benchmark_id"),
    ("pipeline", "title", "id"), ("stage", "title", "pipeline_id"), ("stage_version", "settings", "pipeline_id"),
    ("subset", "source", "id"),
    ("stage_trace", "output", "subset_id"), ("document", "source", "subset_id"),
    ("document_stage", "reason", "document_id"), ("document_text", "text", "sha256"),
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
