"""An evaluation that leaves the training loss at once: what measures it changed, not the model.

Over-fitting opens the gap slowly; another evaluation set, template or mask moves it between two evaluations.
"""

from __future__ import annotations

import numpy as np

from contracts.team import TeamRole
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, Steps
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median, robust_sigma

_LOSSES = ("lm_loss", "loss")
_MIN_EVALS, _SIDE = 10, 4
_MIN_SHIFT, _SIGMAS, _SHARE = 0.05, 8.0, 0.7  # in logarithms; in robust sd; of the shift between two neighbours
_NEAR = 12  # training points on either side of an evaluation


def detect(view: RunView) -> list[Finding]:
    """One finding for each `eval_loss*` series whose distance from the training loss steps. Silent without both."""
    name = next((name for name in _LOSSES if view.series(name)[0].size >= 4 * _NEAR), None)
    if name is None:
        return []
    evals = sorted(each for each in view.values if each.partition("/")[0] == "eval_loss")
    return [found for each in evals if (found := _judge(view, name, each)) is not None]


def _judge(view: RunView, loss: str, name: str) -> Finding | None:
    steps, values = view.series(name)
    if steps.size < _MIN_EVALS or values.min() <= 0.0:
        return None
    gaps = np.log(values) - np.log(np.maximum(_around(steps, *view.series(loss)), 1e-12))
    split = least_squares_split(gaps, margin=_SIDE)
    if split is None or split.shape != "step":
        return None
    before, after = gaps[: split.index], gaps[split.index :]
    shift = median(after) - median(before)
    sigma = max(difference_sigma(gaps), robust_sigma(before), robust_sigma(after))
    at_once = abs(gaps[split.index] - gaps[split.index - 1]) >= _SHARE * abs(shift)
    if abs(shift) < max(_MIN_SHIFT, _SIGMAS * sigma) or not at_once:
        return None
    return _finding(view, name, (int(steps[split.index - 1]) + 1, int(steps[split.index])), values, split.index)


def _around(steps: Steps, train_steps: Steps, losses: Floats) -> Floats:
    """Median training loss around each evaluation."""
    places = np.clip(np.searchsorted(train_steps, steps), 0, losses.size - 1)
    return np.array([median(losses[max(0, place - _NEAR) : place + _NEAR + 1]) for place in places])


def _finding(view: RunView, name: str, onset: tuple[int, int], values: Floats, index: int) -> Finding:
    old, new = float(values[index - 1]), float(values[index])
    last = int(view.steps[-1])
    way = "rises" if new > old else "falls"
    text = f"{name} {way} from {old:.3g} to {new:.3g} between two evaluations while the training loss goes on as before"
    return Finding(
        kind="eval_break",
        series=(name,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.2 + abs(float(np.log(new / old)))),
        statement=text + ": look at how it is measured",
        evidence=(series_ref(view.run_id, name, onset[0] - 1, last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(float(np.log(old)),),
            anomalous=(float(np.log(new)),),
            noise=(max(difference_sigma(np.log(values)), 1e-3),),
            since=onset[1],
            until=last,
        ),
        specificity=33,
        supplied_by=TeamRole.OUTPUT_INSPECTOR,
    )
