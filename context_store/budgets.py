"""Budgets: reserve before spending, settle after."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import BudgetRow, ReservationRow
from context_store.records import BudgetState
from contracts.errors import BudgetExceeded, NotFound


class Budgets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, budget_id: str, cpu_s: float, reruns: int) -> BudgetState:
        """Idempotent by id: the first limits stay, nothing widens a budget afterwards."""
        statement = insert(BudgetRow).values(id=budget_id, cpu_s=cpu_s, reruns=reruns)
        with self._database.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())
        return self.state(budget_id)

    def reserve(self, budget_id: str, key: str, cpu_s: float, reruns: int) -> None:
        """Take it out before spending; idempotent by `key`. Raises BudgetExceeded when it does not fit."""
        with self._database.begin() as connection:
            state = load_budget(connection, budget_id, lock=True)
            if state is None:
                raise _missing(budget_id)
            if is_reserved(connection, key):
                return
            if cpu_s > state.cpu_s_left or reruns > state.reruns_left:
                raise BudgetExceeded(
                    f"budget '{budget_id}' has {state.cpu_s_left:.1f} CPU s and {state.reruns_left} re-runs left, "
                    f"asked for {cpu_s:.1f} CPU s and {reruns}",
                    remedy="open the case with a larger budget, or let running diagnostics finish first",
                )
            add_reservation(connection, budget_id, key, cpu_s=cpu_s, reruns=reruns)

    def settle(self, key: str, cpu_s: float) -> None:
        """Replace the reservation by what was really spent. Raises NotFound when nothing is reserved under `key`."""
        with self._database.begin() as connection:
            if not settle_reservation(connection, key, cpu_s):
                raise NotFound(f"no reservation '{key}'", remedy="reserve before spending")

    def allowance(self, budget_id: str, key: str) -> float:
        """CPU seconds that may be spent under `key`: what is reserved for it, else what is left of the budget.

        Raises NotFound without the budget.
        """
        with self._database.begin() as connection:
            reserved = connection.execute(sa.select(ReservationRow.cpu_s).where(ReservationRow.key == key)).scalar()
            state = load_budget(connection, budget_id)
        if state is None:
            raise _missing(budget_id)
        return float(reserved) if reserved else state.cpu_s_left

    def state(self, budget_id: str) -> BudgetState:
        """Raises NotFound."""
        with self._database.begin() as connection:
            state = load_budget(connection, budget_id)
        if state is None:
            raise _missing(budget_id)
        return state


def load_budget(connection: sa.Connection, budget_id: str, *, lock: bool = False) -> BudgetState | None:
    """`lock`: nobody else reserves from it until the transaction ends."""
    query = sa.select(BudgetRow.__table__).where(BudgetRow.id == budget_id)
    budget = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if budget is None:
        return None
    spent = sa.func.coalesce(ReservationRow.settled_cpu_s, ReservationRow.cpu_s)
    sums = sa.select(sa.func.coalesce(sa.func.sum(spent), 0.0), sa.func.coalesce(sa.func.sum(ReservationRow.reruns), 0))
    cpu_s_used, reruns_used = connection.execute(sums.where(ReservationRow.budget_id == budget_id)).one()
    return BudgetState(**budget._mapping, cpu_s_used=float(cpu_s_used), reruns_used=int(reruns_used))


def is_reserved(connection: sa.Connection, key: str) -> bool:
    """True when something was reserved under `key`, settled or not."""
    return connection.execute(sa.select(ReservationRow.key).where(ReservationRow.key == key)).scalar() is not None


def add_reservation(connection: sa.Connection, budget_id: str, key: str, *, cpu_s: float, reruns: int) -> None:
    """The caller holds the budget's lock and knows that it fits."""
    values = {"key": key, "budget_id": budget_id, "cpu_s": cpu_s, "reruns": reruns}
    connection.execute(sa.insert(ReservationRow).values(**values))


def settle_reservation(connection: sa.Connection, key: str, cpu_s: float) -> bool:
    """True when there was a reservation under `key`."""
    statement = sa.update(ReservationRow).where(ReservationRow.key == key).values(settled_cpu_s=cpu_s)
    return connection.execute(statement.returning(ReservationRow.key)).scalar() is not None


def _missing(budget_id: str) -> NotFound:
    return NotFound(f"no budget '{budget_id}'", remedy="open it first")
