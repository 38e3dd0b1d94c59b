"""Steps that were done again after a resume and did not come out as before: something was not restored.

The same checkpoint, code, configuration and seed give the same steps. Machines that do not repeat bit for bit start
equal and part slowly; another order of the samples, another state of the random generators or of the optimizer shows
at the first of the steps (R801-3.20).
"""

from __future__ import annotations

import re

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Redone, RunView, SegmentView
from loops.statistics.location import difference_sigma, median

_LOSSES = ("lm_loss", "loss")
_MIN_STEPS, _FIRST = 3, 5
_SHARE, _AT_ONCE = 0.2, 0.05  # of the noise from step to step: median of the first steps, and the very first one
_LEAST = 2e-3  # in logarithms
_ASIDE = re.compile(r"(^|[._])(steps|max_steps|save\w*|checkpoint\w*|log\w*|eval\w*)([._]|$)")


def detect(view: RunView) -> list[Finding]:
    """At most one finding: the first resume whose repeated steps differ at once though nothing was changed."""
    for redone in view.redone:
        after = next((s for s in view.segments if s.number == redone.segment), None)
        before = next((s for s in view.segments if s.number == redone.earlier), None)
        if after is None or before is None or redone.name not in _LOSSES or not _is_same(before, after):
            continue
        if (found := _judge(view, redone)) is not None:
            return [found]
    return []


def _is_same(before: SegmentView, after: SegmentView) -> bool:
    def counts(segment: SegmentView) -> dict[str, object]:
        return {key: value for key, value in segment.declared.items() if not _ASIDE.search(key)}

    return (before.code_version, before.seed, counts(before)) == (after.code_version, after.seed, counts(after))


def _judge(view: RunView, redone: Redone) -> Finding | None:
    if redone.steps.size < _MIN_STEPS or min(redone.before.min(), redone.after.min()) <= 0.0:
        return None
    gaps = np.log(redone.after) - np.log(redone.before)
    _, values = view.series(redone.name)
    noise = max(difference_sigma(np.log(np.maximum(values, 1e-12))), 1e-6)
    usual = median(np.abs(gaps[:_FIRST]))
    if usual < max(_LEAST, _SHARE * noise) or abs(gaps[0]) < _AT_ONCE * noise:
        return None
    first, last = int(redone.steps[0]), int(redone.steps[-1])
    level = float(np.mean(np.log(redone.before)))
    return Finding(
        kind="resume",
        series=(redone.name,),
        layers=(),
        onset=(first, first),
        severity=min(1.0, 0.5 + 0.2 * usual / noise),
        statement=(
            f"steps {first}-{last} were done again after the resume and {redone.name} differs by {100 * usual:.2g} % "
            "from the first of them on, though nothing was changed, as where order of samples, random generators or "
            "optimizer are not restored"
        ),
        evidence=(series_ref(view.run_id, redone.name, first, last),),
        probe=Probe(
            series=(redone.name,),
            reading=Reading.LOG_LEVEL,
            normal=(level,),
            anomalous=(level + float(np.mean(gaps)),),
            noise=(noise,),
            since=first,
            until=last,
        ),
        specificity=67,
    )
