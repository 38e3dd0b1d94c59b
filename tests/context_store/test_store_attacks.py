"""Attacks on approvals at the store: whatever is tried, nothing but exactly what was approved is handed out, once.

Shows RM2-7.15. Attacks through the graph, the log and whole processes are in tests/loops and tests/control_plane.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proposal_at_hand import NEW as BASIC
from proposal_at_hand import NOW
from training_log import make_run

from context_store import Store, open_store
from context_store.proposals import bound_hash
from context_store.records import EffectRequest, Proposal
from contracts.enums import EffectKind, EffectState, InvestigationState, ProposalState, Role
from contracts.errors import ApprovalInvalid, RoleRequired, UserInputError

PAYLOAD: dict[str, Any] = {
    "project_id": "p",
    "run_id": "run-1",
    "code": {"base": "c0ffee", "revert": ["3f2a9c"], "pick": []},
    "overrides": {"lr": 0.1},
    "start_checkpoint": "/runs/run-1/checkpoints/step-10",
    "start_step": 10,
    "max_step": 40,
    "branch": "lathe/fix-1",
}
NEW = dataclasses.replace(BASIC, payload=PAYLOAD, base_state="commit c0ffee, checkpoint 77")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        make_run(opened)
        for case in ("case-1", "case-2"):
            opened.knowledge.open_investigation(case, "run-1", [], case, at=NOW)
        yield opened


@pytest.fixture
def approved(store: Store) -> Proposal:
    proposal = store.proposals.put(NEW)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "yes", NOW, proposal.bound_hash)
    return proposal


def request(store: Store, proposal: Proposal, key: str = "e-1", **changes: Any) -> None:
    fields: dict[str, Any] = {"kind": proposal.kind, "payload": proposal.payload, "investigation_id": "case-1"}
    fields |= {"actor": "loop:debug", "proposal_id": proposal.id}
    store.effects.request(EffectRequest(key=key, **{**fields, **changes}))


def claim(store: Store, now: float = NOW, worker: str = "w") -> str | None:
    effect = store.effects.claim(worker, list(EffectKind), 30.0, now)
    return None if effect is None else effect.key


def changed(*path: str, to: Any) -> dict[str, Any]:
    """The payload with one field otherwise."""
    payload: dict[str, Any] = copy.deepcopy(PAYLOAD)
    place = payload
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return payload


OTHER_PAYLOADS = [
    changed("run_id", to="run-2"),
    changed("code", "base", to="deadbeef"),
    changed("code", "revert", to=[]),
    changed("code", "revert", to=["3f2a9c", "3f2a9c"]),
    changed("code", "pick", to=["evil"]),
    changed("overrides", "lr", to=0.1000001),
    changed("overrides", "lr", to="0.1"),
    changed("overrides", "extra", to=1),
    changed("overrides", to={}),
    changed("start_checkpoint", to="/runs/run-1/checkpoints/../../../etc"),
    changed("start_step", to=0),
    changed("start_step", to=10.0),
    changed("max_step", to=None),
    changed("max_step", to=10**9),
    changed("branch", to="main"),
    changed("branch", to="lathe/../main"),
    changed("approved", to=True),
    {},
]


@pytest.mark.parametrize("payload", OTHER_PAYLOADS)
def test_other_arguments_than_approved(store: Store, approved: Proposal, payload: dict[str, Any]) -> None:
    request(store, approved, payload=payload)
    assert claim(store) is None
    assert store.effects.get("e-1").state is EffectState.REFUSED
    assert [approval.used_by for approval in store.proposals.approvals(approved.id)] == [""], "it is not lost either"


@pytest.mark.parametrize(
    "kind", sorted(set(EffectKind) - {NEW.kind, EffectKind.DIAGNOSTIC_RUN, EffectKind.UNDO, EffectKind.NEXT_STAGE})
)
def test_another_kind_than_approved(store: Store, approved: Proposal, kind: str) -> None:
    request(store, approved, kind=EffectKind(kind))
    assert claim(store) is None


@pytest.mark.parametrize("case", ["case-2", None])
def test_another_case_than_approved(store: Store, approved: Proposal, case: str | None) -> None:
    request(store, approved, investigation_id=case)
    assert claim(store) is None
    assert "another case" in store.effects.get("e-1").message


@pytest.mark.parametrize("proposal_id", ["pr-none", "", "pr-%", "' OR 1=1 --"])
def test_a_proposal_that_is_not_there(store: Store, approved: Proposal, proposal_id: str) -> None:
    with pytest.raises(Exception, match=r"not stored|not present"):
        request(store, approved, proposal_id=proposal_id)
    assert claim(store) is None


@pytest.mark.parametrize("key", ["", " ", *ProposalState, "approval:1", "budget:case-1", "edge:x:0"])
def test_a_key_that_means_something_else(store: Store, approved: Proposal, key: str) -> None:
    """Used approvals and reservations are marked with keys: none may pass for another's, or for none."""
    with pytest.raises(UserInputError, match="no key of an effect"):
        request(store, approved, key)


def test_replay(store: Store, approved: Proposal) -> None:
    """Under ten other keys, and under the same one once it is over."""
    for number in range(10):
        request(store, approved, f"e-{number}")
    assert claim(store) == "e-0"
    assert claim(store) is None
    store.effects.complete("e-0", {})
    request(store, approved, "e-0")
    assert claim(store) is None
    assert store.proposals.put(NEW).state is ProposalState.APPROVED
    request(store, approved, "e-late")
    assert claim(store) is None


