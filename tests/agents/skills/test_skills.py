"""Skills in three levels: typed, conditioned, counted; and those that agents learn from what they repeat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.chat import ChatContext, Instructions, Retrieval
from agents.roles import Colleague
from agents.skills import (
    LIBRARY,
    Condition,
    ConditionFailed,
    Facts,
    Level,
    SkillBook,
    learn_from,
    with_skills,
)
from agents.skills.debugging import Debugged, Stage
from agents.skills.learned import draft_of, learn, learned
from agents.skills.skill import Fact
from agents.tools import READING, Desk, Toolbox
from agents.tools.protocol import MAX_ROWS, row
from benchmarks.agent_parts.stored_case import CASE, NOW, OTHER, PROJECT, RUN, Stored
from context_store import Store
from contracts.enums import MemoryKind
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

BASIS = (EvidenceRef(kind="run", id=RUN),)


@pytest.fixture
def toolbox(still_store: Store, stored: Stored) -> Toolbox:
    desk = Desk(open_case=lambda run_id: CASE if run_id == RUN else None, actor="chat:ada", clock=lambda: NOW)
    return Toolbox(still_store, (*READING, *desk.tools()))


@pytest.fixture
def book(still_store: Store, toolbox: Toolbox) -> SkillBook:
    return SkillBook(still_store, toolbox, LIBRARY, actor="ada", clock=lambda: NOW)


def test_each_level_stands_on_the_one_below(book: SkillBook) -> None:
    """Shows RM2-7.12."""
    assert {each.level for each in book.skills} == set(Level)
    onset = book.run("find_onset", {"run_id": RUN})
    assert onset.step == 41
    explained = book.run("explain_onset", {"run_id": RUN})
    assert (explained.step, explained.num_changes) == (41, 4)
    kinds = {ref.partition(":")[0] for fact in explained.facts for ref in fact.evidence}
    assert {"anomaly", "event"} <= kinds
    (tried,) = book.run("past_failures", {"text": "router learning rate and max_vio"}).facts
    assert tried.evidence[0].startswith("negative:")
    opened = book.run("look_into_run", {"run_id": RUN})
    assert opened.investigation_id == CASE
    assert opened.facts[0].evidence[0] == f"investigation:{CASE}"


def test_the_steps_of_the_debug_loop_are_a_workflow(book: SkillBook, still_store: Store, stored: Stored) -> None:
    """Each step gives what the loop promises of it; the workflow says how far the case has come. Shows RM2-7.12."""
    found = book.run("debug_run", {"run_id": RUN})
    assert isinstance(found, Debugged)
    assert (found.investigation_id, found.stage, found.onset) == (CASE, Stage.PROPOSED, 41)
    kinds = dict.fromkeys(fact.evidence[0].partition(":")[0] for fact in found.facts)
    assert list(kinds) == ["investigation", "anomaly", "suspect", "diagnostic", "verdict", "proposal"]
    assert book.run("weigh_proof", {"investigation_id": CASE}).proven
    assert book.run("rank_suspects", {"investigation_id": CASE}).num_open == 0
    assert book.run("read_tests", {"investigation_id": CASE}).num_unread == 0
    with pytest.raises(ConditionFailed, match="shows nothing wrong"):
        book.run("debug_run", {"run_id": OTHER})
    with pytest.raises(ConditionFailed, match="the case is stored"):
        book.run("weigh_proof", {"investigation_id": "case-99"})


def test_a_step_that_breaks_its_promise_is_not_given_on(book: SkillBook, still_store: Store, stored: Stored) -> None:
    (verdict,) = still_store.knowledge.verdicts(CASE)
    still_store.knowledge.put_verdict(replace(verdict, suspect_keys=("commit:unheard-of",)))
    with pytest.raises(ConditionFailed, match="a proof rests on re-runs"):
        book.run("debug_run", {"run_id": RUN})
    assert still_store.ledger.list(actor="skill:debug_run@1") == []


def test_inputs_are_typed_and_conditions_hold(book: SkillBook, still_store: Store) -> None:
    with pytest.raises(UserInputError, match="run_id"):
        book.run("find_onset", {"run": RUN})
    with pytest.raises(UserInputError, match="no skill"):
        book.run("fly", {})
    with pytest.raises(ConditionFailed, match="the run is stored"):
        book.run("find_onset", {"run_id": "run-99"})
    with pytest.raises(ConditionFailed, match="an anomaly of the run is stored"):
        book.run("find_onset", {"run_id": OTHER})
    with pytest.raises(ConditionFailed, match="shows nothing wrong"):
        book.run("look_into_run", {"run_id": OTHER})
    assert still_store.ledger.list(actor="skill:look_into_run@1") == []


def test_what_a_skill_gives_is_checked(still_store: Store, toolbox: Toolbox) -> None:
    never = Condition(text="the moon is full", holds=lambda store, inputs, outputs: outputs is None)
    broken = [replace(each, after=(never,)) if each.name == "find_onset" else each for each in LIBRARY]
    with pytest.raises(ConditionFailed, match="the moon is full"):
        SkillBook(still_store, toolbox, broken, actor="ada", clock=lambda: NOW).run("explain_onset", {"run_id": RUN})
    wrong = [
        replace(each, run=lambda use, inputs: Facts(facts=())) if each.level is Level.ATOMIC else each
        for each in LIBRARY
    ]
    with pytest.raises(ConditionFailed, match="gave Facts"):
        SkillBook(still_store, toolbox, wrong, actor="ada", clock=lambda: NOW).run("find_onset", {"run_id": RUN})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"find_onset": {"tools": ("approve",)}}, "no tool"),
        ({"find_onset": {"tools": ("start_investigation",)}}, "only workflows may"),
        ({"find_onset": {"tools": ("anomalies", "timeline")}}, "atomic"),
        ({"explain_onset": {"tools": ("timeline",)}}, "composite"),
        ({"explain_onset": {"parts": ("look_into_run",)}}, "no lower level"),
        ({"explain_onset": {"parts": ("fly",)}}, "no skill"),
    ],
)
def test_a_book_refuses_skills_that_break_their_level(
    still_store: Store, toolbox: Toolbox, change: dict[str, dict[str, tuple[str, ...]]], said: str
) -> None:
    skills = [replace(each, **change.get(each.name, {})) for each in LIBRARY]
    with pytest.raises(UserInputError, match=said):
        SkillBook(still_store, toolbox, skills, actor="ada", clock=lambda: NOW)


def test_a_skill_uses_only_what_it_declares(still_store: Store, toolbox: Toolbox) -> None:
    skills = [replace(each, parts=("find_onset",)) if each.name == "explain_onset" else each for each in LIBRARY]
    book = SkillBook(still_store, toolbox, skills, actor="ada", clock=lambda: NOW)
    with pytest.raises(UserInputError, match="does not declare the part 'changes_before'"):
        book.run("explain_onset", {"run_id": RUN})


def test_as_a_tool_a_skill_gives_no_more_rows_than_any_tool(still_store: Store, toolbox: Toolbox) -> None:
    fact = Fact.of(row("one of many", EvidenceRef(kind="run", id=RUN)))
    many = Facts(facts=(fact,) * (MAX_ROWS + 7))
    skills = [replace(e, run=lambda use, inputs: many) if e.name == "read_case" else e for e in LIBRARY]
    tools = SkillBook(still_store, toolbox, skills, actor="ada", clock=lambda: NOW).tools()
    (tool,) = [each for each in tools if each.name == "read_case"]
    given = {"investigation_id": CASE, "project_id": PROJECT, "title": "x"}
    found = tool.run(still_store, tool.arguments.model_validate(given))
    assert (len(found.rows), found.num_left_out) == (MAX_ROWS, 7)


def test_use_is_counted_and_composites_are_tools(book: SkillBook, still_store: Store) -> None:
    tools = {each.name: each for each in book.tools()}
    reading = ("explain_onset", "read_case", "rank_suspects", "read_tests", "weigh_proof")
    acting = {**dict.fromkeys(reading, False), "look_into_run": True, "debug_run": True}
    assert {name: each.acts for name, each in tools.items()} == acting
    found = Toolbox(still_store, tuple(tools.values())).call("explain_onset", {"run_id": RUN})
    assert found.rows[0].text.startswith("anomaly of run run-7")
    assert [book.uses(name) for name in ("explain_onset", "find_onset", "look_into_run")] == [1, 1, 0]


def actions() -> list[tuple[str, dict[str, str]]]:
    """What an agent did: again and again the same two tools, with other words between."""
    done: list[tuple[str, dict[str, str]]] = []
    for run_id, text in ((RUN, "router learning rate"), (OTHER, "dropout"), (RUN, "max_vio")):
        done += [("anomalies", {"run_id": run_id}), ("negative_results", {"text": text}), ("runs", {})]
        done += [("case_file", {"investigation_id": CASE})] if text == "dropout" else []
    return done


def test_a_repeated_pattern_becomes_a_skill_once_it_was_tried(still_store: Store, toolbox: Toolbox) -> None:
    """Shows RM2-7.13: proposed from a pattern, tried before it counts, versioned, counted, retired."""
    draft = draft_of(actions(), "look_again")
    assert draft is not None
    assert [step.tool for step in draft.steps] == ["anomalies", "negative_results", "runs"]
    assert draft.inputs == ("run_id", "text")
    for trial in ({"run_id": OTHER, "text": "router"}, {"run_id": RUN, "text": "the weather in Paris"}):
        with pytest.raises(ConditionFailed, match="found nothing"):
            learn(still_store, toolbox, draft, trial, evidence=BASIS, author="agent", at=NOW)
    assert learned(still_store, toolbox) == ()
    good = {"run_id": RUN, "text": "router learning rate"}
    first = learn(still_store, toolbox, draft, good, evidence=BASIS, author="agent", at=NOW)
    book = SkillBook(still_store, toolbox, (*LIBRARY, *learned(still_store, toolbox)), actor="ada", clock=lambda: NOW)
    assert {fact.evidence[0].partition(":")[0] for fact in book.run("look_again", good).facts} >= {"anomaly", "run"}
    assert book.uses("look_again") == 1
    second = learn(still_store, toolbox, replace(draft, about="better"), good, evidence=BASIS, author="agent", at=NOW)
    assert second.supersedes == first.id
    assert {each.version for each in learned(still_store, toolbox)} == {second.id}
    still_store.memory.retire("skill/look_again", "nobody uses it", author="ada", at=NOW)
    assert learned(still_store, toolbox) == ()


def test_what_acts_or_was_not_repeated_is_not_learned(still_store: Store, toolbox: Toolbox) -> None:
    assert draft_of(actions()[:6], "x") is None
    acting = [("runs", {}), ("start_investigation", {"run_id": RUN})] * 3
    draft = draft_of(acting, "x")
    assert draft is not None
    with pytest.raises(UserInputError, match="acts"):
        learn(still_store, toolbox, draft, {}, evidence=BASIS, author="agent", at=NOW)


def test_the_rules_and_the_roles_work_through_skills(still_store: Store, toolbox: Toolbox) -> None:
    """Shows RM2-7.12: chat without a model starts the workflow, the critic of a loop reads by the composite one."""
    rules = Retrieval(still_store, toolbox, lambda: NOW)
    answer = rules.answer(f"investigate {RUN}", ChatContext())
    kinds = [each.kind for each in answer.citations]
    assert kinds[0] == "investigation"
    assert {"anomaly", "event"} <= set(kinds)
    assert "shows nothing wrong" in rules.answer(f"investigate {OTHER}", ChatContext()).gap
    Colleague(still_store, clock=lambda: NOW).review(CASE)
    used = {each.actor.partition("@")[0] for each in still_store.ledger.list() if each.action == "skill_used"}
    assert {"skill:look_into_run", "skill:explain_onset", "skill:find_onset", "skill:read_case"} <= used


def test_reading_a_case_finds_what_its_parts_find(book: SkillBook) -> None:
    inputs = {"investigation_id": CASE, "project_id": PROJECT, "title": "the router learning rate"}
    kinds = [fact.evidence[0].partition(":")[0] for fact in book.run("read_case", inputs).facts]
    assert kinds[:2] == ["investigation", "verdict"]
    assert {"anomaly", "suspect", "diagnostic", "hunk", "negative"} <= set(kinds)
    with pytest.raises(ConditionFailed, match="the case is stored"):
        book.run("read_case", {**inputs, "investigation_id": "case-9"})


def test_what_a_model_repeats_in_a_thread_becomes_a_skill_of_the_next(still_store: Store, toolbox: Toolbox) -> None:
    """Shows RM2-7.13: the second time the pattern is one call. RM2-7.11: no person wrote it, and it says who did."""
    kept = learn_from(still_store, toolbox, actions(), evidence=BASIS, author="chat:ada", at=NOW)
    assert kept is not None
    assert kept.key == "skill/anomalies_then_negative_results_then_runs"
    assert (kept.author, kept.evidence) == ("chat:ada", BASIS)
    assert learn_from(still_store, toolbox, actions(), evidence=BASIS, author="chat:ada", at=NOW) is None
    assert learn_from(still_store, toolbox, actions()[:3], evidence=BASIS, author="chat:ada", at=NOW) is None
    again = Toolbox(still_store, with_skills(still_store, READING, actor="ada", clock=lambda: NOW))
    found = again.call("anomalies_then_negative_results_then_runs", {"run_id": RUN, "text": "router learning rate"})
    assert {ref.kind for ref in found.evidence} >= {"anomaly", "negative", "run"}


def test_agents_note_with_a_source_and_supersede_themselves_alone(still_store: Store, toolbox: Toolbox) -> None:
    """Shows RM2-7.14: a contradicted note is superseded, not erased; what a person keeps stays theirs."""
    still_store.memory.remember(
        "eval/seeds", "three seeds", kind=MemoryKind.CONVENTION, evidence=BASIS, author="ada", at=NOW
    )
    entry = {"key": "eval/seeds", "text": "five seeds", "kind": "convention", "evidence": [f"run:{RUN}"]}
    toolbox.call("remember", entry)
    assert "confirm eval/seeds" in toolbox.call("remember", {**entry, "text": "ten seeds"}).rows[0].text
    note, kept = toolbox.call("remembered", {"text": "seeds"}).rows
    assert note.text.startswith("noted by an agent, confirmed by nobody,")
    assert "ten seeds (by chat:ada, resting on run:run-7)" in note.text
    assert [ref.kind for ref in note.evidence] == ["memory"], "it lends its words to nothing else"
    assert "three seeds (by ada" in kept.text
    assert len(still_store.memory.line("agent/eval/seeds")) == 2
    assert len(still_store.memory.line("eval/seeds")) == 1
    for wrong in ({"evidence": ["everybody knows"]}, {"key": "skill/x"}, {"key": "agent/x"}):
        with pytest.raises(UserInputError):
            toolbox.call("remember", {**entry, **wrong})
    with pytest.raises(NotFound):
        still_store.memory.retire("eval", "x", author="ada", at=NOW)


def test_a_note_becomes_a_persons_entry_when_they_confirm_it(still_store: Store, toolbox: Toolbox) -> None:
    entry = {"key": "eval/seeds", "text": "five seeds", "kind": "decision", "evidence": [f"run:{RUN}"]}
    toolbox.call("remember", entry)
    orders = Instructions(still_store, "ada", lambda: NOW)
    assert "no agent has noted" in orders.obey("confirm eval/other", ChatContext()).gap  # type: ignore[union-attr]
    orders.obey("confirm eval/seeds", ChatContext())
    (held,) = still_store.memory.list()
    assert (held.key, held.author, held.kind, held.text) == ("eval/seeds", "ada", MemoryKind.DECISION, "five seeds")
    assert [str(ref) for ref in held.evidence] == [f"memory:{held.id - 1}", f"run:{RUN}"]
    where = ChatContext(run_id=RUN)
    assert "kept for agents" in orders.obey("remember skill/x: y", where).gap  # type: ignore[union-attr]
