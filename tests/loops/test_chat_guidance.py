"""What a person says in chat changes the next step of a running loop, and never what re-runs decide."""

from __future__ import annotations

from collections.abc import Callable

from langgraph.checkpoint.memory import InMemorySaver
from world import ATTENTION, NOW, README, REPORT, SCALE, WARMUP, World

from agents.chat import Chat, ChatContext, Instructions, Retrieval, Threads
from agents.guidance import Word, give
from agents.tools import Toolbox
from contracts.enums import DiagnosticKind, Verdict
from loops.debug import detect, open_case
from loops.debug.loop import DebugLoop
from loops.runner import Runner


def driven(world: World, say: Callable[[str, int], None]) -> str:
    """A case in which `say(case id, number of the wait)` may speak whenever re-runs are waited for."""
    world.train("run", world.lay_out([REPORT], [SCALE, README, WARMUP, ATTENTION]))
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    waits = 0

    def wait() -> None:
        nonlocal waits
        waits += 1
        say(case_id, waits)
        world.carry_out()

    loop = DebugLoop(world.store)
    loops = {loop.name: loop}
    runner = Runner(store=world.store, checkpointer=InMemorySaver(), loops=loops, clock=lambda: NOW, wait=wait)
    runner.start(loop, case_id)
    return case_id


def tell(world: World, case_id: str, words: str) -> str:
    """What the chat of the case answers to a person's words."""
    rules = Retrieval(world.store, Toolbox(world.store))
    orders = Instructions(world.store, "ada", lambda: NOW)
    chat = Chat(rules, Threads(world.store), "ada", lambda: NOW, instructions=orders)
    (said,) = chat.answer(words, ChatContext(investigation_id=case_id)).statements
    return said.text


def reverted(world: World, case_id: str) -> list[str]:
    """Keys of the suspects that were left out alone, in the order in which that was planned."""
    return [d.suspect_keys[0] for d in world.store.knowledge.diagnostics(case_id) if d.kind is DiagnosticKind.REVERT]


def key(world: World, subject: str) -> str:
    return f"commit:{world.commits[subject]}"


def test_the_suspect_that_was_asked_for_is_examined_next(world: World) -> None:
    def say(case_id: str, number: int) -> None:
        if number == 1:
            said = tell(world, case_id, f"test suspect {key(world, ATTENTION.subject)} first")
            assert said.endswith("is examined first from the next step on")

    case_id = driven(world, say)
    tried = reverted(world, case_id)
    assert tried[0] == key(world, ATTENTION.subject)
    assert key(world, SCALE.subject) in tried
    assert world.store.knowledge.investigation(case_id).verdict is Verdict.PROVEN
    actions = [entry.action for entry in world.store.ledger.list(subject=f"investigation:{case_id}")][::-1]
    assert actions.index("guide") < actions.index("measure") < actions.index("take_up_guidance")
    assert "ada: first" in " ".join(each.text for each in world.store.activity.after(0, investigation_id=case_id))


def test_without_a_word_the_most_suspicious_one_is_examined_first(world: World) -> None:
    case_id = driven(world, lambda case_id, number: None)
    assert reverted(world, case_id)[0] == world.store.knowledge.suspects(case_id)[0].key
    actions = {entry.action for entry in world.store.ledger.list(subject=f"investigation:{case_id}")}
    assert "take_up_guidance" not in actions


def test_a_culprit_that_was_excluded_is_found_all_the_same(world: World) -> None:
    """A person's opinion decides the order, re-runs the verdict."""

    def say(case_id: str, number: int) -> None:
        if number == 1:
            give(world.store, case_id, Word.EXCLUDE, key(world, SCALE.subject), actor="ada", at=NOW)

    case_id = driven(world, say)
    assert key(world, SCALE.subject) not in reverted(world, case_id)[:1]
    verdict = world.store.knowledge.verdicts(case_id)[0]
    assert (verdict.verdict, verdict.suspect_keys) == (Verdict.PROVEN, (key(world, SCALE.subject),))


def test_stop_ends_the_search_after_what_runs_now(world: World) -> None:
    def say(case_id: str, number: int) -> None:
        if number == 1:
            assert tell(world, case_id, "stop the search").startswith("the loop concludes")

    case_id = driven(world, say)
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.CANNOT_TELL
    assert reverted(world, case_id) == []
    said = " ".join(each.text for each in world.store.activity.after(0, investigation_id=case_id))
    assert "ada asked to stop" in said


def test_what_was_taken_back_does_not_count(world: World) -> None:
    def say(case_id: str, number: int) -> None:
        if number == 1:
            for word, suspect in (
                (Word.STOP, ""),
                (Word.FIRST, key(world, ATTENTION.subject)),
                (Word.GO_ON, ""),
                (Word.INCLUDE, key(world, ATTENTION.subject)),
            ):
                give(world.store, case_id, word, suspect, actor="ada", at=NOW)

    case_id = driven(world, say)
    assert reverted(world, case_id)[0] == world.store.knowledge.suspects(case_id)[0].key
    assert world.store.knowledge.investigation(case_id).verdict is Verdict.PROVEN
