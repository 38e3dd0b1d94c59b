"""Experiments on runs: begun and stopped by persons, driven by the worker between their decisions (RM2-7.18)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from context_store import Store
from context_store.records import Amount, Experiment
from contracts.enums import ProposalState
from contracts.errors import DatabaseUnavailable
from control_plane.leases import Leases
from loops.dual import DualLoop, Question, Standing, WhatIf, keys_of, make_plan

_log = structlog.get_logger(__name__)
_RESTING = frozenset({Standing.DECLINED, Standing.OUT_OF_BUDGET})  # until a person stops it
_MAX_FAILURES = 3


@dataclass(frozen=True, kw_only=True)
class NewExperiment:
    """What a person asks for. `amount`: what its re-runs may spend together, and no more than its project has left."""

    id: str
    title: str
    question: Question
    amount: Amount


def start(store: Store, wish: NewExperiment, actor: str, at: float) -> Experiment:
    """Open it; a worker asks for the approval of its plan. Idempotent by id.

    Raises NotFound without the run, UserInputError where there is nothing to start from, measure or try.
    """
    plan = make_plan(store, wish.question)
    return store.experiments.open(
        wish.id, wish.title, actor, at, wish.amount,
        plan=plan.to_json(), parent_id=store.budgets.of_project(plan.project_id),
    )  # fmt: skip


def stop(store: Store, experiment_id: str, actor: str, reason: str) -> Experiment:
    """End it where it stands. What nobody began is refused; a re-run under way ends within what it has reserved."""
    ended = store.experiments.stop(experiment_id, actor, reason)
    for key in keys_of(store.effects.list(), experiment_id):
        store.effects.refuse(key, f"{actor} stopped the experiment: {reason}")
    return ended


class Experimenter:
    """One worker's share of the experiments: each is driven by one worker at a time, to where it has to wait."""

    def __init__(self, store: Store, leases: Leases, clock: Callable[[], float]) -> None:
        self._store = store
        self._leases = leases
        self._loop = DualLoop(store, WhatIf(store), clock=clock)
        self._resting: dict[str, int] = {}  # where an experiment stood when it could not go on
        self._waiting: dict[str, int] = {}  # where it stood when a person was asked
        self._failures: dict[str, int] = {}

    def look(self) -> None:
        """Go on with all that can go on. Raises DatabaseUnavailable."""
        for experiment in self._store.experiments.to_drive():
            if self._resting.get(experiment.id) == experiment.sequence or self._is_open(experiment):
                continue
            if self._leases.try_take(f"experiment:{experiment.id}"):
                try:
                    self._drive(experiment)
                finally:
                    self._leases.give(f"experiment:{experiment.id}")

    def _is_open(self, experiment: Experiment) -> bool:
        """Is what a person was asked last not decided yet?"""
        if self._waiting.get(experiment.id) != experiment.sequence:
            return False
        mine = {"experiment": experiment.id, "sequence": experiment.sequence}
        asked = [each.payload for each in self._store.proposals.list(ProposalState.OPEN)]
        return any(mine.items() <= payload.items() for payload in asked)

    def _drive(self, experiment: Experiment) -> None:
        try:
            standing = self._loop.run(experiment.id)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # one experiment must not end the worker
            self._note(experiment, error)
            return
        self._failures.pop(experiment.id, None)
        sequence = self._store.experiments.get(experiment.id).sequence
        if standing in _RESTING:
            self._resting[experiment.id] = sequence
        elif standing is Standing.WAITS_FOR_A_PERSON:
            self._waiting[experiment.id] = sequence

    def _note(self, experiment: Experiment, error: Exception) -> None:
        """Tried again a few times; then it rests until the next worker."""
        _log.error("experiment failed", experiment=experiment.id, exc_info=error)
        self._failures[experiment.id] = self._failures.get(experiment.id, 0) + 1
        if self._failures[experiment.id] < _MAX_FAILURES:
            return
        self._resting[experiment.id] = self._store.experiments.get(experiment.id).sequence
        text = f"the experiment {experiment.title} cannot go on: {error}"
        self._store.activity.publish("finding", text, detail={"experiment": experiment.id})
