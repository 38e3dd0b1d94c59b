"""The sealed tasks of a run are opened once, at its end, by a person's approval: no loop, policy or command does it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_store.records import EffectRequest, Principal, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, ProposalState, Role
from contracts.errors import ApprovalInvalid, NotPermitted, RoleRequired, UserInputError
from control_plane.backends.metered import SpentNotes
from control_plane.case_work import work_of
from control_plane.effects import Workshop
from control_plane.effects.open_seal import OpenSeal
from control_plane.evolution import NewRun, begin, opening
from control_plane.proposing import Wish, propose, request_approved
from control_plane.wiring import Lathe
from loops.core import Conclusion, Planned
from loops.evolve.loop import Asked, EvolveLoop, asked_of

RESEARCHER = Principal(name="rae", role=Role.RESEARCHER)


@pytest.fixture
def over(lathe: Lathe, suite: Path) -> str:
    """A run whose only round is decided."""
    asked = Asked(suite_hash="", rounds=1, effect=0.4, max_pairs=6, max_episodes=400, suite=str(suite))
    case_id = begin(lathe, NewRun(scaffold="plain", asked=asked), time.time())
    body = {"round": 1, "kept": False, "num_pairs": 0, "candidate": "", "moves": [], "canaries": {}, "why": "nothing"}
    lathe.store.casework.put(case_id, "decision", "1", body, time.time())
    lathe.store.casework.put(case_id, "memory", "1", {"lessons": [], "directions": []}, time.time())
    return case_id


def test_a_last_round_that_was_cut_off_after_its_decision_is_due_again(lathe: Lathe, over: str) -> None:
    """Or the run would be closed for its loop and going on for its seal, for ever."""
    assert isinstance(EvolveLoop(lathe.store).propose(over), Conclusion)
    asked = asked_of(lathe.store, over)
    other = begin(lathe, NewRun(scaffold="plain", asked=replace(asked, seed=7)), time.time())
    body = dict(lathe.store.casework.get(over, "decision", "1").body)
    lathe.store.casework.put(other, "decision", "1", body, time.time())
    planned = EvolveLoop(lathe.store).propose(other)
    assert isinstance(planned, Planned)
    assert planned.requests[0].effect.payload["arguments"] == {"until": 1}
    with pytest.raises(NotPermitted, match="goes on"):
        opening(lathe.store, other, RESEARCHER, time.time())


def test_opening_binds_the_run_as_it_stands_and_is_asked_for_once(lathe: Lathe, over: str) -> None:
    first = opening(lathe.store, over, RESEARCHER, time.time())
    assert first.kind is EffectKind.OPEN_SEAL
    assert (first.payload["case_id"], first.payload["rounds"], first.payload["trial"]) == (over, 1, 1)
    assert opening(lathe.store, over, RESEARCHER, time.time()) == first
    lathe.store.proposals.reject(first.id, "ada", Role.REVIEWER, "wait for the other run", time.time())
    second = opening(lathe.store, over, RESEARCHER, time.time())
    assert (second.state, second.payload["trial"]) == (ProposalState.OPEN, 2)
    changed = {**first.payload, "incumbent": "f" * 40}
    wish = Wish(kind=EffectKind.OPEN_SEAL, payload=changed, title="t", risk="", verification="")
    with pytest.raises(UserInputError, match="does not stand so"):
        propose(lathe.store, wish, RESEARCHER, time.time())


def test_only_a_reviewer_allows_it(lathe: Lathe, over: str) -> None:
    store, now = lathe.store, time.time()
    proposal = opening(store, over, RESEARCHER, now)
    with pytest.raises(RoleRequired):
        store.proposals.approve(proposal.id, "rae", Role.RESEARCHER, "", now)
    with pytest.raises(UserInputError, match="no policy approves open_seal"):
        store.policies.set_autonomy(
            "evolve", AutonomyLevel.EVOLVE, "root", Role.ADMIN, "why", now,
            effects=[EffectKind.OPEN_SEAL], num_effects=1,
        )  # fmt: skip
    with pytest.raises(UserInputError, match="no work called 'seal'"):
        work_of("evolve", "seal")
    _request(lathe, proposal, "unapproved", proposal.payload)
    assert store.effects.claim("w", [EffectKind.OPEN_SEAL], 10.0, now) is None
    assert store.effects.get("unapproved").state is EffectState.REFUSED
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "", now)
    _request(lathe, proposal, "another", {**proposal.payload, "case_id": "another"})
    assert store.effects.claim("w", [EffectKind.OPEN_SEAL], 10.0, now) is None
    assert store.effects.get("another").state is EffectState.REFUSED
    assert request_approved(store, now) == 1
    assert store.effects.claim("w", [EffectKind.OPEN_SEAL], 10.0, now) is not None


def test_a_run_that_went_on_or_was_opened_is_not_opened(lathe: Lathe, over: str) -> None:
    store, now = lathe.store, time.time()
    proposal = opening(store, over, RESEARCHER, now)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "", now)
    request_approved(store, now)
    effect = store.effects.claim("w", [EffectKind.OPEN_SEAL], 10.0, now)
    assert effect is not None
    handler = OpenSeal(_workshop(lathe))
    handler.check(effect)
    store.casework.put(over, "decision", "2", _kept(), now)
    store.casework.put(over, "memory", "2", {"lessons": [], "directions": []}, now)
    with pytest.raises(ApprovalInvalid, match="not what it was"):
        handler.check(effect)
    sealed: dict[str, Any] = {"opened_by": "eve", "seeds": 1, "tasks": ["fix_power"], "root": [0.0], "incumbent": [1.0]}
    store.casework.put(over, "sealed", "0", {**sealed, "commits": ["a", "b"], "canaries": {}}, now)
    with pytest.raises(NotPermitted, match="opened by eve"):
        handler.check(effect)
    store.effects.fail(effect.key, "it failed", "", worker="w")
    with pytest.raises(NotPermitted, match="opened by eve"):
        opening(store, over, RESEARCHER, now)


def _kept() -> dict[str, Any]:
    return {"round": 2, "kept": True, "num_pairs": 0, "candidate": "c" * 40, "moves": [], "canaries": {}, "why": ""}


def _request(lathe: Lathe, proposal: Proposal, key: str, payload: Any) -> None:
    request = EffectRequest(
        key=key, kind=EffectKind.OPEN_SEAL, payload=payload, investigation_id=None, actor="person:ada",
        proposal_id=proposal.id,
    )  # fmt: skip
    lathe.store.effects.request(request)


def _workshop(lathe: Lathe) -> Workshop:
    spent = SpentNotes(folder=lathe.settings.home / "spent")
    return Workshop(store=lathe.store, worktrees=lathe.worktrees, runs_folder=lathe.settings.home / "runs", spent=spent)
