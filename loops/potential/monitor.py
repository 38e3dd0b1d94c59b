"""Which checkpoints of a training that goes on are worth the price of a measurement now."""

from __future__ import annotations

from collections.abc import Sequence

from context_store import Store
from contracts.errors import NotFound
from loops.potential.opening import Wish
from loops.potential.plan import LOOP, checkpoints

GROWTH = 1.5  # times the steps of the newest measured checkpoint: a run of any length is measured a few times
_NUM_CHECKPOINTS = 5  # what a trend needs


def due(store: Store, run_id: str) -> Wish | None:
    """The next measurement of a run, None while its newest checkpoint is too near the last measured one.

    The steps between measurements grow with the run, so that their number grows with its logarithm only; what one may
    spend is its project's budget.
    """
    try:
        steps = list(checkpoints(store, run_id))
    except NotFound:
        return None
    if len(steps) < 2 or steps[-1] < GROWTH * _measured(store, run_id):
        return None
    return Wish(run_id=run_id, steps=tuple(_chosen(steps)), seeds=2)


def _measured(store: Store, run_id: str) -> int:
    """The newest step that some case measures, 0 without one."""
    cases = [case for case in store.knowledge.investigations(run_id=run_id) if case.loop == LOOP]
    return max((max(store.casework.get(case.id, "plan", "plan").body["steps"]) for case in cases), default=0)


def _chosen(steps: Sequence[int]) -> list[int]:
    """The newest, and those nearest to equal distances before it over the later half of the run."""
    wanted = [steps[-1] * (0.5 + 0.5 * n / (_NUM_CHECKPOINTS - 1)) for n in range(_NUM_CHECKPOINTS)]
    return sorted({min(steps, key=lambda step: abs(step - goal)) for goal in wanted} | {steps[0]})
