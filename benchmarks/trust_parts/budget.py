"""Budget fuzz: random trees of budgets, spent from in parallel, against a model that knows nothing of the store.

Amounts are multiples of 1/64, so that every sum is exact in floating point and one grain too much is seen. In a *lone*
tree one spender acts and the model foretells each answer, the refusals too. In a *crowded* tree four threads act at
once; the model is told what was granted and must find every budget as it then has to be, at each pause.
`overspends`: budgets that gave more than they hold, or grants that the model forbids. `budget_differences`: any other
disagreement.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.place import place
from context_store import Store, open_store
from context_store.records import Amount
from contracts.errors import BudgetExceeded

Vector = tuple[float, ...]  # CPU s, re-runs, tokens, money, wall s: the fields of Amount in their order
_GRAIN = 1 / 64
_THREADS = 4
_PAUSES = 3
_TURNS = 5  # of each thread between two pauses
_OVERSPENT = """
    SELECT count(*) FROM (
        SELECT b.id FROM budget b JOIN reservation r ON r.budget_id = b.id GROUP BY b.id
        HAVING sum(r.cpu_s) > b.cpu_s OR sum(r.reruns) > b.reruns OR sum(r.tokens) > b.tokens
            OR sum(r.usd) > b.usd OR sum(r.wall_s) > b.wall_s) AS over
