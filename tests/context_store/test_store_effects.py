"""Approvals bind content and are used once; effects happen once; budgets hold. Shows R801-2.13."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from proposal_at_hand import NEW as BASIC
from proposal_at_hand import NOW
from training_log import make_run

from context_store import Store, open_store
from context_store.records import Amount, EffectRequest, Proposal
from contracts.enums import EffectKind, EffectState, ProposalState, Role
from contracts.errors import ApprovalInvalid, BudgetExceeded, NotFound, RoleRequired, UserInputError

PAYLOAD = {"run_id": "run-1", "code": {"base": "c0ffee", "revert": ["3f2a9c"]}, "overrides": {"clip": float("inf")}}
NEW = dataclasses.replace(BASIC, payload=PAYLOAD)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store whose clock stands at NOW, with an open case `case-1`."""
    with open_store(database_url, clock=lambda: NOW) as opened:
        make_run(opened)
        opened.knowledge.open_investigation("case-1", "run-1", [], "case", at=NOW)
        yield opened


@pytest.fixture
def proposal(store: Store) -> Proposal:
    return store.proposals.put(NEW)


def resume(proposal: Proposal, key: str = "e-1", **more: object) -> EffectRequest:
    fields: dict[str, object] = {"kind": proposal.kind, "payload": proposal.payload, "investigation_id": "case-1"}
    fields |= {"actor": "debug loop", "proposal_id": proposal.id}
    return EffectRequest(key=key, **fields | more)  # type: ignore[arg-type]


def diagnostic(key: str) -> EffectRequest:
    return EffectRequest(
        key=key,
        kind=EffectKind.DIAGNOSTIC_RUN,
        payload={"run_id": key},
        investigation_id="case-1",
        actor="debug loop",
    )


def approve(store: Store, proposal: Proposal, at: float = NOW) -> None:
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "looks right", at)


def claim(store: Store, worker: str = "w-1", now: float = NOW) -> str | None:
    effect = store.effects.claim(worker, list(EffectKind), 30.0, now)
    return None if effect is None else effect.key


# --- proposals


def test_the_same_content_is_the_same_proposal(store: Store, proposal: Proposal) -> None:
    reordered = dict(reversed(list(PAYLOAD.items())))
    assert store.proposals.put(dataclasses.replace(NEW, payload=reordered)) == proposal
    other = store.proposals.put(dataclasses.replace(NEW, diff="-a\n+c\n"))
    assert other.id != proposal.id
    assert other.bound_hash != proposal.bound_hash
    assert proposal.payload == PAYLOAD
    assert [entry.id for entry in store.proposals.list(ProposalState.OPEN)] == sorted([proposal.id, other.id])


def test_a_decision_records_who_when_why_and_the_evidence(store: Store, proposal: Proposal) -> None:
    approve(store, proposal)
    decided = store.proposals.get(proposal.id)
    assert (decided.state, decided.decided_by, decided.comment) == (ProposalState.APPROVED, "ada", "looks right")
    (entry,) = store.ledger.list(subject=f"proposal:{proposal.id}")
    assert (entry.actor, entry.action, entry.at, entry.evidence) == ("ada", "approved", NOW, NEW.evidence)
    assert entry.detail["bound_hash"] == proposal.bound_hash


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_below_reviewer_nobody_decides(store: Store, proposal: Proposal, role: Role) -> None:
    for decide in (store.proposals.approve, store.proposals.reject):
        with pytest.raises(RoleRequired):
            decide(proposal.id, "bob", role, "", NOW)
    assert store.proposals.approvals(proposal.id) == []
    assert store.proposals.get(proposal.id).state is ProposalState.OPEN


def test_a_decided_expired_or_changed_proposal_cannot_be_decided(store: Store, proposal: Proposal) -> None:
    with pytest.raises(ApprovalInvalid, match="not what was shown"):
        store.proposals.approve(proposal.id, "ada", Role.ADMIN, "", NOW, bound_hash="something else")
    with pytest.raises(ApprovalInvalid, match="expired"):
        approve(store, proposal, at=NOW + 100)
    with psycopg.connect(store.url) as connection:
        connection.execute("UPDATE proposal SET diff = '-a +evil'")
    with pytest.raises(ApprovalInvalid, match="not what was shown"):
        approve(store, proposal)
    rejected = store.proposals.put(dataclasses.replace(NEW, diff="other"))
    assert store.proposals.reject(rejected.id, "ada", Role.REVIEWER, "no", NOW).state is ProposalState.REJECTED
    with pytest.raises(ApprovalInvalid, match="is rejected"):
        approve(store, rejected)
    with pytest.raises(NotFound):
        store.proposals.approve("pr-none", "ada", Role.ADMIN, "", NOW)


