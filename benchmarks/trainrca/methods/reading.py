"""What is known of a case before anybody says anything: findings, the changes in force, the step of the alarm."""

from __future__ import annotations

import math
import re
import time

import numpy as np

from benchmarks.recurrence import cut
from benchmarks.trainrca.answers import Change, Facts
from benchmarks.trainrca.form import Case
from benchmarks.trainrca.placing import Bench
from context_store import Store
from context_store.records import ConfigChange
from loops.debug import detect
from loops.debug.detectors import DETECTORS
from loops.debug.ranking import factor_words
from loops.debug.substance import changed_lines
from loops.debug.suspects import Factor, find_scene
from loops.debug.view import RunView, view_run

_LOOKS = 3  # the run is looked at every so many steps


def alarm_step(view: RunView) -> int | None:
    """The first step, to within a few, at which a detector opens a case of the run's last segment."""
    start = view.segments[-1].start_step
    for last in range(start + 1, int(view.steps[-1]) + _LOOKS, _LOOKS):
        part = cut(view, last)
        if any(finding.standalone for detector in DETECTORS for finding in detector(part)):
            return int(min(last, view.steps[-1]))
    return None


def read_facts(lathe: Bench, case: Case) -> Facts:
    """Look at the recorded run; its findings are stored."""
    return facts_of(lathe.store, case)


def facts_of(store: Store, case: Case) -> Facts:
    """The same of a case that lies in a store."""
    began = time.monotonic()
    findings = detect(store, case.id)
    view = view_run(store, case.id)
    seconds = time.monotonic() - began
    if not findings:
        return Facts(case_id=case.id, trainer=case.trainer, seconds=seconds)
    scene = find_scene(store, view, findings[0].onset)
    factors = [factor for factor in scene.factors if factor.is_new and factor.testable] if scene else []
    return Facts(
        case_id=case.id,
        trainer=case.trainer,
        symptoms=tuple(sorted({f"{f.kind} {_template(name)}" for f in findings for name in f.series})),
        changes=tuple(_change(factor) for factor in factors),
        found_at=alarm_step(view),
        seconds=seconds,
    )


def _template(series: str) -> str:
    return re.sub(r"\d+", "N", series)


def _change(factor: Factor) -> Change:
    lines = [changed_lines(hunk) for hunk in factor.hunks]
    return Change(
        key=factor.key,
        cause_kind=str(factor.cause_kind),
        substance=str(factor.substance),
        words=tuple(sorted(set(factor_words(factor)))),
        jump=max((_jump(change) for change in factor.fields), default=0.0),
        num_lines=sum(len(part) for removed, added in lines for part in (removed, added)),
    )


def _jump(change: ConfigChange) -> float:
    before, after = change.before, change.after
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (before, after)):
        return 1.0
    one, two = abs(float(before)), abs(float(after))  # type: ignore[arg-type]
    return float(abs(math.log2(max(two, 1e-12) / max(one, 1e-12)))) if np.isfinite(one + two) else 1.0
