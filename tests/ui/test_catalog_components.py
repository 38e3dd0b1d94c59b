"""Evaluations, loops, mixtures and pipelines: what their pieces say, without a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ui.catalog import Gate, LedgerEntry, LoopScore, MixtureEvent, Pipeline, Score, Stage, StageTrace, Subset
from ui.components import eval_table, mixture_plot, pipeline_graph, score_plot
from ui.palette import LIGHT
from ui.records import Run
from ui.views.loops import rounds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def score(value: float, **more: Any) -> Score:
    fields = {"id": 1, "benchmark": "mmlu", "metric": "acc", "protocol": "p", "checkpoint": "c", "identity_key": "k"}
    return Score(value=value, **{**fields, "stderr": 0.01, "num_samples": 100, **more})


def run(run_id: str) -> Run:
    return Run(id=run_id, name=run_id, role="training", state="completed", last_step=1, created_at=NOW)


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        (score(0.52), "noise"),  # the difference's standard error is 0.014
        (score(0.53), "better"),
        (score(0.47), "worse"),
        (score(0.53, metric="perplexity"), "worse"),
        (score(0.9, stderr=None), "unknown"),
        (score(0.9, identity_key="other shots"), "apart"),
    ],
)
def test_no_win_is_shown_inside_the_noise_or_across_protocols(other: Score, outcome: str) -> None:
    assert eval_table.read(score(0.5, metric=other.metric), other).outcome == outcome


def test_evaluations_stand_side_by_side_with_their_errors_and_names_as_text() -> None:
    runs = (run("a"), run("b"))
    html = eval_table.render(runs, [[score(0.4, step=1), score(0.5, step=9)], [score(0.52, benchmark="mmlu")]])
    assert "0.5 ± 0.01" in html
    assert "0.4" not in html  # an older step
    assert "within the noise" in html
    assert "▲" not in html
    strange = eval_table.render(runs, [[score(0.5, benchmark="<b>x")], []])
    assert "&lt;b&gt;x" in strange
    assert "not evaluated" in strange


def test_weights_hold_until_they_are_changed() -> None:
    events = [
        MixtureEvent(segment=0, step=0, source="web", after=0.7, declared=True),
        MixtureEvent(segment=0, step=0, source="code", after=0.3, declared=True),
        MixtureEvent(segment=1, step=50, source="web", before=0.7, after=None, declared=True),
    ]
    assert mixture_plot.weights(events, 100) == {
        "web": ([0, 50, 100], [0.7, 0.0, 0.0]),
        "code": ([0, 50, 100], [0.3, 0.3, 0.3]),
    }


def test_a_stage_says_what_it_kept_of_everything_that_went_through() -> None:
    pipeline = Pipeline(id="p", title="P", stages=(Stage(key="rules", level="L2", title="<i>rules"),))
    traces = [StageTrace(stage="rules", code_version="abc", num_in=1000, num_out=kept) for kept in (400, 100)]
    subsets = [Subset(id=str(n), pipeline_id="p", source="web", trace=(trace,)) for n, trace in enumerate(traces)]
    html = pipeline_graph.render(pipeline, subsets)
    assert "500 of 2,000 (25 %)" in html
    assert "&lt;i&gt;rules" in html
    unknown = Subset(id="u", pipeline_id="p", source="web", trace=(StageTrace(stage="rules", code_version="abc"),))
    assert "of" not in pipeline_graph.kept(unknown.trace[0])
    assert "2,000" not in pipeline_graph.render(pipeline, [*subsets, unknown])  # no sum where a count is missing


def test_scores_stand_against_their_gates_with_intervals() -> None:
    scores = [
        LoopScore(case_id="c1", group="verdict", label="proven", value=0.9, lo=0.8, hi=1.1),
        LoopScore(case_id="c1", group="revert", label="without <b>x", value=0.02),
    ]
    drawn = score_plot.figure(scores, [Gate(label="gone below", value=0.25)], "share", LIGHT)
    verdict, revert = drawn.data
    assert [round(float(verdict.error_x.array[0]), 3), round(float(verdict.error_x.arrayminus[0]), 3)] == [0.2, 0.1]
    assert not revert.error_x.visible
    assert "&lt;b&gt;x" in revert.text[0]
    assert drawn.layout.shapes[0].x0 == 0.25


def test_the_ledger_is_told_round_by_round() -> None:
    entries = [
        LedgerEntry(
            id=number, at=NOW, actor="loop:debug", action=action, subject="investigation:c",
            detail={"step": f"{of}.{action}", "text": f"<b>{action}"},
        )
        for number, (of, action) in enumerate([(1, "propose"), (1, "measure"), (2, "propose")])
    ]  # fmt: skip
    rows = rounds(entries)
    assert ["<b>1</b>" in row for row in rows] == [True, False, False]
    assert "<b>2</b>" in rows[2]
    assert "&lt;b&gt;measure" in rows[1]
