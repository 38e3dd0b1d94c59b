"""The report's own numbers hang together. Shows R801-4.6 to 4.8, R801-4.12, R801-9.11 to 9.13."""

from __future__ import annotations

import pytest

from loops.potential import published


def test_gaps_of_the_base_table() -> None:
    ours = published.BASE_AVG["801"]
    gaps = {name: round(ours - score, 2) for name, score in published.BASE_AVG.items()}
    assert gaps["Nemotron-3-Nano-30B-A3B"] == 4.64
    assert gaps["Qwen3-30B-A3B"] == 6.97
    assert gaps["Kimi-Linear-48B-A3B"] == 8.76
    assert sorted(published.BASE_AVG.values(), reverse=True).index(ours) == 1


def test_the_base_order_holds_in_avg13_but_not_in_avg5() -> None:
    tuned = published.SAME_SFT
    order = [name for name in published.BASE_AVG if name in tuned]
    by_five, by_thirteen = (sorted(tuned, key=lambda name: -tuned[name][column]) for column in (0, 1))
    assert by_thirteen == order
    assert by_five != order
    assert tuned["801"][0] - tuned["Qwen3.5-35B-A3B"][0] == pytest.approx(8.16)


def test_agent_means_rest_on_kernelbench() -> None:
    means = {name: sum(scores) / 4 for name, scores in published.AGENTS.items()}
    assert means["801"] == pytest.approx(58.43, abs=0.01)
    assert means["Flint-40B-A2.5B"] == pytest.approx(50.23, abs=0.01)
    assert published.without(published.AGENTS["801"], 3) == pytest.approx(52.05, abs=0.01)
    assert published.without(published.AGENTS["Flint-40B-A2.5B"], 3) == pytest.approx(53.24, abs=0.01)


def test_gains_and_slopes() -> None:
    gains = {stage: round(last - first, 2) for stage, (first, last) in published.SFT_GAINS.items()}
    assert gains == {"Stage1-1": 1.49, "Stage1-3": 2.39}
    ours, theirs = published.SLOPES["BFCL Full"]
    assert ours / theirs == pytest.approx(2.6, abs=0.02)
    assert all(pair.base < 0 < pair.sft for pair in published.PAIRS)
