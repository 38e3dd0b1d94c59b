"""Pieces whose output can be checked without a browser."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator

import pytest

from ui import links
from ui.case import grid, revision
from ui.case.curve import by_statistic, focus_lines
from ui.case.stages import stages
from ui.catalog import BrokenPoint, LayerMap
from ui.client import Client
from ui.components import (
    answer,
    budget_bars,
    chips,
    diff_view,
    difference,
    event_lanes,
    layer_map,
    live,
    markup,
    series_plot,
)
from ui.palette import DARK, LIGHT
from ui.records import Anomaly, Budget, Case, Difference, Run, Series, TimelineEvent
from ui.transport import ApiError, connect, events

DIFF = """diff --git a/a.py b/a.py
index 111..222 100644
--- a/a.py
+++ b/a.py
@@ -7,4 +7,4 @@ def f():
 keep
-old = 1
--- looks like a header
+old = 2
+<b>new</b>
 tail
\\ No newline at end of file
diff --git a/b.sh b/b.sh
old mode 100644
new mode 100755
"""


def series(name: str, values: list[float], segments: list[int] | None = None) -> Series:
    steps = tuple(range(1, len(values) + 1))
    return Series(name=name, steps=steps, values=tuple(values), segments=tuple(segments or [0] * len(values)))


def test_a_diff_is_paired_by_the_counts_of_its_hunks() -> None:
    rows = list(diff_view.rows(DIFF))
    kinds = ["file", "hunk", "same", "change", "change", "same", "note", "file", "note", "note"]
    assert [row.kind for row in rows] == kinds
    assert (rows[3].old, rows[3].new, rows[3].old_number, rows[3].new_number) == ("old = 1", "old = 2", 8, 8)
    assert (rows[4].old, rows[4].new) == ("-- looks like a header", "<b>new</b>")
    assert (rows[5].old_number, rows[5].new_number) == (10, 10)


def test_a_rendered_diff_escapes_text_and_marks_the_words_that_differ() -> None:
    table = diff_view.render(DIFF)
    assert "&lt;b&gt;new&lt;/b&gt;" in table
    assert "<b>" not in table
    assert "<mark>1</mark>" in table
    assert "new mode 100755" in table


def test_direction_changing_characters_are_spelled_out() -> None:
    assert diff_view.visible("if \u202eadmin\u2066:\tx") == "if ⟨U+202E⟩admin⟨U+2066⟩:\tx"


def test_a_report_loses_its_pictures_only() -> None:
    text = "a ![x](http://h/a.png) b ![y][ref] [link](http://h)"
    assert markup.report(text) == "a (picture: x) b (picture: y) [link](http://h)"


@pytest.mark.parametrize(
    ("reference", "label", "address"),
    [
        ("series:r-1/max_vio%2Flayers.5#180..195", "max_vio/layers.5, steps 180–195",
         "/run?run=r-1&series=max_vio%2Flayers.5&lo=180&hi=195"),
        ("run:rr-1", "rr-1", "/run?run=rr-1"),
        ("hunk:3f2a9c1d/balance.py#12..18", "3f2a9c1 balance.py:12–18",
         "/open?ref=hunk%3A3f2a9c1d%2Fbalance.py%2312..18"),
        ("verdict:12", "verdict 12", "/open?ref=verdict%3A12"),
        ("investigation:i-1", "case i-1", "/?investigation=i-1"),
        ("suspect:i-1/commit%3A3f2a", "suspect commit:3f2a", "/?investigation=i-1"),
        ("proposal:pr-1", "proposal pr-1", "/approvals?proposal=pr-1"),
    ],
)  # fmt: skip
def test_evidence_links(reference: str, label: str, address: str) -> None:
    assert links.evidence(reference) == (label, address)


def test_a_verdict_is_never_shown_without_its_scope() -> None:
    assert "this run" in chips.verdict("proven", "this_run")
    assert "no scope stated" in chips.verdict("proven", None)


def test_nan_and_infinity_are_drawn_as_crosses() -> None:
    line = series_plot.Line(label="<i>x", series=series("x", [1.0, math.nan, 3.0, math.inf]))
    for colours in (LIGHT, DARK):
        drawn = series_plot.figure(series_plot.Plot(lines=(line,), y_title="x"), colours)
        assert list(drawn.data[0].y) == [1.0, None, 3.0, None]
        assert list(drawn.data[1].x) == [2, 4]
        assert drawn.data[0].name == "&lt;i&gt;x"


def test_changes_of_one_step_share_a_letter_and_checkpoints_have_none() -> None:
    def event(step: int, kind: str) -> TimelineEvent:
        return TimelineEvent(step=step, segment=0, kind=kind, title=f"{kind} {step}", at=0)

    found = series_plot.marks([event(9, "data"), event(5, "checkpoint"), event(2, "code"), event(2, "config")])
    assert [(m.letter, m.step, m.titles) for m in found] == [("A", 2, ("code 2", "config 2")), ("B", 9, ("data 9",))]


def test_names_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    lines = tuple(series_plot.Line(label=name, series=series(name, [0.0, 1.0])) for name in "abc")
    drawn = series_plot.figure(series_plot.Plot(lines=lines, y_title="x"), LIGHT)
    shifts = sorted(label.yshift for label in drawn.layout.annotations)
    assert [b - a for a, b in itertools.pairwise(shifts)] == [series_plot.LABEL_HEIGHT] * 2


def test_the_map_of_layers_marks_what_is_not_finite_and_can_be_zoomed() -> None:
    found = LayerMap(
        names=("m/layers.2", "m/layers.10"), steps=(1, 3), values=((9.0, 1.0), (None, 2.0)),
        broken=(BrokenPoint(row=1, step=2),),
    )  # fmt: skip
    drawn = layer_map.figure(found, "m", "layer", DARK)
    heat, crosses, unseen = drawn.data
    assert (list(heat.y), list(heat.x)) == ([2, 10], [1, 3])
    assert (list(crosses.x), list(crosses.y)) == ([2], [10])
    assert unseen.marker.opacity == 0.0
    assert drawn.layout.dragmode == "select"


def test_against_the_others_only_what_one_layer_does_remains() -> None:
    values = ((1.0, 5.0), (1.0, 5.0), (1.0, 9.0), (None, None))
    assert layer_map.against_others(values) == ((0.0, 0.0), (0.0, 0.0), (0.0, 4.0), (None, None))


def test_experts_are_found_by_layer() -> None:
    names = ["load/layers.1/experts.10", "load/layers.1/experts.2", "load/layers.0/experts.0", "m/layers.1"]
    assert layer_map.experts(names) == {
        "load, layer 0": ("load/layers.0/experts.0",),
        "load, layer 1": ("load/layers.1/experts.2", "load/layers.1/experts.10"),
    }


def test_per_layer_statistics_are_found_in_layer_order() -> None:
    names = ["m/layers.10", "m/layers.2", "g/layers.0.router", "g/layers.1.router", "loss", "load/layers.1/experts.3"]
    assert layer_map.statistics(names) == {
        "m": ("m/layers.2", "m/layers.10"),
        "g router": ("g/layers.0.router", "g/layers.1.router"),
    }


def test_a_series_is_split_where_the_fix_begins_and_superseded_points_stay() -> None:
    resumed = Series(name="m/layers.5", steps=(1, 2, 3, 2, 3), values=(0, 5, 6, 1, 1), segments=(0, 0, 0, 1, 1))
    lines = focus_lines(resumed, 1, faulty=True)
    assert [(line.label, line.style, line.series.steps) for line in lines] == [
        ("layer 5", series_plot.Style.FAULTY, (1, 2, 3)),
        ("layer 5, fixed", series_plot.Style.FIXED, (2, 3)),
    ]


def test_only_the_last_segment_of_a_colour_carries_the_name() -> None:
    lines = focus_lines(series("x", [1.0, 2.0, 3.0], [0, 1, 1]), None, faulty=True)
    assert [line.named for line in lines] == [False, True]
    assert len(focus_lines(series("x", [1.0, 2.0, 3.0], [0, 1, 1]), None, faulty=False)) == 1


def case(**more: object) -> Case:
    run = {"id": "r", "name": "r", "role": "training", "state": "running", "last_step": 1, "created_at": 0}
    investigation = {
        "id": "i",
        "run_id": "r",
        "title": "t",
        "state": "open",
        "statement": "",
        "round": 0,
        "opened_at": 0,
    }
    return Case.model_validate({"run": run, "investigation": investigation, **more})


def test_the_statistic_that_the_re_runs_are_judged_on_comes_first() -> None:
    anomaly = Anomaly(
        kind="k",
        series=("a/layers.1", "b/layers.1", "a/layers.2"),
        onset=(1, 2),
        severity=1,
        statement="",
        probe={"series": ["b/layers.1"]},
    )
    assert by_statistic(anomaly) == {"b": ("b/layers.1",), "a": ("a/layers.1", "a/layers.2")}


def test_the_first_stage_that_is_not_done_is_the_current_one() -> None:
    found = stages(case(suspects=[{"key": "s", "cause_kind": "code", "title": "s", "score": 1, "rank": 1}]))
    assert [stage.state for stage in found][:4] == ["now", "done", "ahead", "ahead"]


def test_a_two_by_two_is_put_together_from_the_re_runs_of_its_cells() -> None:
    def ran(kind: str, keys: list[str], measure: float) -> dict[str, object]:
        named = {"key": kind + "".join(keys), "label": "", "run_id": "rr", "reading": ""}
        return {**named, "kind": kind, "suspect_keys": keys, "measure": measure}

    runs = [ran("control", [], 0.0), ran("add", ["a"], 0.1), ran("add", ["b"], 0.2)]
    assert grid.cells(case(diagnostics=runs)) is None
    found = grid.cells(case(diagnostics=[*runs, ran("combination", ["a", "b"], 1.0)]))
    assert found is not None
    assert {place: d.measure for place, d in found.by_presence.items() if d} == {
        (False, False): 0.0, (True, False): 0.1, (False, True): 0.2, (True, True): 1.0,
    }  # fmt: skip
    assert "100 %" in grid.render(found)


def test_an_api_that_does_not_answer_is_named_with_a_remedy() -> None:
    with pytest.raises(ApiError, match="does not answer") as caught:
        Client(http=connect("http://127.0.0.1:9"), token="x").health()
    assert "lathe up" in caught.value.remedy
    with pytest.raises(ApiError, match="does not know where"):
        connect("")


def test_an_edit_sends_only_what_differs_and_says_which_line_it_cannot_read() -> None:
    payload = {"overrides": {"a": 1}, "max_step": 300, "code": {"base": "c", "revert": ["d"], "pick": [], "diff": ""}}
    same = {"overrides": revision.as_lines({"a": 1}), "max_step": "300", "revert": "d", "pick": "", "diff": ""}
    assert revision.changed(payload, same) == {}
    edited = {**same, "overrides": 'a = 2\nb = "x = y"', "revert": "d\ne"}
    assert revision.changed(payload, edited) == {
        "overrides": {"a": 2, "b": "x = y"},
        "code": {"base": "c", "revert": ["d", "e"], "pick": [], "diff": ""},
    }
    with pytest.raises(ApiError, match="“a: 2” cannot be read"):
        revision.changed(payload, {**same, "overrides": "a: 2"})


def test_a_comparison_tells_the_same_from_not_recorded() -> None:
    fields = {"id": "", "role": "training", "state": "completed", "last_step": 1, "created_at": 0}
    runs = [Run.model_validate({**fields, "id": f"r{n}", "name": "one name"}) for n in range(3)]
    change = {"key": "lr<b>", "before": 1, "after": 2, "status": "changed"}
    code = {"before": "a" * 40, "after": "b" * 40, "commits": [{"hash": "b" * 40, "author": "x", "subject": "<i>"}]}
    found = [
        Difference.model_validate({"before": "", "after": "", "code": code, "config": [change]}),
        Difference.model_validate({"before": "", "after": "", "code": code, "not_recorded": ["config", "code"]}),
    ]
    shown = difference.render(runs, found)
    assert difference.labels(runs) == {"r0": "r0", "r1": "r1", "r2": "r2"}
    assert "lr&lt;b&gt;" in shown
    assert "<mark>2</mark>" in shown
    assert shown.count(">not recorded<") == 2  # r2's field, and its code
    assert "&lt;i&gt;" in shown
    assert "No difference where it is recorded" not in shown


def test_words_of_a_model_can_hold_no_picture_and_no_link() -> None:
    assert answer.draft("see ![x](http://h/a.png) and [y](http://h)").count("[") == 0


def test_server_sent_events_are_read_piece_by_piece() -> None:
    lines = iter([": ping", "event: draft", 'data: {"text":', 'data: "a"}', "", "event: stopped", "data:{}", "", ""])
    assert list(events(lines)) == [("draft", '{"text":\n"a"}'), ("stopped", "{}")]


def test_events_lie_in_lanes_with_a_sign_for_each_kind() -> None:
    first = TimelineEvent(step=3, segment=0, kind="code", title="<b>x", at=0)
    second = TimelineEvent(step=5, segment=0, kind="resume", title="y", at=0)
    drawn = event_lanes.figure({"run a": [first, second], "run b": [second]}, LIGHT)
    assert [(list(trace.x), list(trace.y)) for trace in drawn.data] == [([3], [0.375]), ([5, 5], [-0.375, -1.0])]
    assert list(drawn.layout.yaxis.ticktext) == ["run a", "run b"]
    assert drawn.data[0].text == ("&lt;b&gt;x",)
    assert len({trace.marker.symbol for trace in drawn.data}) == 2


def test_a_budget_shows_the_currencies_it_has() -> None:
    budget = {"id": "case:<b>", "cpu_s": 600, "reruns": 0, "cpu_s_used": 150, "reruns_used": 0}
    shown = budget_bars.render([Budget.model_validate(budget)])
    assert "150 of 600 CPU s" in shown
    assert "width:25%" in shown
    assert "re-runs" not in shown
    assert "case:&lt;b&gt;" in shown


def test_a_silent_stream_can_be_left_and_is_then_stopped() -> None:
    said, stopped = threading.Event(), threading.Event()

    def pieces() -> Iterator[str]:
        yield "first"
        stopped.wait(10)

    reader = live.attended(pieces(), stopped.set)
    assert next(reader) == "first"
    assert next(reader) is None
    assert not stopped.is_set()
    reader.close()
    assert stopped.is_set()
    assert list(live.attended(iter("ab"), said.set)) == ["a", "b"]
    assert not said.is_set()


def test_a_name_in_the_label_of_a_button_is_no_markdown() -> None:
    assert markup.as_label("**spam** [a](x)\n`b`") == r"\*\*spam\*\* \[a\]\(x\) \`b\`"
