"""The curve that matters: what departs, among its peers, with the overall value and with the fix once it is in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ui.client import Client
from ui.components import units
from ui.components.markup import escape
from ui.components.series_plot import BUCKETS, Line, Mark, Plot, Style, Window, marks
from ui.records import Anomaly, Case, Series, TimelineEvent

_NUMBER = re.compile(r"\d+")
MAX_FOCUS = 6
MAX_PEERS = 64


@dataclass(frozen=True, kw_only=True)
class Names:
    """Series of one picture: those that depart, their peers of the same kind, the whole-model value.

    `num_more`: of the peers, the first so many depart too; they are drawn grey, so that the picture can be read.
    """

    focus: tuple[str, ...]
    peers: tuple[str, ...] = ()
    overall: str = ""
    num_more: int = 0

    @property
    def title(self) -> str:
        """What is shown, in words."""
        return units.together(self.focus) + (f" and {self.num_more} more" if self.num_more else "")

    @property
    def context(self) -> tuple[str, ...]:
        """What gives the focus its scale."""
        return (*self.peers, *((self.overall,) if self.overall else ()))


def by_statistic(anomaly: Anomaly) -> dict[str, tuple[str, ...]]:
    """The series that depart, by what they measure; first the statistic on which the re-runs are judged."""
    judged = [name for name in anomaly.probe.get("series", ()) if name in anomaly.series]
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys([*judged, *anomaly.series]):
        found.setdefault(name.partition("/")[0], []).append(name)
    return {statistic: tuple(names) for statistic, names in found.items()}


def judged_series(anomaly: Anomaly) -> tuple[str, ...]:
    """The series of the first statistic."""
    return next(iter(by_statistic(anomaly).values()), ())


def names_around(client: Client, run_id: str, series: Sequence[str]) -> Names:
    """Everything of their statistic that gives the named series (at least one) their scale."""
    focus = tuple(series[:MAX_FOCUS])
    statistic = focus[0].partition("/")[0]
    known = client.series_names(run_id, statistic=statistic)
    shapes = {_NUMBER.sub("#", name) for name in focus}
    more = [name for name in series[MAX_FOCUS:] if name.partition("/")[0] == statistic]
    peers = [name for name in known if _NUMBER.sub("#", name) in shapes and name not in series]
    overall = statistic if statistic in known and statistic not in focus else ""
    return Names(
        focus=focus, peers=(*more, *peers[: max(0, MAX_PEERS - len(more))]), overall=overall, num_more=len(more)
    )


def names_of_run(client: Client, run_id: str) -> Names | None:
    """The loss of a run that has no finding; None before its first step."""
    known = client.series_names(run_id)
    chosen = next((name for name in ("lm_loss", "loss", *known) if name in known), None)
    return None if chosen is None else Names(focus=(chosen,))


def fix_segment(case: Case, events: Sequence[TimelineEvent]) -> int | None:
    """Number of the segment that runs with the approved change, None before that."""
    decided = [p.decided_at for p in case.proposals if p.state == "approved" and p.decided_at]
    if not decided:
        return None
    resumes = [event for event in events if event.kind == "resume" and event.at >= min(decided)]
    return min((event.segment for event in resumes), default=None)


def plot(
    client: Client, case: Case | None, run_id: str, names: Names, events: Sequence[TimelineEvent], window: Window
) -> Plot:
    """With a fix in, the points that it superseded stay on the picture."""
    lo, hi = window
    fixed_from = fix_segment(case, events) if case else None
    context = {s.name: s for s in client.points(run_id, names.context, buckets=BUCKETS, lo=lo, hi=hi)}
    view = "canonical" if fixed_from is None else "full"
    focus = client.points(run_id, names.focus, buckets=BUCKETS, lo=lo, hi=hi, view=view)
    lines = [Line(label=units.short(n), series=context[n], style=Style.REFERENCE) for n in names.peers]
    if names.overall:
        lines.append(Line(label="overall", series=context[names.overall], style=Style.HEALTHY))
    for series in focus:
        lines.extend(focus_lines(series, fixed_from, faulty=case is not None))
    onset = case.leading.onset if case and case.leading else None
    shown = tuple(mark for mark in marks(events) if inside(mark, window))
    return Plot(lines=tuple(lines), y_title=units.axis_title(names.focus[0]), marks=shown, onset=onset)


def inside(mark: Mark, window: Window) -> bool:
    lo, hi = window
    return (lo is None or mark.step >= lo) and (hi is None or mark.step <= hi)


def focus_lines(series: Series, fixed_from: int | None, *, faulty: bool) -> list[Line]:
    """One line a segment, in another colour from the one with the fix on; the last of each colour carries the name.

    Without a fault there is one line.
    """
    label = units.short(series.name)
    if not faulty:
        return [Line(label=label, series=series)]
    lines: dict[Style, list[Line]] = {}
    for number in sorted(set(series.segments)):
        fixed = fixed_from is not None and number >= fixed_from
        style = Style.FIXED if fixed else Style.FAULTY
        name = f"{label}, fixed" if fixed else label
        lines.setdefault(style, []).append(Line(label=name, series=of_segment(series, number), style=style))
    return [replace(line, named=line is group[-1]) for group in lines.values() for line in group]


def of_segment(series: Series, segment: int) -> Series:
    kept = [i for i, number in enumerate(series.segments) if number == segment]
    return Series(
        name=series.name,
        steps=tuple(series.steps[i] for i in kept),
        values=tuple(series.values[i] for i in kept),
        segments=tuple(segment for _ in kept),
    )


def legend(names: Names, *, faulty: bool, fixed: bool) -> str:
    """What the lines are, in words; the same order as on the plot."""
    entries = [("faulty" if faulty else "plain", "departs" if faulty else units.short(names.focus[0]))]
    if names.overall:
        entries.append(("healthy", f"overall {names.overall}"))
    grey = [(names.num_more, "that depart too"), (len(names.peers) - names.num_more, "peers")]
    if names.peers:
        entries.append(("reference", ", ".join(f"{number} {what}" for number, what in grey if number)))
    if fixed:
        entries.append(("fixed", "with the fix"))
    if faulty:
        entries.append(("onset", "onset"))
    return "".join(f'<span class="lt-key lt-key-{look}">{escape(text)}</span>' for look, text in entries)
