"""Chat over a store that holds cases of loops that are about no run."""

from __future__ import annotations

import pytest

from agents.chat import Answer, Chat, ChatContext, Retrieval, Threads
from agents.roles import Critic, Reporter
from agents.roles.opinion import ask
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.stored_case import CASE, NOW, PROJECT, RUN, Stored
from context_store import Store
from context_store.records import NegativeResult, NewProposal
from contracts.enums import EffectKind
from contracts.evidence import EvidenceRef

STATEMENTS = {"evolve": "1 of 6 rounds were kept", "classifier": "it reaches 0.91", "potential": "protocol b crosses"}


@pytest.fixture
def chat(still_store: Store, stored: Stored) -> Chat:
    for loop, statement in STATEMENTS.items():
        run_id = RUN if loop == "potential" else ""
        store_case(still_store, loop, f"{loop} toy", statement, run_id)
    return Chat(Retrieval(still_store, Toolbox(still_store, READING)), Threads(still_store), "ada", lambda: NOW)


def store_case(store: Store, loop: str, title: str, statement: str, run_id: str) -> None:
    case_id = f"of-{loop}"
    store.knowledge.open_case(case_id, project_id=PROJECT, loop=loop, title=title, at=NOW + 1, run_id=run_id)
    store.knowledge.set_investigation(case_id, statement=statement)
    store.knowledge.put_report(case_id, f"# {title}\n\n{statement} (`investigation:{case_id}`)\n")
    about = (EvidenceRef(kind="investigation", id=case_id),)
    store.negatives.add(
        NegativeResult(
            claim=f"a longer {loop} prompt helps", intervention="a longer prompt", context={}, expected="a gain",
            observed="no gain", reason_class="no_gain", reason="the gain was 0", evidence=about, reopen_if="",
            investigation_id=case_id, actor=f"loop:{loop}", project_id=PROJECT,
        )
    )  # fmt: skip
    store.proposals.put(
        NewProposal(
            investigation_id=case_id, kind=EffectKind.PROMOTE_SCAFFOLD, title=f"use what {loop} kept", payload={},
            diff="", base_state="a", risk="small", verification="look", evidence=about, expires_at=NOW + 900,
        )
    )  # fmt: skip


def answered(chat: Chat, question: str, **where: str) -> Answer:
    answer = chat.answer(question, ChatContext(**where))
    assert answer.known, answer.gap
    return answer


def test_cases_without_a_run_leave_other_questions_as_they_were(chat: Chat) -> None:
    assert "causes the departure" in answered(chat, "why do layers 1 and 3 run away?").text
    assert "causes the departure" in answered(chat, "summarise the case", investigation_id=CASE).text
    assert answered(chat, "status")
    assert not chat.answer("What is the weather in Paris?", ChatContext()).known


@pytest.mark.parametrize(
    ("question", "loop"),
    [
        ("what did the classifier find?", "classifier"),
        ("what did the evolution of the scaffold find?", "evolve"),
        (f"what did the potential case of {RUN} find?", "potential"),
        ("what came out of the classifier loop toy?", "classifier"),
        ("what has the evolve loop tried?", "evolve"),
    ],
)
def test_what_a_loop_found_is_told_with_what_did_not_help_and_what_it_proposes(
    chat: Chat, question: str, loop: str
) -> None:
    answer = answered(chat, question)
    assert f"investigation:of-{loop}" == str(answer.citations[0])
    assert STATEMENTS[loop] in answer.text
    assert "a longer prompt" in answer.text
    assert f"use what {loop} kept" in answer.text
    assert {"investigation", "negative", "proposal"} <= {ref.kind for ref in answer.citations}
    assert {"case", "proposal"} <= {card.kind.value for card in answer.cards}


@pytest.mark.parametrize("question", ["what did it find?", "what was tried?", "what waits for me?", "why?", "status"])
@pytest.mark.parametrize("loop", ["evolve", "classifier"])
def test_on_the_page_of_such_a_case(chat: Chat, question: str, loop: str) -> None:
    answer = answered(chat, question, investigation_id=f"of-{loop}")
    assert f"of-{loop}" in {ref.id for ref in answer.citations} or "a longer prompt" in answer.text


def test_roles_read_such_a_case(chat: Chat, still_store: Store) -> None:
    found = Reporter(still_store).report("of-evolve")
    assert STATEMENTS["evolve"] in found.markdown
    assert found.removed == 0
    assert ask(Critic(still_store), None, "of-classifier").role == "critic"
