"""The roles inside a running debug loop: a model's order, and a proof that lacks something, which is not shown."""

from __future__ import annotations

import itertools
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver
from world import ATTENTION, NOW, README, REPORT, SCALE, WARMUP, World

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))
from doors import PLENTY, openai_model
from scripted_server import Json, Script, ScriptedServer, Turn

from agents.guidance import suggestions
from agents.llm import Door, LocalBudget, Outside
from agents.roles import Colleague
from contracts.enums import DiagnosticKind, Verdict
from loops.debug import detect, open_case
from loops.debug.loop import DebugLoop, DebugOptions
from loops.runner import Runner


def driven(world: World, options: DebugOptions | None = None) -> str:
    """A case from its opening to where a person is asked."""
    world.train("run", world.lay_out([REPORT], [SCALE, README, WARMUP, ATTENTION]))
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    loop = DebugLoop(world.store, options)
    runner = Runner(
        store=world.store, checkpointer=InMemorySaver(), loops={loop.name: loop}, clock=lambda: NOW,
        wait=world.carry_out,
    )  # fmt: skip
    runner.start("debug", case_id)
    return case_id


def one_suspect_first(title: str) -> Script:
    """A model that names one suspect, in the words and with the evidence it was shown; as a critic it has a feeling."""

    def say(body: Json) -> Turn:
        shown = body["messages"][1]["content"]
        lines = [line for line in shown.splitlines() if line.startswith("- suspect") and title in line]
        if "Order the suspects" not in body["messages"][0]["content"]:
            return Turn(text="I have a feeling that it is the data.")
        text, ref = re.match(r"- (.*?) (\[suspect:[^\]]+\])", lines[0]).groups()  # type: ignore[union-attr]
        return Turn(text=f"{text.rstrip('.')} {ref}.")

    return say


def test_what_a_model_puts_first_is_examined_first_and_re_runs_still_decide(world: World) -> None:
    numbers = itertools.count()
    with ScriptedServer(one_suspect_first(ATTENTION.subject)) as server:
        outside = Outside(clock=time.monotonic, sleep=lambda _: None, new_id=lambda: str(next(numbers)))
        door = Door([openai_model(server)], LocalBudget(PLENTY), outside)
        case_id = driven(world, DebugOptions(colleague=Colleague(world.store, lambda _: door, lambda: NOW)))
    named = f"commit:{world.commits[ATTENTION.subject]}"
    assert suggestions(world.store, case_id)[0].detail["order"] == [named]
    left_out = [d for d in world.store.knowledge.diagnostics(case_id) if d.kind is DiagnosticKind.REVERT]
    assert left_out[0].suspect_keys == (named,)
    assert world.store.knowledge.investigation(case_id).verdict is Verdict.PROVEN
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == (f"commit:{world.commits[SCALE.subject]}",)
    assert "feeling" not in world.store.knowledge.report(case_id)


def test_a_proof_whose_replay_is_not_there_is_withheld(world: World) -> None:
    """What the planner would call proven is not stored as proven when the re-runs it needs cannot be shown."""
    case_id = driven(world)
    known = world.store.knowledge.diagnostics(case_id)
    (replay,) = [each for each in known if each.kind is DiagnosticKind.REPLAY]
    world.store.knowledge.put_diagnostic(replace(replay, kind=DiagnosticKind.PLACEBO))
    updated = DebugLoop(world.store).update(case_id, "")
    assert updated.proposal_id is None
    newest = world.store.knowledge.verdicts(case_id)[-1]
    assert newest.verdict is Verdict.CANNOT_TELL
    assert newest.statement.startswith("withheld: no replay was run")
