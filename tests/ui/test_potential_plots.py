"""Figures of the potential page and of a decision, without a browser: what they show is what was read."""

from __future__ import annotations

from typing import Any

from ui.components import potential_plot
from ui.palette import LIGHT
from ui.potential import Curves, Reading

BEST = {"protocol": "a", "value": 30.0, "low": 25.0, "high": 35.0, "naive": 33.0, "correction": -3.0,
        "means": {"a": 33.0, "<b>": 20.0}}  # fmt: skip
FIT = {"start": {"value": 30.0, "low": 28.0, "high": 32.0}, "first_score": 30.5,
       "slope": {"value": 5.0, "low": None, "high": 9.0},
       "band": [(4.0, 30.0, 28.0, 32.0), (64.0, 36.0, 34.0, 38.0), (640.0, 41.0, 36.0, 46.0)]}  # fmt: skip


def reading() -> Reading:
    change = {"points": 1.0, "low": -1.0, "high": 3.0}
    learning = {"budgets": [4, 64], "scores": [[30.0, 36.0], [31.0, 37.0]], "fit": FIT}
    body: dict[str, Any] = {
        "steps": [20, 40], "tokens": [1_000_000, 2_000_000], "seeds": [1, 2], "base": [27.0, 26.5],
        "sft": [[30.0, 31.0], [36.0, 37.0]], "base_raw": ["f", "f"], "sft_raw": [["f", "f"], ["f", "f"]],
        "verdict": {"verdict": "false_plateau", "sentence": "s", "base": change, "sft": change, "num_checkpoints": 2,
                    "num_seeds": 2, "error_rate": 0.0045, "detectable": 2.0},
        "ranks": {"rows": [
            {"checkpoint": "20", "base": 27.0, "base_rank": 1, "sft": 30.5, "sft_rank": 2},
            {"checkpoint": "40", "base": 26.5, "base_rank": 2, "sft": 36.5, "sft_rank": 1},
        ], "refusal": "two checkpoints"},
        "learnability": {20: learning, 40: {**learning, "fit": None, "refusal": "no"}},
        "learnability_is": "experimental",
        "maximum": {20: BEST, 40: BEST}, "maximum_sft": {20: BEST, 40: BEST},
        "saving": {"target": 31.0, "refusal": "no"},
    }  # fmt: skip
    return Reading.model_validate(body)


def test_both_curves_are_always_drawn_with_a_dot_a_seed() -> None:
    chart = potential_plot.curves(reading(), LIGHT)
    assert [trace.name for trace in chart.data[:2]] == ["base", "after the same SFT"]
    assert list(chart.data[1].y) == [30.5, 36.5]
    assert [list(trace.y) for trace in chart.data[2:]] == [[30.0, 36.0], [31.0, 37.0]]
    same = Curves(steps=(20, 40), tokens=(1, 2), base=(1.0, 2.0), sft=((3.0,), (4.0,)))
    assert len(potential_plot.curves(same, LIGHT).data) == 3


def test_the_fan_has_a_line_a_protocol_and_the_corrected_best() -> None:
    chart = potential_plot.fan(reading().maximum, reading().tokens, LIGHT)
    assert [trace.name for trace in chart.data] == ["a", "&lt;b&gt;", "best, corrected"]
    assert list(chart.data[2].error_y.array) == [5.0, 5.0]


def test_ranks_cross_with_the_best_on_top() -> None:
    chart = potential_plot.slopes(reading().ranks.rows, LIGHT)
    assert [list(trace.y) for trace in chart.data] == [[1.0, 2.0], [2.0, 1.0]]
    assert chart.layout.yaxis.autorange == "reversed"


def test_bands_end_where_the_data_does_and_a_refused_fit_draws_none() -> None:
    chart = potential_plot.learning(reading().learnability, LIGHT)
    assert [trace.name for trace in chart.data if trace.name] == ["step 20", "step 40"]
    assert max(chart.data[1].x) == 64.0
    assert len(chart.data) == 4


def test_steps_are_in_order_whatever_order_the_answer_has() -> None:
    body = reading().model_dump(mode="json")
    body["maximum"] = {"100": BEST, "40": BEST}
    assert list(Reading.model_validate(body).maximum) == [40, 100]