def test_an_expired_proposal_can_be_made_again(store: Store, proposal: Proposal) -> None:
    approve(store, proposal)
    later = open_store(store.url, clock=lambda: NOW + 200)
    assert later.proposals.get(proposal.id).state is ProposalState.EXPIRED
    again = later.proposals.put(dataclasses.replace(NEW, expires_at=NOW + 300))
    assert (again.id, again.state) == (proposal.id, ProposalState.OPEN)
    approve(later, again, at=NOW + 200)
    later.effects.request(resume(again))
    assert claim(later, now=NOW + 210) == "e-1"
    later.close()


# --- effects


def test_an_effect_is_requested_once(store: Store, proposal: Proposal) -> None:
    first = store.effects.request(resume(proposal))
    assert store.effects.request(resume(proposal)) == first
    assert first.state is EffectState.REQUESTED
    with pytest.raises(UserInputError, match="another content"):
        store.effects.request(resume(proposal, payload={"run_id": "run-2"}))


def test_an_approval_is_used_up_by_one_effect(store: Store, proposal: Proposal) -> None:
    approve(store, proposal)
    store.effects.request(resume(proposal, "e-1"))
    store.effects.request(resume(proposal, "e-2"))
    assert claim(store) == "e-1"
    assert claim(store) is None
    refused = store.effects.get("e-2")
    assert (refused.state, refused.message) == (
        EffectState.REFUSED,
        f"proposal {proposal.id} has no unused approval",
    )
    assert refused.remedy
    assert [approval.used_by for approval in store.proposals.approvals(proposal.id)] == ["e-1"]
    with pytest.raises(ApprovalInvalid):
        approve(store, proposal)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (None, "no unused approval"),
        ("UPDATE effect SET payload = '{}'", "another content"),
        ("UPDATE proposal SET diff = 'evil'", "another content"),
        ("UPDATE proposal SET base_state = 'newer'", "another content"),
        ("UPDATE approval SET expires_at = to_timestamp(9999)", "expired"),
        ("UPDATE approval SET bound_hash = 'guessed'", "another content"),
    ],
)
def test_nothing_runs_without_an_approval_of_exactly_this(
    store: Store, proposal: Proposal, spoil: str | None, reason: str
) -> None:
    if spoil is not None:
        approve(store, proposal)
    store.effects.request(resume(proposal))
    with psycopg.connect(store.url) as connection:
        connection.execute(spoil or "SELECT 1")
    assert claim(store) is None
    effect = store.effects.get("e-1")
    assert effect.state is EffectState.REFUSED
    assert reason in effect.message


def test_an_effect_without_a_proposal_is_refused(store: Store, proposal: Proposal) -> None:
    store.effects.request(resume(proposal, proposal_id=None))
    assert claim(store) is None
    assert "has no proposal" in store.effects.get("e-1").message


def test_parallel_workers_get_every_effect_once(store: Store, proposal: Proposal) -> None:
    """Ten effects want the same approval, ten need none: one and ten are claimed."""
    approve(store, proposal)
    store.budgets.open("case-1", Amount(cpu_s=100.0, reruns=20))
    for number in range(10):
        store.effects.request(resume(proposal, f"e-{number}"))
        store.effects.request(diagnostic(f"d-{number}"))

    def work(worker: int) -> list[str]:
        claimed = []
        while (key := claim(store, f"w-{worker}")) is not None:
            claimed.append(key)
        return claimed

    with ThreadPoolExecutor(8) as pool:
        keys = [key for claimed in pool.map(work, range(8)) for key in claimed]
    assert len([key for key in keys if key.startswith("e")]) == 1
    assert sorted(key for key in keys if key.startswith("d")) == [f"d-{number}" for number in range(10)]


