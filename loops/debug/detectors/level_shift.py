"""A statistic that leaves its course at a resume and stays away, in the direction that is unhealthy for it.

Each rule names the direction and the smallest shift that matters in practice: a learning rate 10 % higher, a slightly
different mixture or another seed must stay below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.contrast import Contrast, Place, contrast, places, probe_at
from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Reading, transform
from loops.debug.view import RunView

_MIN_STRENGTH, _MIN_PERSISTENCE = 3.0, 0.8
_MIN_LAYERS = 0.6  # share of the layers that have to move the same way
_UP, _DOWN = 1.0, -1.0


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`template` names one series or, with `*`, one per layer. `min_shift` is on the scale of `reading`."""

    template: str
    reading: Reading
    direction: float
    min_shift: float
    specificity: int
    words: str
    standalone: bool = True


def _log(
    template: str, direction: float, ratio: float, specificity: int, words: str, *, standalone: bool = True
) -> Rule:
    return Rule(
        template=template,
        reading=Reading.LOG_LEVEL,
        direction=direction,
        min_shift=float(np.log(ratio)),
        specificity=specificity,
        words=words,
        standalone=standalone,
    )


RULES = (
    _log("router_logit_std/layers.*", _UP, 1.5, 62, "the router logits spread"),
    _log("router_entropy/layers.*", _DOWN, 1.1, 60, "the router gets ever more certain"),
    Rule(
        template="balance_loss/layers.*",
        reading=Reading.LOG_EXCESS,
        direction=_UP,
        min_shift=float(np.log(4.0)),
        specificity=57,
        words="the load-balance loss rises above its best value of 1",
    ),
    _log("z_loss/layers.*", _UP, 2.0, 55, "the router z-loss grows"),
    _log("max_vio/layers.*", _UP, 1.6, 54, "the experts are used less evenly"),
    _log("grad_norm/layers.*.router", _UP, 2.5, 45, "the router's gradients grow"),
    _log("grad_norm/layers.*.attn", _UP, 2.5, 42, "attention's gradients grow"),
    _log("grad_norm/layers.*.experts", _UP, 2.5, 42, "the experts' gradients grow"),
    _log("aux_loss_share", _UP, 2.0, 40, "the auxiliary losses take a larger share of the loss", standalone=False),
    _log("update_norm/group.router", _UP, 2.0, 48, "the router's updates grow", standalone=False),
    _log("update_norm/group.norm", _UP, 2.0, 38, "the norms' updates grow", standalone=False),
    _log("update_norm/group.attention", _UP, 2.0, 38, "attention's updates grow", standalone=False),
    _log("update_norm/group.experts", _UP, 2.0, 38, "the experts' updates grow", standalone=False),
    _log("update_norm/group.embedding", _UP, 2.0, 38, "the embedding's updates grow", standalone=False),
    _log("update_norm/group.head", _UP, 2.0, 38, "the head's updates grow", standalone=False),
    _log("grad_norm", _UP, 2.0, 30, "the gradient norm grows"),
    _log("lm_loss", _UP, 1.08, 28, "the language-model loss rises"),
    _log("loss", _UP, 1.08, 20, "the loss rises"),
)


def detect(view: RunView) -> list[Finding]:
    """One finding per rule and run, at the place where it shows most."""
    return [found for rule in RULES if (found := _judge(view, rule)) is not None]


def _judge(view: RunView, rule: Rule) -> Finding | None:
    steps, rows, names, layers = _rows(view, rule)
    if not names or (rule.template == "loss" and "lm_loss" in view.values):
        return None
    best: tuple[Place, Contrast] | None = None
    for place in places(view):
        found = contrast(steps, np.median(rows, axis=0), boundary=place.boundary, end=place.end)
        if found is None or not _is_shift(found, rule, place.strictness):
            continue
        if not _layers_agree(steps, rows, rule, place):
            continue
        if best is None or found.strength > best[1].strength:
            best = (place, found)
    return None if best is None else _finding(view, rule, best[0], best[1], names, layers)


def _rows(view: RunView, rule: Rule) -> tuple[NDArray[np.int64], NDArray[np.float64], tuple[str, ...], tuple[int, ...]]:
    """Steps, values [N, S] on the rule's scale, names and layers."""
    if "*" not in rule.template:
        steps, values = view.series(rule.template)
        names = (rule.template,) if steps.size else ()
        return steps, transform(values, rule.reading)[None, :], names, ()
    family = view.family(rule.template)
    if family is None:
        return view.steps, np.empty((0, view.steps.size)), (), ()
    complete = np.all(np.isfinite(family.values), axis=0)
    return view.steps[complete], transform(family.values[:, complete], rule.reading), family.names, family.layers


def _is_shift(found: Contrast, rule: Rule, strictness: float) -> bool:
    return (
        found.shift * rule.direction >= rule.min_shift * strictness
        and found.strength >= _MIN_STRENGTH * strictness
        and found.persistence >= _MIN_PERSISTENCE
    )


def _layers_agree(steps: NDArray[np.int64], rows: NDArray[np.float64], rule: Rule, place: Place) -> bool:
    """At least _MIN_LAYERS of the rows move the same way by half of what matters."""
    found = [contrast(steps, row, boundary=place.boundary, end=place.end) for row in rows]
    agree = [c is not None and c.shift * rule.direction >= 0.5 * rule.min_shift for c in found]
    return sum(agree) >= _MIN_LAYERS * len(agree)


def _finding(
    view: RunView, rule: Rule, place: Place, found: Contrast, names: tuple[str, ...], layers: tuple[int, ...]
) -> Finding:
    before, after = (_plain(level, rule.reading) for level in (found.normal, found.anomalous))
    where = f" in all {len(layers)} layers" if layers else ""
    course = f"{rule.template} goes from {before:.3g} to {after:.3g} {steps_phrase(found.onset)}"
    return Finding(
        kind="level_shift",
        series=names,
        layers=layers,
        onset=found.onset,
        severity=min(1.0, 0.3 + 0.2 * abs(found.shift) / rule.min_shift),
        statement=f"{rule.words}{where}: {course}",
        evidence=tuple(series_ref(view.run_id, name, found.onset[0], place.end) for name in names[:8]),
        probe=probe_at(view, names, rule.reading, place, found.onset[1]),
        specificity=rule.specificity,
        standalone=rule.standalone,
    )


def _plain(level: float, reading: Reading) -> float:
    if reading is Reading.LEVEL:
        return level
    return float(np.exp(level)) + (1.0 if reading is Reading.LOG_EXCESS else 0.0)
