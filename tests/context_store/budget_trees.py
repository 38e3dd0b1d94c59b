"""Random trees of budgets, spent from by several threads: what is found afterwards has to add up."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from context_store import Store
from context_store.records import Amount
from contracts.errors import BudgetExceeded


@dataclass
class Spender:
    """One thread of the test: opens, reserves, settles and closes somewhere below `root`."""

    store: Store
    root: str
    number: int
    rng: random.Random
    children: list[str] = field(default_factory=list)
    reserved: list[tuple[str, Amount]] = field(default_factory=list)

    def act(self, turn: int) -> None:
        name, amount = f"{self.root}/{self.number}.{turn}", _random_amount(self.rng)
        budget = self.rng.choice([self.root, *self.children])
        deed = self.rng.choice(("open", "reserve", "reserve", "settle", "close"))
        match deed if turn else "open":  # first of all, so that there is a child however the threads take turns
            case "open":
                self.store.budgets.open(name, amount, parent_id=budget)
                self.children.append(name)
            case "reserve":
                self.store.budgets.reserve(budget, name, amount)
                self.reserved.append((name, amount))
            case "settle" if self.reserved:
                key, most = self.reserved.pop(self.rng.randrange(len(self.reserved)))
                part = self.rng.random()
                spent = {"cpu_s": most.cpu_s * part, "usd": most.usd * part, "wall_s": most.wall_s * part}
                self.store.budgets.settle(key, tokens=int(most.tokens * part), **spent)
            case "close" if self.children:
                self.store.budgets.close(self.rng.choice(self.children))


def spend_at_random(store: Store, root: str, seed: int, *, num_threads: int = 4, num_turns: int = 15) -> list[str]:
    """A tree below `root`, grown and spent from by several threads; what does not fit is refused. Its children."""
    store.budgets.open(root, Amount(cpu_s=10.0, reruns=10, tokens=1000, usd=10.0, wall_s=10.0))
    spenders = [
        Spender(store=store, root=root, number=number, rng=random.Random(seed * 1000 + number))
        for number in range(num_threads)
    ]

    def work(spender: Spender) -> None:
        for turn in range(num_turns):
            with suppress(BudgetExceeded):
                spender.act(turn)

    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(work, spenders))
    return [child for spender in spenders for child in spender.children]


def overspent(url: str) -> list[str]:
    """Budgets out of which more was taken than they hold, in any currency, seen by plain SQL."""
    names = ("cpu_s", "reruns", "tokens", "usd", "wall_s")
    used = " OR ".join(f"sum(r.{name}) > b.{name}" for name in names)
    query = f"SELECT b.id FROM budget b JOIN reservation r ON r.budget_id = b.id GROUP BY b.id HAVING {used}"
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(query)]


def tokens_spent(url: str) -> int:
    """By whoever spent them; what a child holds is counted with the child."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT coalesce(sum(tokens), 0) FROM reservation WHERE key NOT LIKE 'budget:%'")
        return int(row.fetchall()[0][0])


def _random_amount(rng: random.Random, most: float = 4.0) -> Amount:
    return Amount(
        cpu_s=rng.choice((0.0, rng.uniform(0, most))),
        reruns=rng.randint(0, int(most)),
        tokens=rng.randint(0, int(most * 100)),
        usd=rng.choice((0.0, rng.uniform(0, most))),
        wall_s=rng.uniform(0, most),
    )