@pytest.mark.parametrize("seed", range(3))
def test_parallel_double_use(store: Store, approved: Proposal, seed: int) -> None:
    for number in range(12):
        request(store, approved, f"e-{number}")
    with ThreadPoolExecutor(12) as pool:
        keys = [key for key in pool.map(lambda n: claim(store, worker=f"w-{n}"), range(12)) if key]
    assert len(keys) == 1


@pytest.mark.parametrize("late_s", [0.0, 1e-6, 1.0, 1e6])
def test_expired(store: Store, approved: Proposal, late_s: float) -> None:
    request(store, approved)
    assert claim(store, now=NEW.expires_at + late_s) is None
    assert "expired" in store.effects.get("e-1").message
    fresh = store.proposals.put(dataclasses.replace(NEW, diff="other"))
    with pytest.raises(ApprovalInvalid, match="expired"):
        store.proposals.approve(fresh.id, "ada", Role.ADMIN, "", NEW.expires_at + late_s)


@pytest.mark.parametrize(
    "decide",
    [
        lambda s, p, r: s.proposals.approve(p.id, "eve", r, "", NOW),
        lambda s, p, r: s.proposals.reject(p.id, "eve", r, "", NOW),
        lambda s, p, r: s.proposals.ask_changes(p.id, "eve", r, "please", NOW),
        lambda s, p, r: s.proposals.replace(
            p.id, dataclasses.replace(NEW, diff="evil"), "eve", r, "", NOW, p.bound_hash
        ),
    ],
)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_wrong_role(store: Store, decide: Callable[[Store, Proposal, Role], object], role: Role) -> None:
    proposal = store.proposals.put(NEW)
    with pytest.raises(RoleRequired):
        decide(store, proposal, role)
    assert store.proposals.get(proposal.id) == proposal


FORGED = [
    "",
    "0" * 64,
    "approved",
    bound_hash(NEW.kind, NEW.payload, "evil", NEW.base_state, NEW.expires_at),
    bound_hash(NEW.kind, {}, NEW.diff, NEW.base_state, NEW.expires_at),
    bound_hash(EffectKind.START_RUN, NEW.payload, NEW.diff, NEW.base_state, NEW.expires_at),
    bound_hash(NEW.kind, NEW.payload, NEW.diff, "newer", NEW.expires_at),
    bound_hash(NEW.kind, NEW.payload, NEW.diff, NEW.base_state, NEW.expires_at + 1e6),
]


@pytest.mark.parametrize("forged", FORGED)
def test_forged_hash(store: Store, forged: str) -> None:
    proposal = store.proposals.put(NEW)
    for decide in (store.proposals.approve, store.proposals.reject):
        with pytest.raises(ApprovalInvalid, match="not what was shown"):
            decide(proposal.id, "ada", Role.REVIEWER, "", NOW, bound_hash=forged)


@pytest.mark.parametrize("field", ["diff", "base_state", "payload", "expires_at"])
def test_a_proposal_put_again_with_another_content_keeps_no_approval(
    store: Store, approved: Proposal, field: str
) -> None:
    other = {"diff": "evil", "base_state": "newer", "payload": {**PAYLOAD, "max_step": 99}, "expires_at": NOW + 1e6}
    again = store.proposals.put(dataclasses.replace(NEW, **{field: other[field]}))
    if field == "expires_at":
        assert store.proposals.get(approved.id).expires_at == NEW.expires_at, "nothing is prolonged"
        return
    assert again.state is ProposalState.OPEN
    request(store, again)
    assert claim(store) is None


# --- undo misuse


def undo(store: Store, key: str = "u-1", case: str | None = "case-1", **payload: Any) -> EffectState:
    request = EffectRequest(
        key=key, kind=EffectKind.UNDO, payload=payload or {"effect": "e-1"}, investigation_id=case, actor="loop:debug"
    )
    store.effects.request(request)
    claim(store)
    return store.effects.get(key).state


@pytest.fixture
def done(store: Store, approved: Proposal) -> Proposal:
    request(store, approved)
    assert claim(store) == "e-1"
    store.effects.complete("e-1", {})
    return approved


def test_an_undo_is_possible_once(store: Store, done: Proposal) -> None:
    assert undo(store) is EffectState.RUNNING
    store.effects.complete("u-1", {})
    assert undo(store, "u-2") is EffectState.REFUSED
    assert undo(store, "u-3", effect="u-1") is EffectState.REFUSED, "nor is an undo undone"


@pytest.mark.parametrize(
    ("case", "payload"),
    [
        ("case-2", {"effect": "e-1"}),
        (None, {"effect": "e-1"}),
        ("case-1", {"effect": "e-1", "again": 1}),
        ("case-1", {"effect": "e-none"}),
        ("case-1", {"effects": "e-1"}),
        ("case-1", {"effect": ["e-1"]}),
        ("case-1", {"effect": "E-1"}),
    ],
)
def test_an_undo_of_what_is_not_its_own(
    store: Store, done: Proposal, case: str | None, payload: dict[str, Any]
) -> None:
    assert undo(store, case=case, **payload) is EffectState.REFUSED


def test_an_undo_after_the_case_was_closed(store: Store, done: Proposal) -> None:
    """What held and was closed is nobody's to take back without being asked."""
    store.knowledge.set_investigation("case-1", state=InvestigationState.CLOSED)
    assert undo(store) is EffectState.REFUSED


def test_an_undo_of_what_failed_or_runs(store: Store, approved: Proposal) -> None:
    request(store, approved)
    assert undo(store) is EffectState.REQUESTED, "the effect itself was claimed first"
    claim(store)
    assert store.effects.get("u-1").state is EffectState.REFUSED
    store.effects.fail("e-1", "no", "")
    assert undo(store, "u-2") is EffectState.REFUSED
