"""Evaluations of several runs side by side. No win is shown inside the noise: a difference counts from two of its
standard errors on, and scores whose protocols differ are not compared at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ui.catalog import Score
from ui.components.difference import labels
from ui.components.markup import escape
from ui.components.tables import row, table
from ui.records import Run

_CLEAR = 1.96  # standard errors of a difference: 95 %
_LOWER_IS_BETTER = ("loss", "perplexity", "ppl", "bits_per_byte", "bpb", "error", "wer")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A run's score against that of the first run. `outcome`: better, worse, noise, unknown (no error) or apart."""

    outcome: str
    difference: float | None = None
    stderr: float | None = None


def read(base: Score, other: Score) -> Reading:
    if base.identity_key != other.identity_key:
        return Reading(outcome="apart")
    difference = other.value - base.value
    if base.stderr is None or other.stderr is None:
        return Reading(outcome="unknown", difference=difference)
    stderr = math.hypot(base.stderr, other.stderr)
    if abs(difference) <= _CLEAR * stderr:
        return Reading(outcome="noise", difference=difference, stderr=stderr)
    gains = difference < 0 if _falls(base.metric) else difference > 0
    return Reading(outcome="better" if gains else "worse", difference=difference, stderr=stderr)


def _falls(metric: str) -> bool:
    return any(word in metric.lower() for word in _LOWER_IS_BETTER)


def render(runs: Sequence[Run], scores: Sequence[Sequence[Score]]) -> str:
    """HTML; `scores[i]` are those of `runs[i]`, of which the newest of each benchmark and metric is shown."""
    newest = [_newest(own) for own in scores]
    keys = sorted(set().union(*newest))
    if not keys:
        return "<p class='lt-muted'>No evaluation of these runs is on record; <code>lathe ingest</code> reads them.</p>"
    names = labels(runs)
    heads = ["Benchmark", *(escape(names[run.id]) for run in runs)]
    rows = [row([_named(key, newest), *_cells([own.get(key) for own in newest])]) for key in keys]
    note = (
        "Value ± standard error. A difference is called better or worse only outside its 95 % interval; otherwise it "
        "is within the noise."
    )
    return table(heads, rows, look="lt-fields") + f"<p class='lt-muted'>{note}</p>"


def _newest(scores: Sequence[Score]) -> dict[tuple[str, str, str], Score]:
    """By benchmark, metric and protocol; at the last step that was evaluated."""
    ordered = sorted(scores, key=lambda score: (score.step or 0, score.id))
    return {(score.benchmark, score.metric, score.protocol): score for score in ordered}


def _named(key: tuple[str, str, str], newest: Sequence[dict[tuple[str, str, str], Score]]) -> str:
    benchmark, metric, protocol = key
    shots = {own[key].shots for own in newest if key in own}
    shot = f", {shots.pop()}-shot" if len(shots) == 1 and None not in shots else ""
    return f"<b>{escape(benchmark)}</b><div class='lt-muted'>{escape(metric)}, {escape(protocol)}{shot}</div>"


def _cells(scores: Sequence[Score | None]) -> list[str]:
    base, *others = scores
    return [_value(base), *(_value(other, _told(base, other)) for other in others)]


def _value(score: Score | None, told: str = "") -> str:
    if score is None:
        return "<span class='lt-muted'>not evaluated</span>"
    error = "" if score.stderr is None else f" ± {score.stderr:.2g}"
    count = f", n = {score.num_samples:,}" if score.num_samples is not None else ""
    at = f"step {score.step}" if score.step is not None else ""
    return f"{score.value:.4g}{error}<div class='lt-muted'>{at}{count}</div>{told}"


def _told(base: Score | None, other: Score | None) -> str:
    if base is None or other is None:
        return ""
    found = read(base, other)
    if found.outcome == "apart":
        return "<div class='lt-muted'>not comparable: evaluated in another way</div>"
    change = f"{found.difference:+.3g}"
    if found.outcome == "unknown":
        return f"<div class='lt-muted'>{change}, standard error not recorded: no claim</div>"
    if found.outcome == "noise":
        return f"<div class='lt-muted'>{change} ± {found.stderr:.2g}: within the noise</div>"
    sign, look = ("▲", "lt-good") if found.outcome == "better" else ("▼", "lt-bad")
    return f"<div class='{look}'>{sign} {change} ± {found.stderr:.2g}, {found.outcome}</div>"
