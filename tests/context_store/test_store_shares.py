"""Who did the work, by a recorded ledger of several days. Shows RM2-7.21: both shares with their definition."""

from __future__ import annotations

import pytest

from context_store import Store
from context_store.records import Principal
from context_store.shares import MAX_GAP_S
from contracts.enums import Role

DAY = 86_400.0


def test_shares_by_steps_and_by_time(store: Store) -> None:
    """A simulated workload of three days: a loop works in small steps, a person decides after a night."""
    for day in range(3):
        case, at = f"investigation:case-{day}", day * DAY + 1000.0
        store.ledger.append("ada", "open_investigation", case, {}, (), at)
        for step in range(1, 8):
            store.ledger.append("loop:debug", "propose", case, {}, (), at + 60.0 * step)
        store.ledger.append("ada", "approved", case, {}, (), at + 60.0 * 7 + 40_000.0)
    store.ledger.note_request(Principal(name="ada", role=Role.REVIEWER), "POST", "/api/v1/x", {}, DAY)
    found = store.ledger.shares(0.0, 3 * DAY)
    by_actor = {each.actor: (each.is_agent, each.steps, each.seconds) for each in found.actors}
    assert by_actor == {"loop:debug": (True, 21, 3 * 420.0), "ada": (False, 6, 3 * MAX_GAP_S)}
    assert found.agents_by_steps == pytest.approx(21 / 27)
    assert found.agents_by_time == pytest.approx(420.0 / (420.0 + MAX_GAP_S))
    assert (found.begin, found.end) == (1000.0, 2 * DAY + 1000.0 + 420.0 + 40_000.0)
    assert "at most 3600 s" in found.definition
    second_day = store.ledger.shares(DAY, DAY + 1000.0 + 421.0)
    assert {each.actor: each.steps for each in second_day.actors} == {"loop:debug": 7, "ada": 1}


def test_an_empty_ledger_has_no_shares(store: Store) -> None:
    found = store.ledger.shares(0.0, DAY)
    assert (found.actors, found.begin, found.agents_by_steps) == ((), None, 0.0)