def test_a_lease_that_ran_out_is_taken_over_with_its_used_approval(store: Store, proposal: Proposal) -> None:
    approve(store, proposal)
    store.effects.request(resume(proposal))
    assert claim(store, "w-1") == "e-1"
    assert claim(store, "w-2", now=NOW + 29) is None
    assert store.effects.heartbeat("e-1", "w-1", 30.0, NOW + 29)
    assert claim(store, "w-2", now=NOW + 58) is None
    taken = store.effects.claim("w-2", list(EffectKind), 30.0, NOW + 200)
    assert taken is not None
    assert (taken.key, taken.worker, taken.attempt) == ("e-1", "w-2", 2)
    assert not store.effects.heartbeat("e-1", "w-1", 30.0, NOW + 201)
    assert store.effects.complete("e-1", {"segment": 1}, worker="w-1").state is EffectState.RUNNING
    done = store.effects.complete("e-1", {"segment": 2}, worker="w-2")
    assert (done.state, done.result, done.finished_at) == (EffectState.DONE, {"segment": 2}, NOW)
    assert store.effects.fail("e-1", "too late", "") == done
    assert claim(store, now=NOW + 999) is None


def test_failed_and_refused_effects_say_why(store: Store) -> None:
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=2))
    for key in ("d-1", "d-2"):
        store.effects.request(diagnostic(key))
    assert claim(store) == "d-1"
    failed = store.effects.fail("d-1", "the patch does not apply", "choose another base")
    refused = store.effects.refuse("d-2", "policy", "ask")
    assert [entry.key for entry in store.effects.list(state=EffectState.FAILED)] == ["d-1"]
    assert (failed.message, failed.remedy) == ("the patch does not apply", "choose another base")
    assert (refused.state, refused.message) == (EffectState.REFUSED, "policy")


# --- budgets


def test_a_diagnostic_needs_an_open_budget_that_is_not_used_up(store: Store) -> None:
    store.effects.request(diagnostic("d-1"))
    assert claim(store) is None
    assert "no budget is open" in store.effects.get("d-1").message
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=4))
    store.effects.request(diagnostic("d-2"))
    assert claim(store) == "d-2"
    store.effects.complete("d-2", {"cpu_s": 2.5})
    state = store.budgets.state("case-1")
    assert (state.cpu_s_used, state.reruns_used) == (2.5, 1), "counted although nobody reserved"
    store.budgets.reserve("case-1", "d-3", Amount(cpu_s=7.5, reruns=1))
    for key in ("d-3", "d-4"):
        store.effects.request(diagnostic(key))
    assert claim(store) == "d-3", "its own reservation does not stand in its way"
    assert claim(store) is None
    assert "used up" in store.effects.get("d-4").message


def test_a_budget_is_reserved_before_and_settled_after(store: Store) -> None:
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=3))
    assert store.budgets.open("case-1", Amount(cpu_s=1e9, reruns=1000)).cpu_s == 10.0, (
        "nothing widens a budget afterwards"
    )
    store.budgets.reserve("case-1", "a", Amount(cpu_s=6.0, reruns=1))
    store.budgets.reserve("case-1", "a", Amount(cpu_s=6.0, reruns=1))
    with pytest.raises(BudgetExceeded, match=r"4\.0 CPU s") as caught:
        store.budgets.reserve("case-1", "b", Amount(cpu_s=5.0, reruns=1))
    assert caught.value.remedy
    store.budgets.settle("a", cpu_s=2.0)
    store.budgets.reserve("case-1", "b", Amount(cpu_s=5.0, reruns=1))
    with pytest.raises(BudgetExceeded):
        store.budgets.reserve("case-1", "c", Amount(cpu_s=0.0, reruns=2))
    state = store.budgets.state("case-1")
    assert (state.cpu_s_used, state.reruns_used, state.cpu_s_left, state.reruns_left) == (7.0, 2, 3.0, 1)
    with pytest.raises(NotFound):
        store.budgets.settle("x", cpu_s=1.0)
    with pytest.raises(NotFound):
        store.budgets.reserve("x", "x", Amount(cpu_s=1.0, reruns=1))


def test_concurrent_reservations_never_overspend(store: Store, database_url: str) -> None:
    store.budgets.open("case-1", Amount(cpu_s=10.0, reruns=100))
    second = open_store(database_url)

    def reserve(number: int) -> bool:
        try:
            (store if number % 2 else second).budgets.reserve("case-1", f"k-{number}", Amount(cpu_s=1.5, reruns=1))
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        granted = sum(pool.map(reserve, range(30)))
    second.close()
    assert granted == 6
    assert store.budgets.state("case-1").cpu_s_used == 9.0
