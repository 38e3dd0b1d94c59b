"""Budgets: reserve before spending, settle after. A child's limits are a reservation in its parent.

Rows are locked from child to parent, so that concurrent reservations see each other and no two transactions wait for
each other.
"""

from __future__ import annotations

import builtins
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import BudgetRow, ReservationRow
from context_store.records import Amount, BudgetState
from contracts.errors import BudgetExceeded, NotFound


class Budgets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, budget_id: str, amount: Amount, parent_id: str | None = None) -> BudgetState:
        """Idempotent by id: the first limits stay, nothing widens a budget afterwards.

        A child's amount is taken out of its parent: BudgetExceeded when it does not fit, NotFound without the parent.
        """
        with self._database.begin() as connection:
            if parent_id is not None and load_budget(connection, budget_id) is None:
                reserve_amount(connection, parent_id, _held_by(budget_id), amount)
            values = {"id": budget_id, "parent_id": parent_id, "closed": False, **asdict(amount)}
            connection.execute(insert(BudgetRow).values(**values).on_conflict_do_nothing())
        return self.state(budget_id)

    def reserve(self, budget_id: str, key: str, amount: Amount) -> None:
        """Take it out before spending; idempotent by `key`. Raises BudgetExceeded when it does not fit."""
        with self._database.begin() as connection:
            reserve_amount(connection, budget_id, key, amount)

    def settle(self, key: str, *, cpu_s: float = 0.0, tokens: int = 0, usd: float = 0.0, wall_s: float = 0.0) -> None:
        """Replace the reservation by what was really spent; its re-runs stay spent.

        Raises NotFound when nothing is reserved under `key`.
        """
        with self._database.begin() as connection:
            if not settle_reservation(connection, key, cpu_s=cpu_s, tokens=tokens, usd=usd, wall_s=wall_s):
                raise NotFound(f"no reservation '{key}'", remedy="reserve before spending")

    def close(self, budget_id: str) -> BudgetState:
        """Nothing can be reserved any more, and what is left goes back to the parent. Idempotent; raises NotFound.

        Open reservations, those of children too, stay spent until they are settled.
        """
        with self._database.begin() as connection:
            if load_budget(connection, budget_id, lock=True) is None:
                raise _missing(budget_id)
            connection.execute(sa.update(BudgetRow).where(BudgetRow.id == budget_id).values(closed=True))
            _give_back(connection, budget_id)
        return self.state(budget_id)

    def reserved(self, key: str) -> Amount | None:
        """What is reserved, or was spent, under `key`; None when nothing is."""
        with self._database.begin() as connection:
            row = connection.execute(sa.select(*_AMOUNTS).where(ReservationRow.key == key)).one_or_none()
        return None if row is None else Amount(**row._mapping)

    def state(self, budget_id: str) -> BudgetState:
        """Raises NotFound."""
        with self._database.begin() as connection:
            state = load_budget(connection, budget_id)
        if state is None:
            raise _missing(budget_id)
        return state

    def list(self) -> builtins.list[BudgetState]:
        """All of them, by id."""
        with self._database.begin() as connection:
            ids = connection.execute(sa.select(BudgetRow.id).order_by(BudgetRow.id)).scalars().all()
            return [state for each in ids if (state := load_budget(connection, each)) is not None]


_AMOUNTS = [ReservationRow.__table__.columns[each.name] for each in fields(Amount)]


def load_budget(connection: sa.Connection, budget_id: str, *, lock: bool = False) -> BudgetState | None:
    """`lock`: nobody else reserves from it until the transaction ends."""
    query = sa.select(BudgetRow.__table__).where(BudgetRow.id == budget_id)
    budget = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if budget is None:
        return None
    sums = [sa.func.coalesce(sa.func.sum(each), 0).label(f"{each.name}_used") for each in _AMOUNTS]
    used = connection.execute(sa.select(*sums).where(ReservationRow.budget_id == budget_id)).one()._mapping
    whole = {name: int(value) for name, value in used.items() if name in ("reruns_used", "tokens_used")}
    return BudgetState(**budget._mapping, **{**used, **whole})


