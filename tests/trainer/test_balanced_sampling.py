"""Attention-balanced sampling: even work, nothing lost, bounded displacement, the same whatever reads it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_training import small_config

from contracts.errors import ConfigError
from trainer import Parts
from trainer.balanced_sampling import assign_ranks, drift, imbalance, plan_window
from trainer.corpus import Corpus, load_corpus
from trainer.loader import Loader

COSTS = st.lists(st.integers(1, 10**6), min_size=48, max_size=48).map(lambda costs: np.array(costs, dtype=np.int64))


@given(costs=COSTS, num_steps=st.sampled_from([1, 2, 3, 6]))
def test_a_window_loses_and_doubles_nothing(costs: np.ndarray, num_steps: int) -> None:
    """Shows R801-7.9: the plan is a permutation; rows of a step have neighbouring costs and keep their order."""
    plan = plan_window(costs, num_steps)
    assert np.array_equal(np.sort(plan, axis=None), np.arange(48))
    assert np.array_equal(np.sort(plan, axis=1), plan)
    ranges = sorted((int(costs[step].min()), int(costs[step].max())) for step in plan)
    assert all(upper <= lower for (_, upper), (lower, _) in itertools.pairwise(ranges))
    assert np.all(np.diff(plan.mean(axis=1)) >= 0)


@given(costs=COSTS, num_ranks=st.sampled_from([1, 2, 4, 8]))
def test_ranks_share_the_work(costs: np.ndarray, num_ranks: int) -> None:
    """Largest first is never worse than a third of one row over the best that room allows, and never loses a row."""
    rows = assign_ranks(costs, num_ranks)
    assert np.array_equal(np.sort(rows), np.arange(48))
    busiest = costs[rows].reshape(-1, num_ranks).sum(axis=0).max()
    assert busiest <= costs.sum() / num_ranks + costs.max()


def test_balancing_evens_the_work() -> None:
    """Shows R801-7.10 on heavy-tailed rows: sorted windows even one row a rank, largest first several."""
    costs = (np.random.default_rng(0).pareto(1.5, 64 * 64) * 1000 + 1).astype(np.int64)
    as_they_come = np.mean([imbalance(step, 64) for step in costs.reshape(-1, 64)])
    planned = costs[plan_window(costs, 64)]
    assert np.mean([imbalance(step, 64) for step in planned]) < 1.25 < 5 < as_they_come
    many = np.minimum(costs, 20_000)
    assert imbalance(many[:1024][assign_ranks(many[:1024], 64)], 64) < 1.02 < 1.2 < imbalance(many[:1024], 64)


def test_drift_is_between_0_and_1() -> None:
    assert drift(np.array([0.5, 0.5]), np.array([0.5, 0.5])) == 0
    assert drift(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1


def packed(**overrides: object) -> object:
    return small_config(**{"data__documents": "packed", "data__seq_len": 64, **overrides})  # type: ignore[arg-type]


def read_all(config, corpus: Corpus, steps: int) -> tuple[list[np.ndarray], Loader]:
    loader = Loader(config, Parts(), corpus, None, 0)
    return [loader.read(step).sequences.tokens_BS.numpy() for step in range(steps)], loader


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_reads_the_rows_that_unbalanced_steps_read(window: int) -> None:
    """No row leaves its window, so a row moves by less than one window; the mixture of a window is exact."""
    corpus = load_corpus(40_000)
    plain, _ = read_all(packed(), corpus, 10)
    balanced, loader = read_all(packed(data__balance_window=window), corpus, 10)
    for first in range(0, 10, window):
        ours, theirs = (np.concatenate(steps[first : first + window]) for steps in (balanced, plain))
        assert sorted(row.tobytes() for row in ours) == sorted(row.tobytes() for row in theirs)
    assert loader.read(10).repeated == 0


def test_imbalance_and_drift_are_series() -> None:
    """Shows R801-7.9 and 7.10: a larger window balances better and shifts the mixture of single steps."""
    corpus = load_corpus(2_000_000)

    def means(window: int) -> np.ndarray:
        config = packed(data__balance_window=window, data__seq_len=8000, model__rope_base=1e6, parallel__dp_size=4)
        loader = Loader(config, Parts(), corpus, None, 0)
        steps = [loader.read(step).statistics for step in range(32)]
        return np.mean([(s["attention_imbalance"], s["mixture_drift"]) for s in steps], axis=0)

    (imbalance_0, drift_0), (_, drift_1), (imbalance_16, drift_16) = means(0), means(1), means(16)
    assert imbalance_16 < 1.02 < imbalance_0
    assert drift_16 > drift_0 == drift_1


def test_a_half_read_window_cannot_change_its_size(corpus: Corpus) -> None:
    loader = Loader(packed(data__balance_window=3), Parts(), corpus, None, 0)
    for step in range(4):
        loader.read(step)
    with pytest.raises(ConfigError, match="cannot start in the middle of a window of 24 rows"):
        Loader(packed(data__balance_window=2), Parts(), corpus, loader.state(), 4)
    for step in (4, 5):
        loader.read(step)
    resumed = Loader(packed(data__balance_window=2), Parts(), corpus, loader.state(), 6)
    assert [resumed.read(step).repeated for step in (6, 7, 8)] == [0, 0, 0]


def test_a_mixture_changed_in_a_window_counts_from_its_end(corpus: Corpus) -> None:
    """So that no row of the window is lost or read twice."""
    config = packed(data__balance_window=4)
    loader = Loader(config, Parts(), corpus, None, 0)
    plain = [loader.read(step) for step in range(8)]
    half = Loader(config, Parts(), corpus, None, 0)
    for step in range(2):
        half.read(step)
    changed = packed(data__balance_window=4, data__mixture__library=0.0)
    resumed = Loader(changed, Parts(), corpus, half.state(), 2)
    reads = [resumed.read(step) for step in range(2, 8)]
    assert [read.sample_hash for read in reads[:2]] == [read.sample_hash for read in plain[2:4]]
    assert all(read.repeated == 0 for read in reads)
    assert all(np.all(read.source_B != 0) for read in reads[2:])
    assert resumed.mixture(3)["library"] > 0 == resumed.mixture(4)["library"]
