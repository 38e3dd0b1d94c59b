"""What must hold whatever the recipe: the optimizer uses what was declared, and gains and biases are not decayed.

A training that always decayed its gains meant it, so only what newly breaks at a resume counts there (R801-3.19). A
field that is used otherwise than declared is a finding from the first step on.
"""

from __future__ import annotations

import math

from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from contracts.team import TeamRole
from loops.debug.contrast import Place, probe_at
from loops.debug.finding import Finding
from loops.debug.measure import Reading
from loops.debug.view import RunView, SegmentView

_GROUP = "param_group."
_GAINS = "weight_norm/layers.*.norm"
_MAX_NAMED = 2


def detect(view: RunView) -> list[Finding]:
    """One finding per start or resume at which an invariant is broken that held before."""
    findings = []
    for segment in view.segments:
        before = view.before(segment)
        decayed = newly_decayed(view, segment)
        sentences = [f"{name} is decayed in group {group}, it was not before" for name, group in decayed.items()]
        known = set(_differing(before).values()) if before else set()
        differing = {key: text for key, text in _differing(segment).items() if text not in known}
        sentences += sorted(differing.values())
        if sentences and (before or any(_is_settled(segment, key) for key in differing)):
            opens_case = bool(decayed) or any(_is_settled(segment, key) for key in differing)
            findings.append(_finding(view, segment, sentences, decays=bool(decayed), opens_case=opens_case))
    return findings


def newly_decayed(view: RunView, segment: SegmentView) -> dict[str, str]:
    """Gains and biases that are decayed in `segment` and were not in the one before -> their group."""
    before = view.before(segment)
    if before is None:
        return {}
    return {name: group for name, group in _decayed(segment).items() if name not in _decayed(before)}


def _decayed(segment: SegmentView) -> dict[str, str]:
    return {
        key.removeprefix(_GROUP): str(group)
        for key, group in segment.effective.items()
        if key.startswith(_GROUP) and _is_gain_or_bias(key) and _decay(segment, str(group)) > 0.0
    }


def _differing(segment: SegmentView) -> dict[str, str]:
    """Fields that are declared one way and used another -> a sentence on each."""
    effective, declared = segment.effective, segment.declared
    both = [key for key in effective if key in declared and not key.startswith("data.mixture")]
    return {
        key: f"{key} is {effective[key]} although {declared[key]} is declared"
        for key in both
        if _differ(effective[key], declared[key])
    }


def _is_settled(segment: SegmentView, key: str) -> bool:
    """Neither a value with a course, as a penalty or a rate under a schedule has, nor one that a stage sets."""
    return key not in segment.moving and not key.endswith(".coef") and "stage.name" not in segment.effective


def _is_gain_or_bias(key: str) -> bool:
    return "norm" in key or key.endswith(".bias")


def _decay(segment: SegmentView, group: str) -> float:
    value = segment.effective.get(f"optim.{group}.weight_decay", segment.declared.get(f"optim.{group}.weight_decay"))
    return float(value) if isinstance(value, int | float) else 0.0


def _differ(a: Scalar, b: Scalar) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return not math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-12)
    return a != b


def _finding(view: RunView, segment: SegmentView, sentences: list[str], *, decays: bool, opens_case: bool) -> Finding:
    onset = (segment.start_step + 1, segment.start_step + 1)
    more = f" (and {len(sentences) - _MAX_NAMED} more like it)" if len(sentences) > _MAX_NAMED else ""
    place = Place(boundary=segment.start_step, end=view.end_of(segment))
    gains = view.family(_GAINS)
    series = gains.names if decays and gains else ()
    return Finding(
        kind="invariant",
        series=series,
        layers=(),
        onset=onset,
        severity=0.4,
        statement=f"from step {onset[0]} on {', '.join(sentences[:_MAX_NAMED])}{more}",
        evidence=(EvidenceRef(kind="run", id=view.run_id, slice=f"segment-{segment.number}"),),
        probe=probe_at(view, series, Reading.SLOPE, place, onset[0]),
        specificity=70 if series else 15,
        standalone=opens_case,
        supplied_by=TeamRole.MODEL_TRAINER,
    )
