"""A change that reads a field which bears on what departs ranks before its like. Shows R801-3.4 and R801-2.7."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import SCALE, Edit, World

from context_store import Store
from context_store.records import Project, Suspect
from contracts.enums import Verdict
from loops.debug import detect, open_case
from loops.debug.case import Case, load_case
from loops.debug.circumstances import circumstances

SHAPES = "def shown(config):\n    half = 1.0\n    return half * config.optim.router_lr\n\n\n"
SHAPES += "def told(config):\n    part = 1.0\n    return part * config.data.seq_len\n"
BASE = Edit(
    subject="idle: two shapes", path="idle.py", before="loss_offset = 0.0\n", after=f"loss_offset = 0.0\n{SHAPES}"
)
SHOWN = Edit(subject="idle: shown anew", path="idle.py", before="half = 1.0", after="half = 9.0")
TOLD = Edit(subject="idle: told anew", path="idle.py", before="part = 1.0", after="part = 9.0")


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    found = World(store=store, folder=tmp_path)
    found.train("run", found.lay_out([BASE], [SHOWN, TOLD, SCALE]))
    return found


def opened(store: Store) -> Case:
    case_id = open_case(store, "run", detect(store, "run"), 0.0)
    assert case_id is not None
    return load_case(store, case_id)


def test_the_field_that_a_change_reads_is_part_of_its_rank(world: World) -> None:
    case = opened(world.store)
    ranked = {each.factor.title.split(" ", 1)[1]: each for each in case.ranked if each.factor.commit}
    shown, told = ranked[SHOWN.subject], ranked[TOLD.subject]
    assert case.ranked[0].factor.title.endswith(SCALE.subject)
    assert shown.score > told.score, "the two differ in nothing but the field that the changed function reads"
    assert "shown reads config.optim.router_lr, and optim.router_lr bears on aux_loss_share" in shown.reason
    assert "seq_len" not in told.reason
    assert [str(each) for each in shown.fields] == ["config:run/optim.router_lr#2"]
    assert set(shown.fields) <= set(shown.evidence)


def test_evidence_of_a_field_is_stored_evidence(world: World) -> None:
    """An exclusion of such a suspect is accepted with the field among its evidence."""
    case = opened(world.store)
    shown = next(each for each in case.ranked if each.factor.title.endswith(SHOWN.subject))
    suspect = Suspect(
        investigation_id=case.investigation.id, key=shown.factor.key, cause_kind=shown.factor.cause_kind, title="t",
        commits=shown.factor.commits, evidence=shown.evidence, score=shown.score, rank=2, status=Verdict.REFUTED,
    )  # fmt: skip
    world.store.knowledge.put_suspect(suspect)
    why = world.store.why.of("suspect", f"{case.investigation.id}/{shown.factor.key}")
    assert "optim.router_lr = 0.001" in {node.title for node in why.nodes if node.kind == "config"}


def test_without_a_repository_the_ranking_goes_on_without_fields(world: World) -> None:
    world.store.projects.put(Project(id="project", path="/gone"))
    case = opened(world.store)
    assert case.ranked[0].factor.title.endswith(SCALE.subject)
    assert all(each.fields == () for each in case.ranked)


def test_the_field_that_a_change_reads_is_a_circumstance_of_its_exclusion(world: World) -> None:
    """Shows R801-2.5: with the value it had, and only for the suspect whose hunk reads it."""
    case = opened(world.store)
    keys = {each.factor.title.split(" ", 1)[1]: each.factor.key for each in case.ranked if each.factor.commit}
    shown, told = (circumstances(world.store, case, (keys[edit.subject],)).context for edit in (SHOWN, TOLD))
    assert (shown["optim.router_lr"], told["data.seq_len"]) == (1e-3, 64)
    assert "data.seq_len" not in shown
    assert "optim.router_lr" not in told
    assert "optim.router_lr" not in circumstances(world.store, case).context
