"""An older database: what was ruled out on nothing is open again, reports say that nothing is known to be unread."""

from __future__ import annotations

import psycopg
import pytest
from older_database import older_database

from context_store import migrate, open_store
from contracts.enums import Verdict


def fill_tenth_version(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO project (id, path, entry, backend, owner) VALUES ('p', '/p', 'e', 'embedded', 'a')"
        )
        connection.execute(
            "INSERT INTO run (id, project_id, name, role, folder, state, message, last_step, created_at, owner)"
            " VALUES ('r', 'p', 'r', 'training', '/r', 'completed', '', 1, now(), 'a')"
        )
        connection.execute(
            "INSERT INTO investigation (id, run_id, title, state, statement, round, opened_at, report)"
            " VALUES ('c', 'r', 't', 'open', '', 0, now(), '')"
        )
        for key, status, evidence in (("bare", "refuted", "{}"), ("shown", "refuted", "{run:r}"), ("open", None, "{}")):
            connection.execute(
                "INSERT INTO suspect VALUES ('c', %s, 'code', 't', '{}', %s, 1, 1, %s, 'because')",
                [key, evidence, status],
            )
        connection.execute("INSERT INTO benchmark VALUES ('b', 't', 'h', 1, '/b', 'a', now())")
        connection.execute(
            "INSERT INTO decontamination (content_key, corpus, corpus_sha256, benchmark_id, n, num_documents,"
            " num_leaking_documents, num_items, num_leaked_items, num_short_items, matches, owner, at)"
            " VALUES ('k', '/c', 'h', 'b', 8, 5, 0, 1, 0, 0, '[]', 'a', now())"
        )
        columns = (
            "content_key, project_id, checkpoint, recipe, benchmark, metric, protocol, harness, harness_version,"
            " settings, settings_hash, identity_key, value, raw, raw_sha256, owner, at"
        )
        for key, version in (("1", None), ("2", None), ("3", "1.0")):
            row = "%s, 'p', 'c', 'r', 'arc', 'acc', 'mc', 'h', %s, '{}', '', 'same', 0.5, '', '', 'a', now()"
            connection.execute(f"INSERT INTO score ({columns}) VALUES ({row})", [key, version])


def test_an_older_database_keeps_what_rests_on_evidence(postgres_url: str) -> None:
    url = older_database(postgres_url, "before_gaps", "0010")
    fill_tenth_version(url)
    migrate(url)
    with open_store(url) as store:
        suspects = {each.key: each for each in store.knowledge.suspects("c")}
        assert {key: each.status for key, each in suspects.items()} == {
            "bare": Verdict.CANNOT_TELL,
            "shown": Verdict.REFUTED,
            "open": None,
        }
        assert "without evidence" in suspects["bare"].reason
        (report,) = store.benchmarks.reports("b")
        assert (report.num_unread, report.unread, report.num_bad, report.bad) == (0, (), 0, ())
        assert len({each.identity_key for each in store.evals.list(benchmark="arc")}) == 3
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE suspect SET status = 'refuted' WHERE key = 'open'")