def is_reserved(connection: sa.Connection, key: str) -> bool:
    """True when something was reserved under `key`, settled or not."""
    return connection.execute(sa.select(ReservationRow.key).where(ReservationRow.key == key)).scalar() is not None


def reserve_share(connection: sa.Connection, budget_id: str, key: str) -> None:
    """Reserve one re-run and an equal share of the CPU seconds left, where nobody said how much it needs.

    Raises BudgetExceeded when nothing is left, NotFound without the budget.
    """
    state = load_budget(connection, budget_id, lock=True)
    share = state.cpu_s_left / max(1, state.reruns_left) if state is not None else 0.0
    if state is not None and share <= 0.0 and state.cpu_s > 0.0:
        raise BudgetExceeded(f"budget '{budget_id}' has no CPU seconds left", remedy="open a larger one")
    reserve_amount(connection, budget_id, key, Amount(cpu_s=max(0.0, share), reruns=1))


def _add_reservation(connection: sa.Connection, budget_id: str, key: str, amount: Amount) -> None:
    """The caller holds the budget's lock and knows that it fits."""
    values = {"key": key, "budget_id": budget_id, "settled": False, **asdict(amount)}
    connection.execute(sa.insert(ReservationRow).values(**values))


def rename_reservation(connection: sa.Connection, key: str, new_key: str) -> None:
    """What was reserved under `key`, if anything, is from now on reserved under `new_key`."""
    connection.execute(sa.update(ReservationRow).where(ReservationRow.key == key).values(key=new_key))


def settle_reservation(connection: sa.Connection, key: str, **spent: Any) -> bool:
    """True when there was a reservation under `key`. `spent`: fields of Amount; re-runs stay unless they are given."""
    budget_id = connection.execute(sa.select(ReservationRow.budget_id).where(ReservationRow.key == key)).scalar()
    if budget_id is None:
        return False
    load_budget(connection, budget_id, lock=True)
    values = {"cpu_s": 0.0, "tokens": 0, "usd": 0.0, "wall_s": 0.0, **spent}
    connection.execute(sa.update(ReservationRow).where(ReservationRow.key == key).values(**values, settled=True))
    _give_back(connection, budget_id)
    return True


def release_reservation(connection: sa.Connection, key: str) -> None:
    """Nothing was spent under `key`: all of it goes back, re-runs too."""
    settle_reservation(connection, key, reruns=0)


def reserve_amount(connection: sa.Connection, budget_id: str, key: str, amount: Amount) -> None:
    """As `Budgets.reserve`, inside the caller's transaction."""
    state = load_budget(connection, budget_id, lock=True)
    if state is None:
        raise _missing(budget_id)
    if is_reserved(connection, key):
        return
    if state.closed:
        raise BudgetExceeded(f"budget '{budget_id}' is closed", remedy="open a new one")
    if Amount().exceeds(amount):
        raise BudgetExceeded(f"a reservation cannot be negative: {amount!r}", remedy="reserve what may be spent")
    if amount.exceeds(state.left):
        raise BudgetExceeded(
            f"budget '{budget_id}' has {state.cpu_s_left:.1f} CPU s and {state.reruns_left} re-runs left "
            f"(in all: {state.left}), asked for {amount}",
            remedy="open the case with a larger budget, or let running diagnostics finish first",
        )
    _add_reservation(connection, budget_id, key, amount)


def _give_back(connection: sa.Connection, budget_id: str) -> None:
    """What a closed child holds in its parent becomes what it used; nothing happens while it is open."""
    state = load_budget(connection, budget_id)
    assert state is not None
    if state.closed and state.parent_id is not None:
        settle_reservation(connection, _held_by(budget_id), **asdict(state.used))


def _held_by(budget_id: str) -> str:
    """Key of a child's reservation in its parent."""
    return f"budget:{budget_id}"


def _missing(budget_id: str) -> NotFound:
    return NotFound(f"no budget '{budget_id}'", remedy="open it first")
