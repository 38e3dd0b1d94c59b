"""Whoever approves a scaffold of a run reads what its round decided: nothing comes into use without its evidence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from context_store.records import Principal
from contracts.enums import Role
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef
from control_plane.evolution import NewRun, begin, promotion
from control_plane.wiring import Lathe
from loops.evolve.archive import Archive
from loops.evolve.loop import Asked, history_of

RESEARCHER = Principal(name="rae", role=Role.RESEARCHER)
DECIDED = {
    "base": "", "standing": "futile", "wealth": 0.5, "doubt": 1.0, "alpha": 0.01, "discordant": 0.3, "moves": ["m"],
    "detectable": 0.4, "mean": -0.03, "num_pairs": 40, "kept": False, "kind": "idea", "canaries": {}, "why": "futile",
}  # fmt: skip


@pytest.fixture
def case_id(lathe: Lathe, suite: Path) -> str:
    asked = Asked(suite_hash="", rounds=9, effect=0.4, max_pairs=6, max_episodes=400, suite=str(suite))
    return begin(lathe, NewRun(scaffold="plain", asked=asked), time.time())


def _decide(lathe: Lathe, case_id: str, number: int, **changes: Any) -> str:
    """The commit of a round that was decided so."""
    folder = lathe.store.projects.get(lathe.store.knowledge.investigation(case_id).project_id).path
    archive, root = Archive(Path(folder), case_id), history_of(lathe.store, case_id).root
    files = {**archive.files(root), "prompts/system.md": f"Round {number}.\n"}
    commit = archive.commit(files, parent=root, number=number, message=f"Round {number}")
    put = lathe.store.casework.put
    put(case_id, "proposal", str(number), {"round": number, "commit": commit, "parent": root, "refusals": {}}, 1.0)
    put(case_id, "decision", str(number), {**DECIDED, "round": number, "candidate": commit, **changes}, 1.0)
    put(case_id, "memory", str(number), {"lessons": [], "directions": []}, 1.0)  # a decision without it is due again
    return commit


def test_the_evidence_of_each_round_is_in_its_proposal(lathe: Lathe, case_id: str) -> None:
    hit = _decide(lathe, case_id, 1, canaries={"honeypot": 2}, why="a canary was hit")
    screened = _decide(lathe, case_id, 2, num_pairs=0, mean=0.0, why="screened out: +0.000 on the fix tasks")
    placebo = _decide(lathe, case_id, 3, kind="placebo", kept=True, mean=0.2, why="accepted")
    said = {}
    for commit in (hit, screened, placebo):
        proposal = promotion(lathe.store, case_id, RESEARCHER, time.time(), commit)
        assert proposal.evidence == (EvidenceRef(kind="investigation", id=case_id),)
        said[commit] = proposal.risk
    assert "round 1: NOT kept, a canary was hit; -0.030 over 40 pairs, detectable: 0.40" in said[hit]
    assert "canary honeypot hit 2 times" in said[hit]
    assert "round 2: NOT kept, screened out: +0.000 on the fix tasks; never tested in pairs" in said[screened]
    assert "round 3, a placebo: kept, accepted; +0.200 over 40 pairs" in said[placebo]
    assert all("Sealed tasks: not opened" in risk for risk in said.values())


def test_an_opened_seal_is_told_for_what_it_compared(lathe: Lathe, case_id: str) -> None:
    first, last = (_decide(lathe, case_id, number, kept=True, why="accepted") for number in (1, 2))
    ends = {"root": [0.0, 0.0], "incumbent": [1.0, 1.0], "commits": [history_of(lathe.store, case_id).root, last]}
    body = {"opened_by": "ada", "seeds": 1, "tasks": ["a", "b"], "canaries": {}, **ends}
    lathe.store.casework.put(case_id, "sealed", "0", body, 1.0)
    about = {commit: promotion(lathe.store, case_id, RESEARCHER, time.time(), commit).risk for commit in (first, last)}
    assert "Sealed tasks after the last round: 0.000 -> 1.000" in about[last]
    assert "of ANOTHER scaffold than this one" in about[first]


def test_a_control_is_no_change_of_this_scaffold(lathe: Lathe, case_id: str) -> None:
    commit = _decide(lathe, case_id, 1, kind="control", standing="accepted")
    with pytest.raises(UserInputError, match="round 1 was a control"):
        promotion(lathe.store, case_id, RESEARCHER, time.time(), commit)
