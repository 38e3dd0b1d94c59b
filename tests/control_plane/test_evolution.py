"""An evolution run through the real worker: rounds in processes of their own, a promotion that a person approves.

Shows RM2-7.23 and RM2-7.24.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from case import approve

from agents.sandbox import NamespaceSandbox
from context_store.records import Principal
from contracts.enums import InvestigationState, ProposalState, Role
from contracts.errors import EnvironmentFault, NotFound, NotPermitted, UserInputError
from control_plane.evolution import NewRun, begin, facts, promotion
from control_plane.git import Git
from control_plane.wiring import Lathe
from control_plane.worker import Feed, Worker
from loops.evolve.loop import Asked, history_of
from loops.evolve.tasks import STARTER


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    splits = {"fix": ["fix_gcd", "sh_errors"], "gate": ["fix_flatten", "sh_poll"], "sealed": ["fix_power"]}
    for names in splits.values():
        for name in names:
            shutil.copytree(STARTER / name, folder / name)
    (folder / "splits.json").write_text(json.dumps(splits))
    return folder


@pytest.fixture
def _isolated(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    try:
        NamespaceSandbox(tmp_path / "probe").close()
    except EnvironmentFault as fault:
        pytest.skip(f"this kernel does not allow the sandbox: {fault}")


def _asked(suite: Path, **changes: object) -> Asked:
    settings = {"suite_hash": "", "rounds": 2, "effect": 0.4, "max_pairs": 6, "max_episodes": 400, "suite": str(suite)}
    return Asked(**{**settings, **changes})  # type: ignore[arg-type]


def _work(lathe: Lathe, case_id: str) -> list[str]:
    said: list[str] = []

    def settled() -> bool:
        case = lathe.store.knowledge.investigation(case_id)
        waits = case.state == InvestigationState.WAITING_FOR_APPROVAL
        return case.state == InvestigationState.CLOSED or (
            waits and bool(lathe.store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id))
        )

    with Worker(lathe, name="worker-e") as worker:
        worker.run_until(settled, Feed(lathe.store, lambda each: said.append(each.text), after=0))
    return said


@pytest.mark.slow
@pytest.mark.usefixtures("_isolated")
def test_a_run_ends_with_what_was_tried_and_a_promotion_moves_the_ref(lathe: Lathe, suite: Path) -> None:
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    assert begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time()) == case_id
    said = _work(lathe, case_id)
    found = facts(lathe.store, case_id)
    assert found["rounds"] == 2
    assert any("round 2" in text for text in said)
    negatives = lathe.store.negatives.list(investigation_id=case_id)
    assert len(negatives) + len(found["kept"]) >= 1
    assert "Rounds" in lathe.store.knowledge.report(case_id)
    assert lathe.store.budgets.state(case_id).used.cpu_s > 0.0

    fork = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=9), fork=(case_id, 1)), time.time())
    assert fork != case_id
    failed = [
        body for body in found["decisions"] if not body["kept"] and found["proposals"][str(body["round"])]["moves"]
    ]
    barred = lathe.store.casework.list(fork, "barred")  # what the other run has tried in vain
    assert len(barred) <= len(failed)
    assert all(each.body["parts"] for each in barred)
    assert history_of(lathe.store, fork).decisions == history_of(lathe.store, case_id).decisions[:1]
    with pytest.raises(UserInputError, match="no round 7"):
        begin(lathe, NewRun(scaffold="plain", asked=_asked(suite), fork=(case_id, 7)), time.time())

    candidate = next(body["candidate"] for body in found["decisions"] if body["candidate"])
    principal = Principal(name="ada", role=Role.RESEARCHER)
    proposal = promotion(lathe.store, case_id, principal, time.time(), candidate)
    git = Git(Path(lathe.store.projects.get(proposal.payload["project_id"]).path))
    assert not git("for-each-ref", "refs/lathe/scaffold/plain")
    approve(lathe, proposal)
    with Worker(lathe, name="worker-p") as worker:
        worker.run_until(
            lambda: bool(git("for-each-ref", "refs/lathe/scaffold/plain")), Feed(lathe.store, print, after=0)
        )
    assert git("rev-parse", "refs/lathe/scaffold/plain") == candidate


def test_what_is_no_run_or_no_scaffold_is_refused(lathe: Lathe, suite: Path) -> None:
    with pytest.raises(UserInputError, match="no scaffold under git"):
        begin(lathe, NewRun(scaffold="/nowhere", asked=_asked(suite)), time.time())
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    with pytest.raises(UserInputError, match="no commit of"):
        promotion(lathe.store, case_id, Principal(name="ada", role=Role.RESEARCHER), time.time(), "f" * 40)
    from control_plane.evolution import open_sealed

    with pytest.raises((NotFound, NotPermitted, EnvironmentFault)):
        open_sealed(lathe, case_id, print)
