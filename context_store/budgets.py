"""Budgets: reserve before spending, settle after. A child's limits are a reservation in its parent.

What a person lets a project spend is a budget of its own, `project:NAME:NUMBER`; that of each of its cases and
experiments is a child of the newest one, so that a re-run reserves through the whole chain.

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
from context_store.ledger import append_entry
from context_store.models import BudgetRow, ReservationRow
from context_store.records import Amount, BudgetState
from contracts.enums import Role
from contracts.errors import BudgetExceeded, NotFound, RoleRequired, UserInputError

_PROJECT = "project"


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
            _insert(connection, budget_id, amount, parent_id)
        return self.state(budget_id)

    def open_share(self, budget_id: str, wish: Amount, parent_id: str | None) -> BudgetState:
        """As `open`, with no more of each currency than the parent has left: nothing of a closed one."""
        with self._database.begin() as connection:
            open_share(connection, budget_id, wish, parent_id)
        return self.state(budget_id)

    def allow_project(self, project_id: str, amount: Amount, actor: str, role: Role, reason: str, at: float) -> str:
        """The id of what the project may spend from now on; what it was allowed before is closed, and what its cases
        hold of that stays theirs. Raises RoleRequired below admin, UserInputError without a reason."""
        if not role.includes(Role.ADMIN):
            raise RoleRequired(f"a {role.value} may not open a budget", remedy="ask somebody with the role admin")
        if not reason.strip():
            raise UserInputError("a budget needs its reason", remedy="say why with --reason")
        with self._database.begin() as connection:
            connection.execute(sa.text("LOCK TABLE budget IN SHARE ROW EXCLUSIVE MODE"))  # readers go on
            known = _of_project(connection, project_id)
            if known:
                connection.execute(sa.update(BudgetRow).where(BudgetRow.id == known).values(closed=True))
            number = int(known.rpartition(":")[2]) + 1 if known else 1
            budget_id = f"{_PROJECT}:{project_id}:{number}"
            _insert(connection, budget_id, amount, None)
            detail = {"reason": reason, "project": project_id, **asdict(amount)}
            subject = f"budget:{budget_id}"
            append_entry(
                connection, actor=actor, action="budget_opened", subject=subject, detail=detail, evidence=(), at=at
            )
        return budget_id

    def of_project(self, project_id: str) -> str | None:
        """The id of what the project may spend, closed or not; None when nobody set a limit."""
        with self._database.read() as connection:
            return _of_project(connection, project_id)

    def reserve(self, budget_id: str, key: str, amount: Amount, *, out_of: str = "") -> None:
        """Take it out before spending; idempotent by `key`. Raises BudgetExceeded when it does not fit.

        `out_of`: key of an open reservation in the same budget of which this is a part, as far as that goes.
        """
        with self._database.begin() as connection:
            if out_of:
                _take_part(connection, budget_id, out_of, key, amount)
            reserve_amount(connection, budget_id, key, amount)

    def settle(self, key: str, *, cpu_s: float = 0.0, tokens: int = 0, usd: float = 0.0, wall_s: float = 0.0) -> None:
        """Replace the reservation by what was really spent; its re-runs stay spent.

        Raises NotFound when nothing is reserved under `key`.
        """
        with self._database.begin() as connection:
            if not settle_reservation(connection, key, cpu_s=cpu_s, tokens=tokens, usd=usd, wall_s=wall_s):
                raise NotFound(f"no reservation '{key}'", remedy="reserve before spending")

    def close(self, budget_id: str) -> BudgetState:
        """Nothing can be reserved any more, nor by its children, and what is left goes back to the parent.

        Idempotent; raises NotFound. Open reservations, those of children too, stay spent until they are settled.
        """
        with self._database.begin() as connection:
            close_budget(connection, budget_id)
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
    """Reserve one re-run and an equal share of the CPU and wall seconds left, where nobody said how much it needs.

    Raises BudgetExceeded when nothing is left, NotFound without the budget.
    """
    state = load_budget(connection, budget_id, lock=True)
    share = state.cpu_s_left / max(1, state.reruns_left) if state is not None else 0.0
    if state is not None and share <= 0.0 and state.cpu_s > 0.0:
        raise BudgetExceeded(f"budget '{budget_id}' has no CPU seconds left", remedy="open a larger one")
    wall_s = max(0.0, state.left.wall_s) / max(1, state.reruns_left) if state is not None else 0.0
    reserve_amount(connection, budget_id, key, Amount(cpu_s=max(0.0, share), reruns=1, wall_s=wall_s))


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


def _insert(connection: sa.Connection, budget_id: str, amount: Amount, parent_id: str | None) -> None:
    values = {"id": budget_id, "parent_id": parent_id, "closed": False, **asdict(amount)}
    connection.execute(insert(BudgetRow).values(**values).on_conflict_do_nothing())


def close_budget(connection: sa.Connection, budget_id: str) -> None:
    """As `Budgets.close`, inside the caller's transaction."""
    if load_budget(connection, budget_id) is None:
        raise _missing(budget_id)
    for each in _locked_tree(connection, budget_id):
        connection.execute(sa.update(BudgetRow).where(BudgetRow.id == each).values(closed=True))
        _give_back(connection, each)


