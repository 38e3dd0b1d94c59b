"""Decisions on proposals: edits take their place, changes are asked for with a reason, two reviewers where asked for.

Shows R801-2.13: each decision has who, when, the choice and the reason; nothing passes a gate by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from proposal_at_hand import NEW as BASIC
from proposal_at_hand import NOW
from training_log import make_run

from context_store import Store, open_store
from context_store.proposals import bound_hash
from context_store.records import EffectRequest, NewProposal, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, ProposalState, Role
from contracts.errors import ApprovalInvalid, RoleRequired, UserInputError

NEW = dataclasses.replace(BASIC, expires_at=NOW + 100.000001)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        make_run(opened)
        opened.knowledge.open_investigation("case-1", "run-1", [], "case", at=NOW)
        yield opened


@pytest.fixture
def proposal(store: Store) -> Proposal:
    return store.proposals.put(NEW)


def edited(**changes: object) -> NewProposal:
    return dataclasses.replace(NEW, **{"payload": {"run_id": "run-1", "overrides": {"lr": 0.01}}, **changes})


def edit(store: Store, old: Proposal, role: Role = Role.REVIEWER, **changes: object) -> Proposal:
    return store.proposals.replace(old.id, edited(**changes), "ada", role, "smaller", NOW, old.bound_hash)


def request(store: Store, proposal: Proposal, key: str = "e-1") -> None:
    store.effects.request(
        EffectRequest(
            key=key,
            kind=proposal.kind,
            payload=proposal.payload,
            investigation_id="case-1",
            actor="loop:debug",
            proposal_id=proposal.id,
        )
    )


def claimed(store: Store) -> str | None:
    effect = store.effects.claim("w", list(EffectKind), 30.0, NOW)
    return None if effect is None else effect.key


def four_eyes(store: Store) -> None:
    store.policies.require_four_eyes([NEW.kind], "root", Role.ADMIN, "costly", NOW)


# --- edits


def test_an_edit_takes_the_place_of_what_it_edits(store: Store, proposal: Proposal) -> None:
    made = edit(store, proposal)
    old = store.proposals.get(proposal.id)
    assert (old.state, old.replaced_by, old.decided_by) == (ProposalState.SUPERSEDED, made.id, "ada")
    assert (made.state, made.replaces, made.payload) == (ProposalState.OPEN, proposal.id, edited().payload)
    assert made.bound_hash != proposal.bound_hash
    assert store.proposals.current(proposal.id) == made
    (entry,) = store.ledger.list(subject=f"proposal:{proposal.id}")
    assert (entry.action, entry.detail["replaced_by"], entry.detail["comment"]) == ("superseded", made.id, "smaller")
    again = edit(store, made, payload=NEW.payload)
    assert again.id not in (proposal.id, made.id), "the way back is a proposal of its own"
    assert store.proposals.current(proposal.id).id == again.id


def test_what_was_edited_can_no_longer_be_decided_or_carried_out(store: Store, proposal: Proposal) -> None:
    made = edit(store, proposal)
    with pytest.raises(ApprovalInvalid, match="is superseded"):
        store.proposals.approve(proposal.id, "bob", Role.REVIEWER, "", NOW)
    with pytest.raises(ApprovalInvalid, match="not what was shown"):
        store.proposals.approve(made.id, "bob", Role.REVIEWER, "", NOW, bound_hash=proposal.bound_hash)
    store.proposals.approve(made.id, "bob", Role.REVIEWER, "", NOW, bound_hash=made.bound_hash)
    request(store, proposal)
    assert claimed(store) is None
    request(store, made, "e-2")
    assert claimed(store) == "e-2"


def test_an_edit_needs_a_reviewer_an_open_proposal_and_a_change(store: Store, proposal: Proposal) -> None:
    with pytest.raises(RoleRequired):
        edit(store, proposal, Role.RESEARCHER)
    with pytest.raises(UserInputError, match="changes nothing"):
        edit(store, proposal, payload=NEW.payload)
    with pytest.raises(UserInputError, match="keeps case and kind"):
        edit(store, proposal, kind=EffectKind.START_RUN)
    store.proposals.approve(proposal.id, "bob", Role.REVIEWER, "", NOW)
    with pytest.raises(ApprovalInvalid, match="is approved"):
        edit(store, proposal)


def test_changes_are_asked_for_with_a_reason(store: Store, proposal: Proposal) -> None:
    with pytest.raises(UserInputError, match="nothing says"):
        store.proposals.ask_changes(proposal.id, "ada", Role.REVIEWER, "  ", NOW)
    asked = store.proposals.ask_changes(proposal.id, "ada", Role.REVIEWER, "keep the warm-up", NOW)
    assert (asked.state, asked.comment) == (ProposalState.CHANGES_ASKED, "keep the warm-up")
    with pytest.raises(ApprovalInvalid, match="changes_asked"):
        store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "", NOW)


# --- what the hash binds


def test_the_hash_binds_the_expiry_to_the_microsecond(store: Store, proposal: Proposal) -> None:
    """Design 6: hash(diff or command, arguments, base state, expiry)."""
    content = (NEW.kind, NEW.payload, NEW.diff, NEW.base_state)
    assert bound_hash(*content, NEW.expires_at) == store.proposals.get(proposal.id).bound_hash
    assert bound_hash(*content, NEW.expires_at + 1e-3) != proposal.bound_hash
    for expires_at in (1764486000.1234567, 1764486000.0000005, 1e9 + 1 / 3):
        put = store.proposals.put(dataclasses.replace(NEW, diff=str(expires_at), expires_at=expires_at))
        store.proposals.approve(put.id, "ada", Role.REVIEWER, "", NOW, bound_hash=put.bound_hash)


def test_a_hash_seen_before_the_expiry_was_renewed_is_refused(store: Store, proposal: Proposal) -> None:
    with open_store(store.url, clock=lambda: NOW + 200) as later:
        again = later.proposals.put(dataclasses.replace(NEW, expires_at=NOW + 300))
        assert (again.id, again.state) == (proposal.id, ProposalState.OPEN)
        with pytest.raises(ApprovalInvalid, match="not what was shown"):
            later.proposals.approve(again.id, "ada", Role.REVIEWER, "", NOW + 200, bound_hash=proposal.bound_hash)


# --- four eyes


def test_the_first_of_two_approvals_allows_nothing(store: Store, proposal: Proposal) -> None:
    four_eyes(store)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "yes", NOW)
    assert store.proposals.get(proposal.id).state is ProposalState.OPEN
    request(store, proposal)
    assert claimed(store) is None
    assert "needs 2 reviewers; 1 approved" in store.effects.get("e-1").message
    store.proposals.approve(proposal.id, "bob", Role.ADMIN, "yes too", NOW)
    decided = store.proposals.get(proposal.id)
    assert (decided.state, decided.decided_by) == (ProposalState.APPROVED, "ada, bob")
    request(store, proposal, "e-2")
    assert claimed(store) == "e-2"
    assert [approval.used_by for approval in store.proposals.approvals(proposal.id)] == ["e-2", "e-2"]


@pytest.mark.parametrize("again", ["ada", "ADA"])
def test_nobody_is_two_reviewers(store: Store, proposal: Proposal, again: str) -> None:
    four_eyes(store)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "yes", NOW)
    with pytest.raises(ApprovalInvalid, match="another reviewer"):
        store.proposals.approve(proposal.id, again, Role.ADMIN, "yes", NOW)


def test_four_eyes_asked_for_later_hold_for_what_was_approved_before(store: Store, proposal: Proposal) -> None:
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "yes", NOW)
    four_eyes(store)
    request(store, proposal)
    assert claimed(store) is None
    assert "needs 2 reviewers" in store.effects.get("e-1").message


def test_one_no_ends_it(store: Store, proposal: Proposal) -> None:
    four_eyes(store)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "yes", NOW)
    store.proposals.reject(proposal.id, "bob", Role.REVIEWER, "no", NOW)
    assert [approval.used_by for approval in store.proposals.approvals(proposal.id)] == ["rejected"]
    request(store, proposal)
    assert claimed(store) is None


def test_two_at_once_are_two_and_ten_times_one_is_one(store: Store, proposal: Proposal) -> None:
    four_eyes(store)

    def approve(actor: str) -> bool:
        try:
            store.proposals.approve(proposal.id, actor, Role.REVIEWER, "", NOW)
        except ApprovalInvalid:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(approve, ["ada"] * 10)) == 1
        assert store.proposals.get(proposal.id).state is ProposalState.OPEN
        assert sum(pool.map(approve, ["bob", "eve", "dan"])) == 1
    assert len(store.proposals.approvals(proposal.id)) == 2


def test_no_policy_stands_for_two_persons(store: Store, proposal: Proposal) -> None:
    store.policies.set_autonomy(
        "debug", AutonomyLevel.ACT, "root", Role.ADMIN, "nights", NOW, effects=[NEW.kind], cpu_s=9.0, num_effects=3
    )
    four_eyes(store)
    assert store.proposals.approve_by_policy(proposal.id, "debug", NOW) is None
    assert store.effects.list(state=EffectState.RUNNING) == []
