"""Which kinds of evidence a project has when a training went wrong, was diagnosed and mended. Shows R801-2.2."""

from __future__ import annotations

from collections.abc import Callable

from world import ATTENTION, MIXTURE, NOW, README, REPORT, SCALE, World

from contracts.enums import Role
from loops.debug import detect, open_case
from loops.runner import CaseStatus, Runner

# What this small training does not log, and what nobody brought in: a report says how to fill each.
LACKING = {
    "gradient norms", "expert load", "mixtures", "mixture changes", "evaluated data changes", "environment changes",
    "scores", "checkpoint scores", "raw outputs", "pipelines", "subsets", "stage intermediates", "documents",
    "benchmarks", "decontamination", "case work",
}  # fmt: skip


def test_a_finished_case_fills_every_kind_but_those_that_are_named(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    world.train("run", world.lay_out([REPORT, MIXTURE], [README, ATTENTION, SCALE]))
    runner = new_runner()
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    runner.start("debug", case_id)
    (proposal,) = world.store.proposals.list(investigation_id=case_id)
    world.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "looks right", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    report = world.store.completeness.report("project")
    missing = {each.kind for each in report.missing}
    assert (missing - LACKING, LACKING - missing) == (set(), set())
    assert all(each.remedy for each in report.missing)