def _take_part(connection: sa.Connection, budget_id: str, whole: str, key: str, amount: Amount) -> None:
    """Lessen the reservation `whole` by what `key` is about to reserve; nothing when `key` did so before."""
    load_budget(connection, budget_id, lock=True)
    open_one = (ReservationRow.key == whole) & (ReservationRow.budget_id == budget_id) & ~ReservationRow.settled
    row = connection.execute(sa.select(*_AMOUNTS).where(open_one)).one_or_none()
    if row is None or is_reserved(connection, key):
        return
    rest = {name: _share(held - getattr(amount, name), held) for name, held in row._mapping.items()}
    connection.execute(sa.update(ReservationRow).where(open_one).values(**rest))


def open_share(connection: sa.Connection, budget_id: str, wish: Amount, parent_id: str | None) -> None:
    """As `Budgets.open_share`, inside the caller's transaction."""
    if load_budget(connection, budget_id) is not None:
        return
    parent = None if parent_id is None else load_budget(connection, parent_id, lock=True)
    if parent is not None:
        left = Amount() if parent.closed else parent.left
        shares: dict[str, Any] = {
            each.name: _share(getattr(wish, each.name), getattr(left, each.name)) for each in fields(Amount)
        }
        wish = Amount(**shares)
        if not parent.closed:
            reserve_amount(connection, parent.id, _held_by(budget_id), wish)
    _insert(connection, budget_id, wish, None if parent is None else parent.id)


def _share(wish: float, left: float) -> float:
    return max(type(wish)(0), min(wish, left))


def _of_project(connection: sa.Connection, project_id: str) -> str | None:
    prefix = f"{_PROJECT}:{project_id}:"
    ids = connection.execute(sa.select(BudgetRow.id).where(BudgetRow.id.startswith(prefix, autoescape=True))).scalars()
    numbers = [int(rest) for each in ids if (rest := each.removeprefix(prefix)).isdigit()]
    return f"{prefix}{max(numbers)}" if numbers else None


def _descendants(connection: sa.Connection, budget_id: str) -> list[str]:
    """Each after its parent."""
    found, front = [], [budget_id]
    while front:
        query = sa.select(BudgetRow.id).where(BudgetRow.parent_id.in_(front)).order_by(BudgetRow.id)
        front = list(connection.execute(query).scalars())
        found += front
    return found


def _locked_tree(connection: sa.Connection, budget_id: str) -> list[str]:
    """It and all below it, each before its parent. Nobody opens another below them until the transaction ends."""
    while True:
        tree = [budget_id, *_descendants(connection, budget_id)][::-1]
        savepoint = connection.begin_nested()
        for each in tree:
            load_budget(connection, each, lock=True)
        if len(_descendants(connection, budget_id)) == len(tree) - 1:
            savepoint.commit()
            return tree
        savepoint.rollback()  # one was opened meanwhile; its row comes before those of its parents


def _held_by(budget_id: str) -> str:
    """Key of a child's reservation in its parent."""
    return f"budget:{budget_id}"


def _missing(budget_id: str) -> NotFound:
    return NotFound(f"no budget '{budget_id}'", remedy="open it first")
