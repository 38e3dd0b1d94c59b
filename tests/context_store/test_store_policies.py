"""Policies: only an admin sets them, loops act within them, everything can be halted.

Shows RM2-7.9 (rights differ by level, the ledger proves it), RM2-7.15 (kill switch, text grants nothing) and RM2-7.22
(the list of major actions).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_store_decisions import NEW, NOW, request
from training_log import make_run

from context_store import Store, open_store
from context_store.policies import MAJOR
from context_store.records import Amount, EffectRequest, Policy, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, ProposalState, Role
from contracts.errors import NotFound, RoleRequired, UserInputError


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        make_run(opened)
        opened.knowledge.open_investigation("case-1", "run-1", [], "case", at=NOW)
        yield opened


def let_act(store: Store, *kinds: EffectKind, num_effects: int = 2, cpu_s: float = 10.0) -> Policy:
    return store.policies.set_autonomy(
        "debug", AutonomyLevel.ACT, "root", Role.ADMIN, "nights", NOW,
        effects=kinds or (NEW.kind,), cpu_s=cpu_s, num_effects=num_effects,
    )  # fmt: skip


def put(store: Store, number: int = 0) -> Proposal:
    return store.proposals.put(dataclasses.replace(NEW, diff=f"change {number}"))


def diagnostic(store: Store, key: str, actor: str = "loop:debug") -> None:
    kind = EffectKind.DIAGNOSTIC_RUN
    store.effects.request(
        EffectRequest(key=key, kind=kind, payload={"run_id": key}, investigation_id="case-1", actor=actor)
    )


def claim(store: Store) -> str | None:
    effect = store.effects.claim("w", list(EffectKind), 30.0, NOW)
    return None if effect is None else effect.key


# --- who may say so


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.REVIEWER])
def test_only_an_admin_changes_a_policy(store: Store, role: Role) -> None:
    policies = store.policies
    acts = (
        lambda: policies.set_autonomy("debug", AutonomyLevel.OBSERVE, "x", role, "r", NOW),
        lambda: policies.require_four_eyes([NEW.kind], "x", role, "r", NOW),
        lambda: policies.halt("x", role, "r", NOW),
        lambda: policies.resume("x", role, "r", NOW),
        lambda: policies.revoke(1, "x", role, "r", NOW),
    )
    for act in acts:
        with pytest.raises(RoleRequired, match="may not change a policy"):
            act()
    assert policies.list() == []
    assert store.ledger.list() == []


def test_who_set_and_who_revoked_it_stays(store: Store) -> None:
    first = let_act(store)
    second = store.policies.set_autonomy("debug", AutonomyLevel.OBSERVE, "ida", Role.ADMIN, "holiday", NOW + 1)
    assert [policy.id for policy in store.policies.list(in_force=True)] == [second.id]
    assert [(p.id, p.set_by, p.revoked_by, p.revoked_at) for p in store.policies.list()] == [
        (second.id, "ida", "", None),
        (first.id, "root", "ida", NOW + 1),
    ]
    store.policies.revoke(second.id, "root", Role.ADMIN, "back", NOW + 2)
    assert store.policies.level("debug") is AutonomyLevel.PROPOSE, "the default"
    actions = [(e.actor, e.action, e.detail["reason"]) for e in reversed(store.ledger.list())]
    assert actions == [
        ("root", "policy_set:autonomy", "nights"),
        ("ida", "policy_revoked:autonomy", "another one takes its place"),
        ("ida", "policy_set:autonomy", "holiday"),
        ("root", "policy_revoked:autonomy", "back"),
    ]
    with pytest.raises(NotFound, match="no policy"):
        store.policies.revoke(second.id, "root", Role.ADMIN, "again", NOW + 3)


@pytest.mark.parametrize(
    ("level", "fields", "words"),
    [
        (AutonomyLevel.ACT, {}, "needs list"),
        (AutonomyLevel.PROPOSE, {"effects": [NEW.kind], "num_effects": 1, "cpu_s": 1.0}, "has no list"),
        (AutonomyLevel.ACT, {"effects": [NEW.kind], "num_effects": 1}, "needs CPU seconds"),
        (AutonomyLevel.ACT, {"effects": [NEW.kind], "num_effects": 1, "cpu_s": float("nan")}, "needs list"),
        (AutonomyLevel.ACT, {"effects": [EffectKind.UNDO], "num_effects": 1, "cpu_s": 1.0}, "no policy approves undo"),
        (AutonomyLevel.EVOLVE, {"effects": [EffectKind.NEXT_STAGE], "num_effects": 1}, "no policy approves next_stage"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    store: Store, level: AutonomyLevel, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(UserInputError, match=words):
        store.policies.set_autonomy("debug", level, "root", Role.ADMIN, "why", NOW, **fields)  # type: ignore[arg-type]
    with pytest.raises(UserInputError, match="reason"):
        store.policies.halt("root", Role.ADMIN, " ", NOW)


def test_the_major_actions_are_listed(store: Store) -> None:
    assert {EffectKind.START_RUN, EffectKind.RESUME_WITH_PATCH, EffectKind.PATCH_CODE} <= MAJOR
    assert frozenset(EffectKind) - {EffectKind.DIAGNOSTIC_RUN, EffectKind.CASE_WORK, EffectKind.UNDO} == MAJOR


# --- levels


@pytest.mark.parametrize("level", list(AutonomyLevel))
def test_the_same_incident_at_each_level(store: Store, level: AutonomyLevel) -> None:
    """A diagnostic and a fix: what happens to them without a person."""
    acts = level.includes(AutonomyLevel.ACT)
    budget = {"effects": [NEW.kind], "cpu_s": 10.0, "num_effects": 1} if acts else {}
    store.policies.set_autonomy("debug", level, "root", Role.ADMIN, "why", NOW, **budget)  # type: ignore[arg-type]
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=2))
    diagnostic(store, "d-1")
    assert (claim(store) == "d-1") is (level is not AutonomyLevel.OBSERVE)
    proposal = put(store)
    approval = store.proposals.approve_by_policy(proposal.id, "debug", NOW)
    request(store, proposal)
    assert (approval is not None) is (claim(store) == "e-1") is acts
    by = [entry.actor for entry in store.ledger.list(subject=f"proposal:{proposal.id}")]
    assert by == (["policy:1"] if acts else [])


def test_a_loop_that_observes_does_not_stop_persons_or_other_loops(store: Store) -> None:
    store.policies.set_autonomy("debug", AutonomyLevel.OBSERVE, "root", Role.ADMIN, "why", NOW)
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=3))
    for key, actor in (("d-1", "loop:debug"), ("d-2", "ada"), ("d-3", "loop:potential")):
        diagnostic(store, key, actor)
    assert {claim(store), claim(store), claim(store)} == {"d-2", "d-3", None}
    refused = store.effects.get("d-1")
    assert (refused.state, "may only observe" in refused.message) == (EffectState.REFUSED, True)


def test_an_approval_by_policy_names_the_person_and_holds_its_share(store: Store) -> None:
    policy = let_act(store, num_effects=4, cpu_s=10.0)
    proposal = put(store)
    approval = store.proposals.approve_by_policy(proposal.id, "debug", NOW)
    assert approval is not None
    assert (approval.policy_id, approval.comment) == (policy.id, "set by root: nights")
    assert store.proposals.get(proposal.id).decided_by == f"policy {policy.id}, set by root"
    assert store.budgets.state(policy.budget_id).used == Amount(cpu_s=2.5, reruns=1)
    request(store, proposal)
    assert claim(store) == "e-1"
    assert store.budgets.reserved("e-1") == Amount(cpu_s=2.5, reruns=1), "which the executor enforces"
    store.effects.complete("e-1", {"cpu_s": 1.0})
    assert store.budgets.state(policy.budget_id).used == Amount(cpu_s=1.0, reruns=1)


def test_a_policy_approves_nothing_else(store: Store) -> None:
    let_act(store, EffectKind.PATCH_CODE)
    proposal = put(store)
    for loop in ("debug", "potential", ""):
        assert store.proposals.approve_by_policy(proposal.id, loop, NOW) is None
    assert store.proposals.get(proposal.id).state is ProposalState.OPEN


def test_a_spent_policy_leaves_it_to_a_person(store: Store) -> None:
    let_act(store, num_effects=2)
    proposals = [put(store, number) for number in range(4)]
    granted = [store.proposals.approve_by_policy(proposal.id, "debug", NOW) is not None for proposal in proposals]
    assert granted == [True, True, False, False]
    store.proposals.approve(proposals[3].id, "ada", Role.REVIEWER, "this one", NOW)


def test_a_policy_is_not_overspent_by_many_at_once(store: Store) -> None:
    policy = let_act(store, num_effects=3)
    ids = [put(store, number).id for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        granted = list(pool.map(lambda each: store.proposals.approve_by_policy(each, "debug", NOW), ids))
    assert sum(approval is not None for approval in granted) == 3
    assert store.budgets.state(policy.budget_id).used.reruns == 3
    assert store.budgets.state(policy.budget_id).used.cpu_s <= 10.0


def test_what_a_revoked_policy_approved_is_not_carried_out(store: Store) -> None:
    policy = let_act(store)
    proposal = put(store)
    store.proposals.approve_by_policy(proposal.id, "debug", NOW)
    store.policies.revoke(policy.id, "root", Role.ADMIN, "not like this", NOW)
    request(store, proposal)
    assert claim(store) is None
    assert "was revoked" in store.effects.get("e-1").message


def test_what_a_policy_approved_and_nobody_used_goes_back(store: Store) -> None:
    policy = let_act(store)
    store.proposals.approve_by_policy(put(store).id, "debug", NOW)
    with open_store(store.url, clock=lambda: NEW.expires_at + 1) as later:
        assert [each.state for each in later.proposals.list()] == [ProposalState.EXPIRED]
        assert later.budgets.state(policy.budget_id).used == Amount()


# --- the kill switch


def test_while_halted_only_stopping_is_claimed(store: Store) -> None:
    """And afterwards everything goes on where it stood."""
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=3))
    for kind in (EffectKind.START_RUN, EffectKind.STOP_RUN, EffectKind.PAUSE_RUN, EffectKind.CHECKPOINT_RUN):
        proposal = store.proposals.put(dataclasses.replace(NEW, kind=kind))
        store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "", NOW)
        request(store, proposal, kind.value)
    diagnostic(store, "d-1")
    store.policies.halt("root", Role.ADMIN, "smoke", NOW)
    halted = store.policies.halted()
    assert halted is not None
    assert (halted.set_by, halted.reason) == ("root", "smoke")
    assert [claim(store) for _ in range(4)] == ["stop_run", "pause_run", "checkpoint_run", None]
    store.policies.resume("root", Role.ADMIN, "gone", NOW)
    assert store.policies.halted() is None
    assert [claim(store) for _ in range(3)] == ["start_run", "d-1", None]
    with pytest.raises(NotFound, match="nothing is halted"):
        store.policies.resume("root", Role.ADMIN, "", NOW)
    texts = [activity.text for activity in store.activity.after(0) if activity.kind == "approval"]
    assert [text.split(":")[0] for text in texts] == ["halted by root", "root lets everything go on"]


def test_an_effect_that_was_put_back_is_claimed_again_with_what_it_spent(store: Store) -> None:
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=3))
    diagnostic(store, "d-1")
    assert claim(store) == "d-1"
    assert not store.effects.put_back("d-1", "another worker", 1.5)
    assert store.effects.put_back("d-1", "w", 1.5)
    again = store.effects.claim("w", list(EffectKind), 30.0, NOW)
    assert again is not None
    assert (again.attempt, again.result) == (2, {"cpu_s": 1.5})
    assert store.budgets.state("case-1").reruns_used == 1
    store.effects.refuse("d-1", "not any more")
    assert store.budgets.state("case-1").cpu_s_used == 1.5, "what was spent stays spent"
