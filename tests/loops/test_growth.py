"""What a hundred rounds of a loop leave behind in the database, once the case is closed and its graph is forgotten."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row
from test_runner import NOW, SmallLoop, executor, open_small_case

from context_store import open_store
from context_store.records import Amount, EffectRequest
from contracts.enums import EffectKind
from loops.core import Conclusion, Limits, Planned, Request
from loops.runner import CaseStatus, Runner

ROUNDS = 100
MAX_BYTES = 5 * 2**20


class LongLoop(SmallLoop):
    """One effect and one negative result a round."""

    def propose(self, case_id: str) -> Planned | Conclusion:
        number = len(self._store.negatives.list(investigation_id=case_id))
        if number == ROUNDS:
            return Conclusion(reason="all were tried")
        effect = EffectRequest(
            key=f"{case_id}:{number}",
            kind=EffectKind.DIAGNOSTIC_RUN,
            payload={"number": number},
            investigation_id=case_id,
            actor="loop:small",
        )
        return Planned(requests=(Request(effect=effect, cost=Amount(cpu_s=1.0, reruns=1)),), reason=f"try {number}")


def size_of(url: str) -> int:
    """Bytes of all tables with their indexes, without what is only waiting to be used again."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'langgraph')"
        ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.slow
def test_a_hundred_rounds_leave_five_megabytes_at_most(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA langgraph")
    options = "-c search_path=langgraph"
    with (
        psycopg.connect(
            database_url, autocommit=True, prepare_threshold=0, row_factory=dict_row, options=options
        ) as connection,
        open_store(database_url, clock=lambda: NOW) as store,
    ):
        saver = PostgresSaver(connection)
        saver.setup()
        before = size_of(database_url)
        runner = Runner(
            store=store,
            checkpointer=saver,
            loops={"small": LongLoop(store, proposes=False)},
            limits=Limits(max_rounds=ROUNDS + 1, reruns=ROUNDS + 1),
            clock=lambda: NOW,
            wait=executor(store, tmp_path / "tally"),
        )
        assert runner.start("small", open_small_case(store)).status is CaseStatus.CLOSED
        unpruned = size_of(database_url) - before
        runner.prune()
        pruned = size_of(database_url) - before
        print(f"{ROUNDS} rounds: {unpruned / 2**20:.2f} MiB before, {pruned / 2**20:.2f} MiB after pruning")  # noqa: T201
        assert len(store.effects.list()) == ROUNDS
        assert pruned <= MAX_BYTES
        assert pruned < unpruned
