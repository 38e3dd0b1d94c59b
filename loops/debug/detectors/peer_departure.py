"""A layer that departs from its peers while the value over all layers may look healthy (R801-3.2 b).

Layers differ by nature, so each is compared with its own earlier distance from the median of the others. The last
layer lies next to the output space and is often high: it counts only when a second statistic agrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.contrast import Contrast, Place, contrast, places, probe_at
from loops.debug.finding import Finding, layers_phrase, series_ref, steps_phrase
from loops.debug.measure import Reading, transform
from loops.debug.view import Family, RunView

_MIN_LAYERS = 4  # fewer layers have no peers to speak of
_MIN_PERSISTENCE = 0.7
_SUPPORT = 0.35  # share of its own threshold at which another statistic counts as agreeing


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`alone`: departs this far (in logarithms) without support; `supported`: with a second statistic."""

    template: str
    reading: Reading
    alone: float
    supported: float
    strength: float = 2.5

    @property
    def statistic(self) -> str:
        return self.template.partition("/")[0]


RULES = (
    Rule(template="max_vio/layers.*", reading=Reading.LOG_LEVEL, alone=0.9, supported=0.5),
    Rule(template="balance_loss/layers.*", reading=Reading.LOG_EXCESS, alone=1.8, supported=1.1),
    Rule(template="max_vio_micro/layers.*", reading=Reading.LOG_LEVEL, alone=0.8, supported=0.4),
    Rule(template="router_logit_std/layers.*", reading=Reading.LOG_LEVEL, alone=0.6, supported=0.35),
    Rule(template="router_entropy/layers.*", reading=Reading.LOG_LEVEL, alone=0.15, supported=0.08),
    Rule(template="grad_norm/layers.*.router", reading=Reading.LOG_LEVEL, alone=1.2, supported=0.9),
    Rule(template="grad_norm/layers.*.attn", reading=Reading.LOG_LEVEL, alone=1.2, supported=0.9),
    Rule(template="grad_norm/layers.*.experts", reading=Reading.LOG_LEVEL, alone=1.2, supported=0.9),
)


@dataclass(frozen=True, kw_only=True)
class _Departure:
    rule: Rule
    family: Family
    index: int  # of the layer in the family
    found: Contrast

    @property
    def layer(self) -> int:
        return self.family.layers[self.index]

    @property
    def share(self) -> float:
        return abs(self.found.shift) / self.rule.alone


def detect(view: RunView) -> list[Finding]:
    """At most one finding per place: all departing layers, led by the statistic in which they depart most clearly."""
    findings = []
    for place in places(view):
        all_departures = [d for rule in RULES for d in _departures(view, rule, place)]
        layers = _departing_layers(all_departures, place, _num_layers(view))
        if layers:
            findings.append(_finding(view, place, [d for d in all_departures if d.layer in layers], layers))
        if findings and place.strictness > 1.0:
            break
    return findings


def _departures(view: RunView, rule: Rule, place: Place) -> list[_Departure]:
    """Each layer's shift relative to the median of the others."""
    family = view.family(rule.template)
    if family is None or len(family.layers) < _MIN_LAYERS:
        return []
    complete = np.all(np.isfinite(family.values), axis=0)
    steps, rows = view.steps[complete], transform(family.values[:, complete], rule.reading)
    departures = []
    for index in range(len(family.layers)):
        relative = rows[index] - np.median(np.delete(rows, index, axis=0), axis=0)
        found = contrast(steps, relative, boundary=place.boundary, end=place.end)
        if found is not None:
            departures.append(_Departure(rule=rule, family=family, index=index, found=found))
    return departures


def _departing_layers(departures: list[_Departure], place: Place, num_layers: int) -> tuple[int, ...]:
    """Layers that depart clearly; none when it is no longer a minority."""
    by_layer: dict[int, list[_Departure]] = {}
    for departure in departures:
        by_layer.setdefault(departure.layer, []).append(departure)
    last = max(by_layer, default=-1)
    found = [layer for layer, of in by_layer.items() if _departs(of, place, is_last=layer == last)]
    return tuple(sorted(found)) if 0 < len(found) < num_layers / 2 else ()


def _departs(of_layer: list[_Departure], place: Place, *, is_last: bool) -> bool:
    upward = [d for d in of_layer if _is_unhealthy(d)]
    support = {d.rule.template for d in upward if d.share >= _SUPPORT}
    for departure in upward:
        has_support = bool(support - {departure.rule.template})
        needed = departure.rule.supported if has_support else departure.rule.alone
        clear = departure.found.strength >= departure.rule.strength * place.strictness
        if clear and abs(departure.found.shift) >= needed * place.strictness and (has_support or not is_last):
            return True
    return False


def _is_unhealthy(departure: _Departure) -> bool:
    """Imbalance, spread and gradients up, entropy down; lasting."""
    direction = -1.0 if departure.rule.template.startswith("router_entropy") else 1.0
    return departure.found.shift * direction > 0 and departure.found.persistence >= _MIN_PERSISTENCE


def _num_layers(view: RunView) -> int:
    return max((len(family.layers) for family in view.families.values()), default=0)


def _finding(view: RunView, place: Place, departures: list[_Departure], layers: tuple[int, ...]) -> Finding:
    clear = [d for d in departures if _is_unhealthy(d) and d.share >= _SUPPORT]
    lead = max(clear, key=lambda d: d.share)
    rules = {d.rule.template: d.rule for d in clear}
    series = tuple(d.family.names[d.index] for d in clear)
    leading = tuple(d.family.names[d.index] for d in clear if d.rule is lead.rule)
    onset = (min(d.found.onset[0] for d in clear), max(min(d.found.onset[1] for d in clear), lead.found.onset[1]))
    healthy = _overall_is_healthy(view, lead, place)
    aside = " while the overall value looks healthy" if healthy else ""
    names = ", ".join(rule.statistic for rule in rules.values())
    verb = "departs" if len(layers) == 1 else "depart"
    return Finding(
        kind="peer_departure",
        series=(*leading, *(name for name in series if name not in leading)),
        layers=layers,
        onset=onset,
        severity=min(1.0, 0.4 + 0.3 * lead.share),
        statement=f"{layers_phrase(layers)} {verb} from the other layers {steps_phrase(onset)}{aside} ({names})",
        evidence=tuple(series_ref(view.run_id, name, onset[0], place.end) for name in series[:8]),
        probe=probe_at(view, leading, lead.rule.reading, place, onset[1]),
        specificity=90 if healthy else 50,
    )


def _overall_is_healthy(view: RunView, lead: _Departure, place: Place) -> bool:
    """Neither the layers' median of the leading statistic nor what people watch (MaxVio over all layers, else the mean
    of that statistic) moved by what counts."""
    watched = RULES[0] if RULES[0].statistic in view.values else lead.rule
    steps, values = view.series(watched.statistic)
    complete = np.all(np.isfinite(lead.family.values), axis=0)
    middle = np.median(transform(lead.family.values[:, complete], lead.rule.reading), axis=0)
    return _hardly_moved(steps, transform(values, watched.reading), watched, place) and _hardly_moved(
        view.steps[complete], middle, lead.rule, place
    )


def _hardly_moved(steps: NDArray[np.int64], scaled: NDArray[np.float64], rule: Rule, place: Place) -> bool:
    found = contrast(steps, scaled, boundary=place.boundary, end=place.end)
    return found is not None and abs(found.shift) < rule.supported
