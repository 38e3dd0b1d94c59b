"""The work of an experiment on a run: re-runs with other settings beside one that changes nothing.

    plan       what would be run, for the person who decides
    develop    one re-run of each arm and of the control
    analyse    where the metric of each ends; after `iterate` again, twice as far
    review     what to think of it
    iterate    analyse further while the answer still changes; else ask for the next iteration, or end

Everything is a function of what the store holds, so a worker that was killed at any moment is followed by one that
asks for the same re-runs (their keys follow from their content) and finds those that are done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context_store import Store
from context_store.records import Amount, Effect, EffectRequest, Experiment, NegativeResult
from contracts.enums import EffectKind, EffectState, Stage
from contracts.evidence import EvidenceRef
from loops.dual.machine import ACTOR, Report
from loops.dual.plan import CONTROL, MAX_HORIZONS, Arm, Plan, arms_after

_FINISHED = frozenset({EffectState.DONE, EffectState.FAILED, EffectState.REFUSED})
_TAIL = 5  # of the steps of a re-run the last fifth is averaged
_FREE = Amount()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Mean of the metric over the last fifth of a re-run; `fault`: why there is none."""

    arm: Arm
    run_id: str
    value: float
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """All arms at one horizon. `best` has the smallest value; None when the control or all others failed."""

    max_step: int
    measured: tuple[Measured, ...]

    @property
    def best(self) -> Measured | None:
        control, *others = self.measured
        sound = [each for each in others if not each.fault]
        return None if control.fault or not sound else min([control, *sound], key=lambda each: each.value)

    @property
    def sentence(self) -> str:
        control = self.measured[0]
        parts = [_says(each, control) for each in self.measured]
        return f"at step {self.max_step}: " + "; ".join(parts)

    @property
    def evidence(self) -> tuple[EvidenceRef, ...]:
        return tuple(EvidenceRef(kind="run", id=each.run_id) for each in self.measured if not each.fault)


