"""The demo's report: Markdown with SVG plots beside it, written from the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from context_store import Store
from context_store.records import NegativeResult
from contracts.names import SeriesName
from control_plane.demo.home import Truth
from control_plane.demo.outcome import Answer, is_right
from control_plane.demo.pair import FAULTY_SEGMENT, LAST_STEP, MAIN, PILOT
from control_plane.demo.plot import Line, Marker, line_plot

_NUM_CURVES = 4  # series of an anomaly that are drawn
_NUM_RERUNS = 8
_LABEL = 24  # characters beside a plot
_OVERALL = ("lm_loss", "max_vio")

Remembered = list[tuple[NegativeResult, float]]


def write_report(
    folder: Path, store: Store, case_id: str, answer: Answer, truth: Truth, remembered: Remembered, question: str
) -> Path:
    """Write `report.md` and its plots into `folder` and return its path. Writing it again replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["# What Lathe found in the main run", "", answer.statement, "", *_overview(folder, store)]
    if case_id:
        parts += _finding(folder, store, case_id)
        parts += [_lowered(store.knowledge.report(case_id)), ""]
    parts += _memory(question, remembered)
    parts += _truth(answer, truth)
    parts += _own_run()
    path = folder / "report.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _overview(folder: Path, store: Store) -> Iterable[str]:
    for name in _OVERALL:
        lines = [_curve(store, run_id, name, label=run_id) for run_id in (MAIN, PILOT)]
        yield _plot(folder, name, f"{name} of the main run and the pilot", lines, _markers(store))


def _finding(folder: Path, store: Store, case_id: str) -> Iterable[str]:
    anomaly = store.knowledge.anomalies(investigation_id=case_id)[0]
    names = tuple(anomaly.probe.get("series") or anomaly.series)[:_NUM_CURVES]
    yield from ("## What was noticed", "", anomaly.statement, "")
    curves = [_curve(store, MAIN, name, label=_short(name)) for name in names]
    curves += [_superseded(store, name) for name in names]
    yield _plot(folder, "finding", f"{names[0]} and its like in the main run", curves, _markers(store))
    reruns = [each for each in store.knowledge.diagnostics(case_id) if each.run_id][:_NUM_RERUNS]
    lines = [_curve(store, each.run_id, names[0], label=f"{each.kind}: {each.label}"[:_LABEL]) for each in reruns]
    yield _plot(folder, "reruns", f"{names[0]} in the re-runs", lines, ())


def _curve(store: Store, run_id: str, name: str, *, label: str) -> Line:
    data = store.series.read(run_id, name)
    return Line(label=label, steps=data.steps.tolist(), values=data.values.tolist())


def _superseded(store: Store, name: str) -> Line:
    """Points of the faulty segment that the fixed one replaced; none when the fix came after them."""
    fixed = [segment.start_step for segment in store.runs.segments(MAIN) if segment.number > FAULTY_SEGMENT]
    data = store.series.read(MAIN, name, lo=min(fixed, default=LAST_STEP) + 1, hi=LAST_STEP, view="full")
    old = data.segments == FAULTY_SEGMENT
    return Line(
        label=f"{_short(name)}, faulty", steps=data.steps[old].tolist(), values=data.values[old].tolist(), faded=True
    )


def _markers(store: Store) -> list[Marker]:
    segments = store.runs.segments(MAIN)
    return [
        Marker(
            step=segment.start_step,
            label="the fix" if segment.number > FAULTY_SEGMENT else f"resume {segment.number}",
        )
        for segment in segments
        if segment.start_step
    ]


def _plot(folder: Path, name: str, title: str, lines: list[Line], markers: Iterable[Marker]) -> str:
    drawn = [line for line in lines if len(line.steps)]
    (folder / f"{name}.svg").write_text(line_plot(title, drawn, tuple(markers)), encoding="utf-8")
    return f"![{title}]({name}.svg)\n"


def _short(name: str) -> str:
    parsed = SeriesName.parse(name)
    return parsed.module or parsed.statistic


def _lowered(markdown: str) -> str:
    """The case's report as a part of this one: each heading one level down."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in markdown.splitlines())


def _memory(question: str, remembered: Remembered) -> Iterable[str]:
    yield from ("## Have we tried this before?", "")
    if not remembered:
        yield "Nothing was ruled out in this project yet.\n"
        return
    yield f"Asked for `{question}`, the store answers:\n"
    for negative, _ in remembered:
        yield (
            f"- Tried: {negative.intervention}. What came of it: {negative.observed}. So this is **no longer "
            f"assumed**: {negative.claim}. Reopen if: {negative.reopen_if}."
        )
    yield ""


def _truth(answer: Answer, truth: Truth) -> Iterable[str]:
    found = ", ".join(commit[:12] for commit in answer.culprit_commits) or "none"
    planted = ", ".join(commit[:12] for commit in truth.commits) or "none"
    yield from ("## The truth, opened after the verdict was stored", "")
    yield from ("| | commits | kind |", "|---|---|---|")
    yield f"| Lathe says | {found} | {answer.cause_kind} |"
    yield f"| planted | {planted} | {truth.cause_kind} |"
    yield from ("", "They agree." if is_right(answer, truth) else "They do not agree.", "")


def _own_run() -> Iterable[str]:
    yield from ("## Your own run", "", "```", *OWN_RUN, "```", "")


OWN_RUN = (
    "lathe train PATH/TO/PROJECT   # a folder under git with a recipe.py, such as this demo's project",
    "lathe diagnose RUN            # from the finding to the proposal",
)
