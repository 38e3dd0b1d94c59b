"""The person's decision is taken from wherever it comes first; nothing is approved by default."""

from __future__ import annotations

import threading
import time

import pytest

from context_store import Store
from context_store.records import NewProposal, Proposal
from contracts.enums import EffectKind, ProposalState, Role
from contracts.errors import UserInputError
from control_plane.demo.approval import decide
from control_plane.demo.screen import Screen


@pytest.fixture
def proposal(store: Store) -> Proposal:
    return store.proposals.put(
        NewProposal(
            investigation_id=None,
            kind=EffectKind.RESUME_WITH_PATCH,
            title="go on from step 120 without [a change]",
            payload={"run_id": "main"},
            diff="--- a/balance.py\n+++ b/balance.py\n@@ -1 +1 @@\n-x = 8\n+x = 1\n",
            base_state="commit abc",
            risk="none",
            verification="it recedes",
            evidence=(),
            expires_at=time.time() + 3600,
        )
    )


def test_yes_approves_exactly_what_is_shown(
    store: Store, proposal: Proposal, capfd: pytest.CaptureFixture[str]
) -> None:
    decide(store, Screen(), proposal, actor="somebody", yes=True, page="")
    kept = store.proposals.get(proposal.id)
    assert (kept.state, kept.decided_by) == (ProposalState.APPROVED, "somebody")
    out, err = capfd.readouterr()
    assert out == ""
    assert "without [a change]" in err
    assert "+x = 1" in err


def test_a_decision_on_the_page_is_enough(store: Store, proposal: Proposal) -> None:
    """Tests have no terminal, so the demo waits for the page alone."""
    reject = threading.Timer(
        0.3, lambda: store.proposals.reject(proposal.id, "somebody", Role.REVIEWER, "not now", time.time())
    )
    reject.start()
    assert decide(store, Screen(), proposal, actor="me", yes=False, page="http://127.0.0.1:1") == ProposalState.REJECTED


def test_nobody_to_ask_is_an_error_and_approves_nothing(store: Store, proposal: Proposal) -> None:
    with pytest.raises(UserInputError, match="nobody can be asked"):
        decide(store, Screen(), proposal, actor="me", yes=False, page="")
    assert store.proposals.get(proposal.id).state == ProposalState.OPEN