"""


@dataclass
class Model:
    """What budgets are meant to be: a child is held in its parent whole, and as what it used once it is closed.

    Whoever closes a budget closes all below it.
    """

    limits: dict[str, Vector] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    holdings: dict[str, tuple[str, Vector]] = field(default_factory=dict)  # key -> (budget, reserved or spent)
    closed: set[str] = field(default_factory=set)

    def used(self, budget: str) -> Vector:
        held = [amount for where, amount in self.holdings.values() if where == budget]
        held += [self.weight(child) for child, parent in self.parents.items() if parent == budget]
        return tuple(map(sum, zip(*held, strict=True))) if held else (0.0,) * 5

    def weight(self, child: str) -> Vector:
        """Of a child in its parent."""
        return self.used(child) if self.is_closed(child) else self.limits[child]

    def is_closed(self, budget: str) -> bool:
        parent = self.parents.get(budget)
        return budget in self.closed or (parent is not None and self.is_closed(parent))

    def grants(self, budget: str, amount: Vector) -> bool:
        wanted = zip(amount, self.used(budget), self.limits[budget], strict=True)
        return not self.is_closed(budget) and all(more + used <= limit for more, used, limit in wanted)


@dataclass
class Spender:
    """One thread: decides at random, tells `model` what the store granted."""

    store: Store
    model: Model
    rng: random.Random
    name: str
    foretells: bool
    turn: int = 0
    faults: list[str] = field(default_factory=list)

    def act(self) -> None:
        self.turn += 1
        action = self.rng.choice(("open", "reserve", "reserve", "reserve", "twin", "settle", "close", "again"))
        getattr(self, f"_{action}")()

    def _open(self) -> None:
        parent, child, amount = self._budget(), f"{self.name}.{self.turn}", _amount(self.rng)
        if self._granted(parent, amount, lambda: self.store.budgets.open(child, amount, parent_id=parent)):
            self.model.limits[child] = astuple(amount)
            self.model.parents[child] = parent

    def _reserve(self) -> None:
        budget, key, amount = self._budget(), f"{self.name}:{self.turn}", _amount(self.rng)
        if self._granted(budget, amount, lambda: self.store.budgets.reserve(budget, key, amount)):
            self.model.holdings[key] = (budget, astuple(amount))

    def _twin(self) -> None:
        """A key that other threads of the tree may use at the same moment, for the same amount: it counts once."""
        root = self.name.partition("/")[0]
        key = f"{root}:shared-{self.rng.randrange(4)}"
        amount = _amount(random.Random(key))
        if key in self.model.holdings:
            self.store.budgets.reserve(root, key, amount)
        elif self._granted(root, amount, lambda: self.store.budgets.reserve(root, key, amount)):
            self.model.holdings[key] = (root, astuple(amount))

    def _again(self) -> None:
        """The same reservation once more, as after a crash: it must change nothing."""
        mine = [key for key in list(self.model.holdings) if key.startswith(f"{self.name}:")]
        if mine:
            key = self.rng.choice(mine)
            self.store.budgets.reserve(self.model.holdings[key][0], key, _amount(self.rng))

    def _settle(self) -> None:
        """By at most what was reserved; re-runs stay spent."""
        mine = [key for key in list(self.model.holdings) if key.startswith(f"{self.name}:")]
        if not mine:
            return
        key = self.rng.choice(mine)
        budget, (cpu_s, reruns, tokens, usd, wall_s) = self.model.holdings[key]
        spent = {name: _part(self.rng, most) for name, most in (("cpu_s", cpu_s), ("usd", usd), ("wall_s", wall_s))}
        tokens = self.rng.randint(0, int(tokens))
        self.store.budgets.settle(key, tokens=tokens, **spent)
        self.model.holdings[key] = (budget, (spent["cpu_s"], reruns, tokens, spent["usd"], spent["wall_s"]))

    def _close(self) -> None:
        """Only what this thread opened, so that the model knows of it in order."""
        mine = [child for child in list(self.model.parents) if child.startswith(f"{self.name}.")]
        if mine:
            child = self.rng.choice(mine)
            self.store.budgets.close(child)
            self.model.closed.add(child)

    def _budget(self) -> str:
        return self.rng.choice(list(self.model.limits))

    def _granted(self, budget: str, amount: Amount, ask: Any) -> bool:
        expected = self.foretells and self.model.grants(budget, astuple(amount))
        try:
            ask()
            granted = True
        except BudgetExceeded:
            granted = False
        if self.foretells and granted != expected:
            self.faults.append("overspend" if granted else f"{budget} refused {amount} though it fits")
        return granted


def fuzz_tree(store: Store, number: int, seed: int) -> list[str]:
    """Faults found in one tree; every other tree is a crowded one."""
    rng, root, model = random.Random(f"{seed}/{number}"), f"tree-{number}", Model()
    limit = Amount(cpu_s=8.0, reruns=8, tokens=800, usd=8.0, wall_s=8.0)
    store.budgets.open(root, limit)
    model.limits[root] = astuple(limit)
    crowd = _THREADS if number % 2 else 1
    spenders = [
        Spender(store, model, random.Random(rng.random()), f"{root}/{spender}", crowd == 1) for spender in range(crowd)
    ]
    faults: list[str] = []
    with ThreadPoolExecutor(crowd) as pool:
        for _ in range(_PAUSES):
            list(pool.map(lambda spender: [spender.act() for _ in range(_TURNS * _THREADS // crowd)], spenders))
            faults += disagreements(store, model)
    for child in model.parents:
        store.budgets.close(child)
        model.closed.add(child)
    faults += disagreements(store, model)
    return faults + [fault for spender in spenders for fault in spender.faults]


def disagreements(store: Store, model: Model) -> Iterator[str]:
    """Budgets that are not as the model has them; more than the limit is an overspend."""
    for budget, limit in model.limits.items():
        state = store.budgets.state(budget)
        used = astuple(state.used)
        if any(mine > most for mine, most in zip(used, limit, strict=True)):
            yield "overspend"
        if used != model.used(budget) or state.closed != model.is_closed(budget):
            yield f"{budget} used {used}, the model says {model.used(budget)}"


def measure(folder: Path, trees: int = 2000, seed: int = 1) -> dict[str, Any]:
    with place(folder, durable=False) as found, open_store(found.url) as store:
        faults = [fault for number in range(trees) for fault in fuzz_tree(store, number, seed)]
        with psycopg.connect(found.url) as connection:
            row = connection.execute(_OVERSPENT).fetchone()
            counts = connection.execute("SELECT (SELECT count(*) FROM budget), (SELECT count(*) FROM reservation)")
            budgets, reservations = counts.fetchall()[0]
    overspends = faults.count("overspend") + (int(row[0]) if row else 0)
    others = [fault for fault in faults if fault != "overspend"]
    return {
        "overspends": overspends,
        "budget_differences": len(others),
        "budget_first_differences": others[:3],
        "budget_trees": trees,
        "budgets": budgets,
        "reservations": reservations,
    }


def _amount(rng: random.Random, most: float = 3.0) -> Amount:
    return Amount(
        cpu_s=rng.choice((0.0, _part(rng, most))),
        reruns=rng.randint(0, int(most)),
        tokens=rng.randint(0, int(most * 100)),
        usd=rng.choice((0.0, _part(rng, most))),
        wall_s=_part(rng, most),
    )


def _part(rng: random.Random, most: float) -> float:
    return rng.randint(0, int(most / _GRAIN)) * _GRAIN
