"""For each detector its fault, written into the logs of a healthy run: where it stays silent then, it could not speak.

A rate over runs in which a detector cannot speak says nothing, so those runs are counted apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loops.debug.view import Floats, RunView

_EXCERPT = 24  # lines that somebody cuts out of a log


def late(view: RunView) -> NDArray[np.bool_]:
    """The points after the last resume, else those of the second half."""
    since = view.boundaries[-1].start_step if view.boundaries else int(np.median(view.steps))
    return np.asarray(view.steps > since)


def since(view: RunView) -> Floats:
    """Steps since the first late one; 0 before."""
    return np.cumsum(late(view)).astype(np.float64)


def excerpt(view: RunView) -> RunView:
    """The last lines of the log, as `few_points` looks at them."""
    cut = slice(-_EXCERPT, None)
    values = {name: row[cut] for name, row in view.values.items()}
    present = {name: row[cut] for name, row in view.present.items()}
    return replace(view, steps=view.steps[cut], values=values, present=present, segments=(), redone=(), parent=None)


def changed(view: RunView, changes: Mapping[str, Callable[[Floats], Floats]]) -> RunView:
    """Each series whose name matches the pattern in full, changed."""
    values = dict(view.values)
    for pattern, change in changes.items():
        values |= {name: change(row) for name, row in values.items() if re.fullmatch(pattern, name)}
    return replace(view, values=values)


def scaled(view: RunView, factors: Mapping[str, Floats]) -> RunView:
    """Each series whose name matches the pattern in full, times the factors [S]."""
    return changed(view, {pattern: lambda row, f=factor: row * f for pattern, factor in factors.items()})  # type: ignore[misc]


def _at_once(pattern: str, factor: float) -> Callable[[RunView], RunView]:
    return lambda view: scaled(view, {pattern: np.where(late(view), factor, 1.0)})


def _set(pattern: str, value: float) -> Callable[[RunView], RunView]:
    return lambda view: changed(view, {pattern: lambda row: np.where(late(view), value, row)})


def _growing(pattern: str, rate: float) -> Callable[[RunView], RunView]:
    return lambda view: scaled(view, {pattern: np.exp(rate * since(view))})


def _over_balance(view: RunView) -> RunView:
    up, down = np.where(late(view), 4.0, 1.0), np.where(late(view), 0.3, 1.0)
    return scaled(view, {"aux_loss_share|balance_loss": up, "max_vio(/layers.*)?": down})


def _one_layer(view: RunView) -> RunView:
    return scaled(view, {r"max_vio(_micro)?/layers\.1": np.where(late(view), 5.0, 1.0)})


def _in_stretch(pattern: str, rise: float) -> Callable[[RunView], RunView]:
    """A ramp over the last half of the longest stretch."""

    def plant(view: RunView) -> RunView:
        first, last = max(view.stretches, key=lambda span: span[1] - span[0])
        middle = (first + last) / 2
        ramp = np.clip((view.steps - middle) / (last - middle), 0.0, None).astype(np.float64)
        return scaled(view, {pattern: np.exp(rise * ramp)})

    return plant


def _spike(view: RunView) -> RunView:
    at = int(0.7 * view.steps.size)
    return scaled(view, {"lm_loss": np.where(np.isin(np.arange(view.steps.size), (at, at + 1, at + 2)), 3.0, 1.0)})


def _burst(view: RunView) -> RunView:
    near = np.isin(np.arange(view.steps.size), (11, 12))
    return scaled(view, {"lm_loss": np.where(near, 3.0, 1.0), "grad_norm": np.where(near, 100.0, 1.0)})


def _resume(view: RunView) -> RunView:
    decaying = late(view).astype(np.float64) * np.exp(-since(view) / 8.0)
    return scaled(view, {"lm_loss|loss": 1.0 + decaying})


def _redone(view: RunView) -> RunView:
    return replace(view, redone=tuple(replace(each, after=1.05 * each.after) for each in view.redone))


def _declared(view: RunView) -> RunView:
    last = view.segments[-1]
    rate = last.declared.get("optim.router.lr")
    used = {**last.effective, "optim.router.lr": 9.0 * float(rate)} if isinstance(rate, int | float) else last.effective
    return replace(view, segments=(*view.segments[:-1], replace(last, effective=used)))


def _stalls(view: RunView) -> RunView:
    slow = np.where(view.steps % 10 == 0, 6.0, 1.0)
    return scaled(view, {"tokens_per_second|tflops": 1.0 / slow, "step_time_s": slow})


PLANTS: Mapping[str, Callable[[RunView], RunView]] = {
    "non_finite": _set("lm_loss|loss", np.nan),
    "masked": _set("lm_loss|loss", 0.0),
    "data_order": _set("repeated_samples", 4.0),
    "mixture_shift": lambda view: changed(
        view,
        {
            r"mixture/source\..*": lambda row: np.where(late(view), 0.02, row),
            r"mixture/source\.encodings": lambda row: np.where(late(view), 0.94, row),
        },
    ),
    "redone_steps": _redone,
    "resume": _resume,
    "self_check": _set("self_check@rank=1", 1.0),
    "rank_departure": lambda view: scaled(view, {r".*loss@rank=1": np.full(view.steps.size, 3.0)}),
    "peer_departure": _one_layer,
    "expert_departure": _set(r"expert_load/layers\.1/experts\.1", 0.0),
    "imbalance": lambda view: scaled(view, {r"max_vio/layers\.1": np.full(view.steps.size, 4.0)}),
    "over_balance": _over_balance,
    "balance_bound": _at_once("balance_loss(/layers.*)?", 0.5),
    "trend": _growing(r"weight_norm/layers\..*\.router", 0.02),
    "module_divergence": lambda view: scaled(view, {r"weight_norm/layers\..*\.router": np.exp(0.03 * view.steps)}),
    "level_shift": _at_once(r"router_logit_std/layers\..*", 12.0),
    "drift": _in_stretch("lm_loss|loss", 1.0),
    "spike": _spike,
    "few_points": _burst,
    "fork_departure": lambda view: scaled(view, {"lm_loss": np.full(view.steps.size, 1.05)}),
    "sudden_gain": _at_once("lm_loss|loss", 0.4),
    "over_fitting": _in_stretch("eval_loss", 1.0),
    "eval_break": _at_once("eval_loss", 2.0),
    "invariant": _declared,
    "gradient_cover": _at_once("grad_norm", 0.3),
    "learning_rate": _at_once(r"lr/group\.router", 3.0),
    "throughput": _at_once("tokens_per_second", 0.1),
    "throughput_wear": _stalls,
}