class WhatIf:
    """See the module."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def perform(self, experiment: Experiment) -> Report | None:
        """None while re-runs are under way. Raises BudgetExceeded when the next one does not fit."""
        plan = Plan.from_json(self._store.experiments.plan(experiment.id) or {})
        match experiment.stage:
            case Stage.PLAN:
                return self._plan(experiment, plan)
            case Stage.DEVELOP:
                return self._develop(experiment, plan)
            case Stage.ANALYSE:
                return self._analyse(experiment, plan)
            case Stage.REVIEW:
                return self._review(experiment, plan)
            case _:
                return self._iterate(experiment, plan)

    def _plan(self, experiment: Experiment, plan: Plan) -> Report:
        arms = self._arms(experiment, plan)
        tries = "; ".join(f"{arm.name}: {_settings(arm)}" for arm in arms)
        note = (
            f"re-run {plan.run_id} from step {plan.start_step} to {plan.max_step(0)} at {plan.code_version[:12]}, once "
            f"as it was and once for each of: {tries}; compare {plan.metric}"
        )
        return Report(after=Stage.DEVELOP, note=note, spent=_FREE, cost=self._cost(experiment, plan, 0))

    def _develop(self, experiment: Experiment, plan: Plan) -> Report | None:
        effects = self._rerun(experiment, plan, 0)
        if any(each.state not in _FINISHED for each in effects):
            return None
        done = sum(each.state is EffectState.DONE for each in effects)
        return Report(after=Stage.ANALYSE, note=f"{done} of {len(effects)} re-runs done", spent=_FREE, cost=_FREE)

    def _analyse(self, experiment: Experiment, plan: Plan) -> Report | None:
        horizon = self._horizon(experiment)
        if any(each.state not in _FINISHED for each in self._rerun(experiment, plan, horizon)):
            return None
        found = self._analysis(experiment, plan, horizon)
        return Report(after=Stage.REVIEW, note=found.sentence, spent=_FREE, cost=_FREE, evidence=found.evidence)

    def _review(self, experiment: Experiment, plan: Plan) -> Report:
        horizon = self._horizon(experiment)
        found = self._analysis(experiment, plan, horizon)
        note = f"{self._recommendation(experiment, plan, horizon)}. {found.sentence}"
        return Report(after=Stage.ITERATE, note=note, spent=_FREE, cost=_FREE, evidence=found.evidence)

    def _iterate(self, experiment: Experiment, plan: Plan) -> Report:
        horizon = self._horizon(experiment)
        best = self._analysis(experiment, plan, horizon).best
        note = self._recommendation(experiment, plan, horizon)
        if best is not None and not self._is_settled(experiment, plan, horizon) and horizon + 1 < MAX_HORIZONS:
            cost = self._cost(experiment, plan, horizon + 1)
            return Report(after=Stage.ANALYSE, note=f"{note}; look twice as far", spent=_FREE, cost=cost)
        settled = best is not None and best.arm.name != CONTROL and self._is_settled(experiment, plan, horizon)
        following = arms_after(best.arm, self._declared(plan)) if settled and best is not None else ()
        self._remember(experiment, plan, horizon)
        if following and experiment.iteration < plan.max_iterations:
            tries = "; ".join(f"{arm.name}: {_settings(arm)}" for arm in following)
            return Report(after=Stage.PLAN, note=f"{note}; next try {tries}", spent=_FREE, cost=_FREE)
        return Report(after=Stage.ENDED, note=note, spent=_FREE, cost=_FREE)

    # --- what is known ------------------------------------------------------------------------------------------

    def _arms(self, experiment: Experiment, plan: Plan, iteration: int | None = None) -> tuple[Arm, ...]:
        """Of an iteration, without the control: those of the plan, later those around the best of the one before."""
        number = experiment.iteration if iteration is None else iteration
        if number == 1:
            return plan.arms
        horizon = self._horizon(experiment, number - 1)
        best = self._analysis(experiment, plan, horizon, number - 1).best
        return arms_after(best.arm, self._declared(plan)) if best is not None else ()

    def _horizon(self, experiment: Experiment, iteration: int | None = None) -> int:
        """How often the iteration was analysed further."""
        number = experiment.iteration if iteration is None else iteration
        steps = self._store.experiments.history(experiment.id)
        further = (Stage.ITERATE, Stage.ANALYSE)
        return sum((step.before, step.after) == further and step.iteration == number for step in steps)

    def _analysis(self, experiment: Experiment, plan: Plan, horizon: int, iteration: int | None = None) -> Analysis:
        arms = (Arm(name=CONTROL, overrides={}), *self._arms(experiment, plan, iteration))
        measured = tuple(self._measured(experiment, plan, arm, horizon) for arm in arms)
        return Analysis(max_step=plan.max_step(horizon), measured=measured)

    def _measured(self, experiment: Experiment, plan: Plan, arm: Arm, horizon: int) -> Measured:
        payload = _payload(plan, arm, horizon)
        run_id = str(payload["run_id"])
        effect = self._store.effects.get(_key(experiment, payload))
        if effect.state is not EffectState.DONE or effect.result.get("reason") != "completed":
            fault = effect.message or str(effect.result.get("message", "it did not end"))
            return Measured(arm=arm, run_id=run_id, value=float("nan"), fault=fault)
        values = self._store.series.read(run_id, plan.metric).values
        tail = values[-max(1, len(values) // _TAIL) :]
        if not len(tail):
            return Measured(arm=arm, run_id=run_id, value=float("nan"), fault=f"it logged no {plan.metric}")
        return Measured(arm=arm, run_id=run_id, value=float(tail.mean()))

    def _is_settled(self, experiment: Experiment, plan: Plan, horizon: int) -> bool:
        """Two horizons in a row name the same arm."""
        if horizon == 0:
            return False
        pair = [self._analysis(experiment, plan, each).best for each in (horizon - 1, horizon)]
        return pair[0] is not None and pair[1] is not None and pair[0].arm.name == pair[1].arm.name

    def _recommendation(self, experiment: Experiment, plan: Plan, horizon: int) -> str:
        best = self._analysis(experiment, plan, horizon).best
        if best is None:
            return "cannot tell: the control, or every arm, failed"
        sure = "twice as far, too" if self._is_settled(experiment, plan, horizon) else "not looked at any further"
        if best.arm.name == CONTROL:
            return f"keep the settings ({sure})"
        return f"recommend {best.arm.name}: {_settings(best.arm)} ({sure}, one run from one checkpoint)"

    def _declared(self, plan: Plan) -> Mapping[str, Any]:
        return self._store.runs.declared(plan.run_id, plan.segment)

    # --- what is asked for and kept -----------------------------------------------------------------------------

    def _cost(self, experiment: Experiment, plan: Plan, horizon: int) -> Amount:
        """Of the re-runs that no earlier iteration has made."""
        arms = (Arm(name=CONTROL, overrides={}), *self._arms(experiment, plan))
        keys = [_key(experiment, _payload(plan, arm, horizon)) for arm in arms]
        price, count = plan.price(horizon), sum(self._store.budgets.reserved(key) is None for key in keys)
        return Amount(cpu_s=price.cpu_s * count, reruns=count, wall_s=price.wall_s * count)

    def _rerun(self, experiment: Experiment, plan: Plan, horizon: int) -> list[Effect]:
        """The re-runs of all arms, each reserved, out of what the edge reserved that led here, and requested."""
        found = []
        edge = self._store.experiments.history(experiment.id)[-1].reservation_key
        for arm in (Arm(name=CONTROL, overrides={}), *self._arms(experiment, plan)):
            payload = _payload(plan, arm, horizon)
            key = _key(experiment, payload)
            self._store.budgets.reserve(experiment.budget_id, key, plan.price(horizon), out_of=edge)
            kind = EffectKind.DIAGNOSTIC_RUN
            request = EffectRequest(key=key, kind=kind, payload=payload, investigation_id=None, actor=ACTOR)
            found.append(self._store.effects.request(request))
        return found

    def _remember(self, experiment: Experiment, plan: Plan, horizon: int) -> None:
        """What did not help, so that it is found before it is tried again."""
        found = self._analysis(experiment, plan, horizon)
        control = found.measured[0]
        for each in found.measured[1:]:
            if each.fault or control.fault or each is found.best or not each.value >= control.value:
                continue
            self._store.negatives.add(
                NegativeResult(
                    claim=f"{_settings(each.arm)} lowers {plan.metric} of {plan.run_id}",
                    intervention=f"re-run from step {plan.start_step} with {_settings(each.arm)}",
                    context=dict(each.arm.overrides), expected=f"{plan.metric} falls", observed=_says(each, control),
                    reason_class="tried", reason=f"{found.sentence} ({experiment.title})", evidence=found.evidence,
                    reopen_if="another checkpoint, longer re-runs, or other data", investigation_id=None, actor=ACTOR,
                    project_id=plan.project_id, code_version=plan.code_version, at=experiment.opened_at,
                )
            )  # fmt: skip


def _payload(plan: Plan, arm: Arm, horizon: int) -> dict[str, Any]:
    """Of `diagnostic_run`, with a run id made of its content."""
    payload: dict[str, Any] = {
        "project_id": plan.project_id,
        "source_run_id": plan.run_id,
        "source_segment": plan.segment,
        "code": {"base": plan.code_version, "revert": [], "pick": []},
        "start_checkpoint": plan.start_checkpoint,
        "start_step": plan.start_step,
        "max_step": plan.max_step(horizon),
        "overrides": dict(arm.overrides),
        "entry": plan.entry,
    }
    text = json.dumps(payload, sort_keys=True)
    return {**payload, "run_id": f"rr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"}


def _key(experiment: Experiment, payload: Mapping[str, Any]) -> str:
    return f"experiment:{experiment.id}:{payload['run_id']}"


def _settings(arm: Arm) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(arm.overrides.items()))


def _says(each: Measured, control: Measured) -> str:
    if each.fault:
        return f"{each.arm.name} failed ({each.fault})"
    if each is control or control.fault:
        return f"{each.arm.name} {each.value:.6g}"
    return f"{each.arm.name} {each.value:.6g} ({each.value - control.value:+.3g})"


def keys_of(effects: Sequence[Effect], experiment_id: str) -> list[str]:
    """Keys of an experiment's re-runs that nobody has begun."""
    own = f"experiment:{experiment_id}:"
    return [each.key for each in effects if each.key.startswith(own) and each.state is EffectState.REQUESTED]
