"""A database from before approvals were bound to their expiry: spending stays, old approvals allow nothing."""

from __future__ import annotations

import psycopg
from older_database import older_database

from context_store import migrate, open_store
from context_store.records import Amount
from contracts.enums import ProposalState


def fill_third_version(url: str) -> None:
    with psycopg.connect(url) as connection:
        for name, state in (("open", "open"), ("new", "approved"), ("done", "approved"), ("no", "rejected")):
            row = "%s, 'h', NULL, 'start_run', 't', '{}', '', '', '', '', '{}', %s, now(), now(), '', NULL, ''"
            connection.execute(f"INSERT INTO proposal VALUES ({row})", [name, state])
        columns = "proposal_id, bound_hash, actor, comment, at, expires_at, used_by"
        for name, used_by in (("new", ""), ("done", "apply:done")):
            row = "%s, 'h', 'ada', '', now(), now(), %s"
            connection.execute(f"INSERT INTO approval ({columns}) VALUES ({row})", [name, used_by])
        connection.execute("INSERT INTO budget VALUES ('b', 10, 5)")
        connection.execute("INSERT INTO reservation VALUES ('open', 'b', 3, 1, NULL), ('settled', 'b', 4, 1, 0.5)")


def test_old_approvals_allow_nothing_and_what_was_spent_stays(postgres_url: str) -> None:
    url = older_database(postgres_url, "third_version", "0003")
    fill_third_version(url)
    migrate(url)
    with open_store(url, clock=lambda: 0.0) as store:
        states = {each.id: each.state for each in store.proposals.list()}
        assert states == {
            "open": ProposalState.EXPIRED,
            "new": ProposalState.EXPIRED,
            "done": ProposalState.APPROVED,
            "no": ProposalState.REJECTED,
        }
        assert [each.used_by for name in ("new", "done") for each in store.proposals.approvals(name)] == [
            "expired",
            "apply:done",
        ]
        assert store.budgets.state("b").used == Amount(cpu_s=3.5, reruns=2)
        assert store.budgets.reserved("settled") == Amount(cpu_s=0.5, reruns=1)
