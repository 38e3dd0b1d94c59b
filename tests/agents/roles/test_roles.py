"""Hypothesis, critic and reporter: by rules, and with a model whose unsupported claims are removed and counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doors import NewDoor, openai_model
from scripted_server import ScriptedServer, Turn

from agents import guidance
from agents.chat import RULES
from agents.roles import Colleague, Critic, Hypothesis, Reporter, order_of, withheld
from agents.roles.grounding import exists
from agents.roles.opinion import Opinion, ask
from agents.roles.reporter import grounded
from benchmarks.agent_parts.stored_case import CASE, NOW, OTHER, RUN, Stored
from context_store import Store
from context_store.records import Diagnostic
from contracts.enums import DiagnosticKind, MemoryKind, Scope, Verdict
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef

ROUTER = "suspect:case-1/launch:optim.router.lr"


def rerun(store: Store, kind: DiagnosticKind, measure: float, suspect: str = "") -> None:
    store.knowledge.put_diagnostic(
        Diagnostic(
            investigation_id=CASE, key=f"d-{kind}-{suspect}", kind=kind, label=kind, run_id=OTHER, measure=measure,
            suspect_keys=(suspect,) if suspect else (), effect_key=f"e-{kind}-{suspect}", reading="read",
        )
    )  # fmt: skip


def test_without_a_model_hypotheses_are_the_stored_ranking(still_store: Store, stored: Stored) -> None:
    opinion = ask(Hypothesis(still_store), None, CASE)
    assert (opinion.brain, opinion.removed) == (RULES, 0)
    assert order_of(opinion, CASE) == tuple(each.key for each in still_store.knowledge.suspects(CASE))
    assert all(exists(still_store, ref) for each in opinion.statements for ref in each.evidence)
    assert Opinion.load(opinion.dump()) == opinion


def test_a_model_orders_suspects_by_cited_reasons_only(still_store: Store, stored: Stored, new_door: NewDoor) -> None:
    balance = f"suspect:case-1/commit:{stored.commits[2]}"
    text = (
        f"The router learning rate optim.router.lr went from 0.01 to 0.02 when resumed [{ROUTER}]. "
        f"The balance commit keep less of the penalty comes next, the revert cures [{balance}]. "
        "The data are bad. The tokenizer did it [suspect:case-1/commit:abc]."
    )
    with ScriptedServer([Turn(text=text)]) as server:
        opinion = ask(Hypothesis(still_store), new_door(openai_model(server)), CASE)
    assert order_of(opinion, CASE) == ("launch:optim.router.lr", f"commit:{stored.commits[2]}")
    assert (opinion.removed, opinion.claimed, opinion.removed_share) == (2, 4, 0.5)
    assert opinion.brain == "openai/scripted"
    shown = server.requests[0]["messages"][1]["content"]
    assert shown.startswith("Data from the store")
    assert ROUTER in shown


@pytest.mark.parametrize("turn", [Turn(status=400), Turn(text="I feel that it was the data.")])
def test_a_model_that_fails_leaves_the_rules(still_store: Store, stored: Stored, new_door: NewDoor, turn: Turn) -> None:
    with ScriptedServer([turn]) as server:
        opinion = ask(Hypothesis(still_store), new_door(openai_model(server)), CASE)
    assert opinion.brain == RULES
    assert len(opinion.statements) == 3
    assert opinion.notes
    assert (opinion.removed, opinion.claimed) == ((0, 0) if turn.status == 400 else (1, 1))


def test_a_suggestion_orders_suspects_and_a_person_overrides_it(
    still_store: Store, stored: Stored, new_door: NewDoor
) -> None:
    with ScriptedServer([Turn(text=f"The router learning rate optim.router.lr was resumed [{ROUTER}].")]) as server:
        door = new_door(openai_model(server))
        colleague = Colleague(still_store, lambda case_id: door, clock=lambda: NOW)
        colleague.suggest_order(CASE)
        colleague.suggest_order(CASE)
    assert len(server.requests) == 1, "once a case"
    keys = [each.key for each in still_store.knowledge.suspects(CASE)]

    def order() -> list[str]:
        given = [each for each in guidance.entries(still_store, CASE) if guidance.is_guidance(each)]
        return sorted(keys, key=guidance.sum_up(reversed(given)).place)

    assert order() == [keys[1], keys[0], keys[2]]
    guidance.give(still_store, CASE, guidance.Word.FIRST, keys[2], actor="ada", at=NOW)
    assert order() == [keys[2], keys[1], keys[0]]
    guidance.give(still_store, CASE, guidance.Word.EXCLUDE, keys[1], actor="ada", at=NOW)
    assert order() == [keys[2], keys[0], keys[1]]


def test_a_proof_that_lacks_something_is_withheld(still_store: Store, stored: Stored) -> None:
    verdict = still_store.knowledge.verdicts(CASE)[0]
    lacking = withheld(still_store, verdict)
    assert lacking.verdict is Verdict.CANNOT_TELL
    assert "no replay was run" in lacking.statement
    for kind, measure in ((DiagnosticKind.REPLAY, 1.0), (DiagnosticKind.CONTROL, 0.0)):
        rerun(still_store, kind, measure)
    assert withheld(still_store, verdict) == verdict
    for broken in (
        replace(verdict, evidence=(EvidenceRef(kind="run", id="rr-nothing"),)),
        replace(verdict, scope=Scope.OBSERVED),
        replace(verdict, suspect_keys=("commit:abc",)),
    ):
        assert withheld(still_store, broken).verdict is Verdict.CANNOT_TELL
    honest = replace(verdict, verdict=Verdict.CANNOT_TELL, scope=Scope.OBSERVED)
    assert withheld(still_store, honest) == honest, "nothing becomes stronger"


def test_the_critic_finds_what_the_verdict_does_not_mention(still_store: Store, stored: Stored) -> None:
    for kind, measure in ((DiagnosticKind.REPLAY, 1.0), (DiagnosticKind.CONTROL, 0.0)):
        rerun(still_store, kind, measure)
    assert "no innocent change" in " ".join(each.text for each in ask(Critic(still_store), None, CASE).statements)
    rerun(still_store, DiagnosticKind.PLACEBO, 0.98, "launch:optim.router.lr")
    (said,) = ask(Critic(still_store), None, CASE).statements
    assert said.text.startswith("no objection to 'proven'")
    rerun(still_store, DiagnosticKind.REVERT, 0.1, "launch:optim.router.lr")
    (said,) = ask(Critic(still_store), None, CASE).statements
    assert said.text.startswith("leaving out launch:optim.router.lr cured too")


def test_a_review_is_asked_for_once_and_a_model_takes_no_objection_away(
    still_store: Store, stored: Stored, new_door: NewDoor
) -> None:
    text = f"No objection, the verdict is proven [verdict:{stored.verdict_id}]."
    with ScriptedServer([Turn(text=text)]) as server:
        door = new_door(openai_model(server))
        section = Colleague(still_store, lambda case_id: door, clock=lambda: NOW).review(CASE)
    again = Colleague(still_store, clock=lambda: NOW).review(CASE)
    assert again == section
    assert "no replay was run" in section
    assert "By openai/scripted" in section
    (entry,) = still_store.ledger.list(subject=f"verdict:{stored.verdict_id}")
    assert (entry.actor, entry.action) == ("agent:critic", "criticise")


def test_a_report_has_plots_and_only_claims_that_exist(still_store: Store, stored: Stored) -> None:
    with pytest.raises(NotFound):
        Reporter(still_store).report(CASE)
    hostile = "- <script>alert(1)</script> ![x](http://evil.example/x.png) (`run:run-7`)"
    lines = ["# The case", f"- it departs (`anomaly:{stored.anomaly_id}`)", "- invented (`run:rr-404`)", hostile]
    still_store.knowledge.put_report(CASE, "\n".join(lines))
    found = Reporter(still_store).report(CASE, prefix="case")
    assert "it departs" in found.markdown
    assert "invented" not in found.markdown
    assert "invented" not in found.html
    assert (found.removed, found.brain) == (1, RULES)
    assert found.removed_share == pytest.approx(1 / found.claimed)
    assert f"1 of {found.claimed} claims were removed" in found.html
    assert "![max_vio/layers.1 of run-7](case-1.svg)" in found.markdown
    (plot,) = found.plots
    assert plot.svg.startswith("<svg")
    assert plot.svg in found.html
    assert "<script>" not in found.html
    assert Reporter(still_store).report(CASE, prefix="case") == found, "the same data give the same bytes"


def test_a_summary_by_a_model_is_checked(still_store: Store, stored: Stored, new_door: NewDoor) -> None:
    still_store.knowledge.put_report(CASE, "# The case\n")
    text = f"The balance commit causes it [verdict:{stored.verdict_id}]. Everybody agrees."
    with ScriptedServer([Turn(text=text)]) as server:
        found = Reporter(still_store).report(CASE, new_door(openai_model(server)))
    assert "The balance commit causes it" in found.markdown
    assert "Everybody" not in found.markdown
    assert (found.removed, found.claimed, found.brain) == (1, 2, "openai/scripted")


@pytest.mark.parametrize(
    "ref", ["run:run-7", "verdict:1", "series:run-7/max_vio%2Flayers.1#41..44", "anomaly:1", "investigation:case-1"]
)
def test_what_is_stored_exists(still_store: Store, stored: Stored, ref: str) -> None:
    assert exists(still_store, EvidenceRef.parse(ref))


@pytest.mark.parametrize("ref", ["run:run-99", "verdict:99", "memory:1", "negative:x", "commit:abc", "note:1"])
def test_what_is_not_stored_does_not(still_store: Store, stored: Stored, ref: str) -> None:
    assert not exists(still_store, EvidenceRef.parse(ref))


def test_a_memory_is_evidence_while_it_holds(still_store: Store, stored: Stored) -> None:
    kept = still_store.memory.remember(
        "seeds", "five seeds", kind=MemoryKind.CONVENTION, evidence=(EvidenceRef(kind="run", id=RUN),), author="ada",
        at=NOW,
    )  # fmt: skip
    ref = EvidenceRef(kind="memory", id=str(kept.id))
    assert exists(still_store, ref)
    assert any(ref in row.evidence for row in Hypothesis(still_store).look(CASE))
    assert grounded(still_store, f"- as agreed (`{ref}`)")[1:] == (0, 1)
    still_store.memory.retire("seeds", "no longer", author="ada", at=NOW)
    assert not exists(still_store, ref)
