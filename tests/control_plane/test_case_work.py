"""Pieces of a case's own work: in real processes, refused or failed with a reason, never begun without a budget."""

from __future__ import annotations

import time

from case import drive
from small_project import SmallProject

from context_store.records import Amount, Effect, EffectRequest
from contracts.enums import EffectKind, EffectState
from control_plane.projects import register_project
from control_plane.wiring import Lathe

CASE = "case-own"


def _ask(lathe: Lathe, small_project: SmallProject, **fields: object) -> Effect:
    project = register_project(lathe.store, small_project.folder)
    lathe.store.knowledge.open_case(CASE, project_id=project.id, loop="imagined", title="a need", at=time.time())
    return lathe.store.effects.request(
        EffectRequest(key="w1", kind=EffectKind.CASE_WORK, payload=fields, investigation_id=CASE, actor="loop:imagined")
    )


def _ended(lathe: Lathe) -> Effect:
    executor = lathe.executor("worker-a")
    drive(executor, lambda: lathe.store.effects.get("w1").state in (EffectState.FAILED, EffectState.REFUSED))
    return lathe.store.effects.get("w1")


def test_work_that_the_loop_does_not_know_fails_with_a_reason(lathe: Lathe, small_project: SmallProject) -> None:
    _ask(lathe, small_project, work="dream", arguments={})
    lathe.store.budgets.open(CASE, Amount(cpu_s=60.0, reruns=3))
    effect = _ended(lathe)
    assert effect.state is EffectState.FAILED
    assert effect.message == "the imagined loop has no work called 'dream'"
    assert lathe.store.budgets.state(CASE).cpu_s_used > 0.0


def test_work_without_a_budget_is_refused(lathe: Lathe, small_project: SmallProject) -> None:
    _ask(lathe, small_project, work="dream")
    assert _ended(lathe).state is EffectState.REFUSED


def test_work_that_exceeds_its_reservation_is_ended(lathe: Lathe, small_project: SmallProject) -> None:
    _ask(lathe, small_project, work="dream")
    lathe.store.budgets.open(CASE, Amount(cpu_s=60.0, reruns=3))
    lathe.store.budgets.reserve(CASE, "w1", Amount(cpu_s=0.05, reruns=1))
    effect = _ended(lathe)
    assert effect.state is EffectState.REFUSED
    assert "used up the seconds" in effect.message


def test_a_payload_that_does_not_fit_names_its_field(lathe: Lathe, small_project: SmallProject) -> None:
    _ask(lathe, small_project, arguments={})
    lathe.store.budgets.open(CASE, Amount(cpu_s=60.0, reruns=3))
    assert "work" in _ended(lathe).message
