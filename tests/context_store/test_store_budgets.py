"""Budgets of every currency, their children, and no overspend whoever reserves at the same time. Shows RM2-7.15."""

from __future__ import annotations

import math

import pytest
from budget_trees import overspent, spend_at_random, tokens_spent

from context_store import Store
from context_store.records import Amount
from contracts.errors import BudgetExceeded, NotFound

ALL = Amount(cpu_s=10.0, reruns=10, tokens=1000, usd=5.0, wall_s=60.0)


@pytest.mark.parametrize(
    "asked",
    [
        Amount(cpu_s=10.1),
        Amount(reruns=11),
        Amount(tokens=1001),
        Amount(usd=5.01),
        Amount(wall_s=61.0),
        Amount(cpu_s=math.nan),
        Amount(usd=math.inf),
        Amount(cpu_s=-1.0),
        Amount(tokens=-5),
    ],
)
def test_each_currency_is_held(store: Store, asked: Amount) -> None:
    store.budgets.open("b", ALL)
    with pytest.raises(BudgetExceeded):
        store.budgets.reserve("b", "k", asked)
    assert store.budgets.state("b").used == Amount()


def test_a_child_is_taken_out_of_its_parent_and_gives_back_what_is_left(store: Store) -> None:
    store.budgets.open("b", ALL)
    store.budgets.open("c", Amount(tokens=600, usd=2.0), parent_id="b")
    with pytest.raises(BudgetExceeded):
        store.budgets.open("d", Amount(tokens=500), parent_id="b")
    with pytest.raises(NotFound):
        store.budgets.state("d")
    store.budgets.reserve("c", "call-1", Amount(tokens=400, usd=1.0))
    store.budgets.settle("call-1", tokens=150, usd=0.25)
    store.budgets.close("c")
    assert store.budgets.state("b").used == Amount(tokens=150, usd=0.25)
    assert store.budgets.close("c").closed, "closing twice changes nothing"
    with pytest.raises(BudgetExceeded, match="closed"):
        store.budgets.reserve("c", "call-2", Amount(tokens=1))


def test_what_is_settled_after_the_close_still_goes_back_through_all_generations(store: Store) -> None:
    store.budgets.open("a", ALL)
    store.budgets.open("b", Amount(tokens=500), parent_id="a")
    store.budgets.open("c", Amount(tokens=300), parent_id="b")
    store.budgets.reserve("c", "call", Amount(tokens=200))
    for budget in ("b", "c"):
        store.budgets.close(budget)
    assert store.budgets.state("a").used == Amount(tokens=200), "reserved is spent until it is settled"
    store.budgets.settle("call", tokens=20)
    assert store.budgets.state("a").used == Amount(tokens=20)


def test_a_child_is_opened_once(store: Store) -> None:
    store.budgets.open("b", ALL)
    for _ in range(2):
        assert store.budgets.open("c", Amount(tokens=600), parent_id="b").tokens == 600
    assert store.budgets.state("b").tokens_used == 600


@pytest.mark.parametrize("seed", range(5))
def test_random_trees_are_never_overspent(store: Store, seed: int) -> None:
    """Four threads each: no budget gives more than it holds, and what was spent reaches the root, to the token."""
    children = spend_at_random(store, "root", seed)
    assert children
    assert overspent(store.url) == []
    for child in children:
        store.budgets.close(child)
    assert overspent(store.url) == []
    assert store.budgets.state("root").tokens_used == tokens_spent(store.url)
