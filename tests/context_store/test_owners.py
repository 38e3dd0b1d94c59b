"""Somebody answers for everything that is stored, and where nobody is known that is said. Shows R801-2.2 (owners)."""

from __future__ import annotations

import dataclasses

import psycopg
import pytest
from older_database import older_database
from proposal_at_hand import NEW
from training_log import make_run

from context_store import Store, migrate, open_store
from context_store.records import NewRun, NewStream, Project
from context_store.why_links import KINDS
from contracts.enums import RunRole


def new_run(run_id: str, **more: object) -> NewRun:
    return NewRun(id=run_id, project_id="p", name=run_id, role=RunRole.TRAINING, folder="/r", **more)  # type: ignore[arg-type]


def test_whoever_opened_the_store_answers_for_what_names_nobody(database_url: str) -> None:
    with open_store(database_url, owner="ada") as store:
        store.projects.put(Project(id="p", path="/p"))
        assert store.projects.get("p").owner == "ada"
        assert store.runs.create(new_run("r")).owner == "ada"
        store.projects.put(Project(id="q", path="/q", owner="team"))
        assert store.projects.get("q").owner == "team"
        proposal = store.proposals.put(dataclasses.replace(NEW, investigation_id=None))
        assert (proposal.owner, store.completeness.report().unowned) == ("ada", ())
    with open_store(database_url, owner="grace") as store:
        assert store.runs.create(new_run("s")).owner == "grace", "of the run, not of the project"
        assert store.runs.create(new_run("rr", parent_run_id="r", parent_step=0)).owner == "ada", (
            "a re-run of ada's run"
        )
        assert store.runs.create(new_run("t", owner="token")).owner == "token"
        store.knowledge.open_investigation("case-1", "t", [], "t", at=1.0)
        assert store.proposals.put(dataclasses.replace(NEW, investigation_id="case-1")).owner == "token"
        assert store.why.of("investigation", "case-1").nodes[0].owner == "token"


def test_a_training_elsewhere_belongs_to_whose_token_sent_it(store: Store) -> None:
    store.streams.open(NewStream(id="s", run_id="r", project_id="p", name="r", start="1", owner="ada"))
    assert (store.runs.get("r").owner, store.projects.get("p").owner) == ("ada", "ada")


def test_nobody_known_is_said_and_can_be_mended(store: Store) -> None:
    make_run(store)
    assert store.runs.get("run-1").owner == "unknown"
    assert store.completeness.report().unowned == ("p",)
    store.projects.set_owner("p", "ada")
    assert store.runs.get("run-1").owner == "ada"
    for table in ("project", "run"):
        with psycopg.connect(store.url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"UPDATE {table} SET owner = ''")


def test_every_kind_of_object_has_an_owner_or_is_raw() -> None:
    """A kind that names nobody is a file or a name of one, whose owner is that of what points to it."""
    assert {name for name, kind in KINDS.items() if kind.owner == "NULL"} == {"log", "output", "weights", "recipe"}


def test_what_was_stored_before_has_a_stated_owner_and_time(postgres_url: str) -> None:
    url = older_database(postgres_url, "before_owners", "0009")
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO project (id, path, entry, backend, owner) VALUES ('p', '/p', 'e', 'embedded', 'ada'),"
            " ('q', '/q', 'e', 'embedded', '')"
        )
        connection.execute(
            "INSERT INTO run (id, project_id, name, role, folder, state, message, last_step, created_at) SELECT"
            " 'of-' || id, id, 'r', 'training', '/r', 'completed', '', 1, to_timestamp(1000) FROM project"
        )
        connection.execute(
            "INSERT INTO anomaly (content_key, run_id, kind, series, onset_lo, onset_hi, severity, statement, evidence,"
            " probe) VALUES ('k', 'of-p', 'level_shift', '{loss}', 5, 7, 1, 'the loss departs', '{run:of-p}', '{}')"
        )
        connection.execute(
            "INSERT INTO negative_result (content_key, project_id, claim, intervention, context, expected, observed,"
            " reason_class, reason, evidence, reopen_if, actor, scale, data, code_version, expected_effect,"
            " observed_effect, diff_hash) VALUES ('k', 'p', 'loss', 'x', '{}', '', 'y', 'z', 'w', '{run:of-p}', '',"
            " 'anna', '', '', '', 'null', 'null', '')"
        )
    migrate(url)
    with open_store(url) as store:
        assert {each.id: each.owner for each in store.projects.list()} == {"p": "ada", "q": "unknown"}
        assert (store.runs.get("of-p").owner, store.runs.get("of-q").owner) == ("ada", "unknown")
        assert store.knowledge.anomalies("of-p")[0].found_at == 1000.0, "no case: since its run was made"
        assert store.negatives.list()[0].at > 1000.0, "nothing says when: the time of the upgrade"
        hits = {str(hit.kind): hit for hit in store.search.find("loss")}
        assert hits["anomaly"].at == 1000.0
        assert (hits["negative"].run_id, hits["negative"].at is None) == ("of-p", False)
