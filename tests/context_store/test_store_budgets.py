"""Budgets of every currency, their children, and no overspend whoever reserves at the same time. Shows RM2-7.15."""

from __future__ import annotations

import math

import pytest
from budget_trees import overspent, spend_at_random, tokens_spent

from context_store import Store
from context_store.records import Amount
from contracts.enums import Role
from contracts.errors import BudgetExceeded, NotFound, RoleRequired

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


def test_cases_share_what_their_project_may_spend(store: Store) -> None:
    """Inherited by children: a re-run of a case reserves through the case in the project."""
    budgets = store.budgets
    assert budgets.of_project("p") is None
    first = budgets.allow_project("p", ALL, "root", Role.ADMIN, "this week", 1.0)
    budgets.allow_project("p:1", Amount(), "root", Role.ADMIN, "another project", 1.0)
    assert budgets.of_project("p") == first == "project:p:1"
    wish = Amount(cpu_s=8.0, reruns=6, wall_s=40.0)
    assert budgets.open_share("case-1", wish, first).left == wish
    assert budgets.open_share("case-2", wish, first).left == Amount(cpu_s=2.0, reruns=4, wall_s=20.0)
    with pytest.raises(BudgetExceeded):
        budgets.reserve("case-2", "rerun", Amount(cpu_s=3.0, reruns=1))
    budgets.open_share("agents:case-1", Amount(cpu_s=1.0), "case-1")
    budgets.reserve("case-1", "rerun", Amount(cpu_s=5.0, reruns=1, wall_s=10.0))
    budgets.settle("rerun", cpu_s=4.0, wall_s=9.0)
    budgets.close("case-1")
    assert budgets.state("agents:case-1").closed, "a case takes the budgets of its agents along"
    used = budgets.state(first).used
    assert (used.cpu_s, used.reruns, used.wall_s) == (4.0 + 2.0, 1 + 4, 9.0 + 20.0)


def test_a_new_limit_of_a_project_takes_the_place_of_the_old_one(store: Store) -> None:
    budgets = store.budgets
    first = budgets.allow_project("p", ALL, "root", Role.ADMIN, "this week", 1.0)
    second = budgets.allow_project("p", Amount(cpu_s=1.0), "root", Role.ADMIN, "it is enough", 2.0)
    assert budgets.of_project("p") == second != first
    assert budgets.open_share("late", ALL, first).left == Amount(), "nothing is left of a closed one"
    assert budgets.open_share("case", ALL, second).left == Amount(cpu_s=1.0)
    assert [entry.actor for entry in store.ledger.list(subject=f"budget:{second}")] == ["root"]
    with pytest.raises(RoleRequired):
        budgets.allow_project("p", ALL, "ada", Role.REVIEWER, "more", 3.0)


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
