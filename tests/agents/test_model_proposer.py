"""A language model proposes changes of a scaffold, through the door, against a real scripted server."""

from __future__ import annotations

import json
import random
from pathlib import Path

from doors import NewDoor, openai_model
from scripted_server import ScriptedServer, Turn

from agents.llm import Door
from loops.evolve.archive import read_files
from loops.evolve.failures import Finding
from loops.evolve.journal import FolderJournal
from loops.evolve.model_proposer import Answers, ModelProposer, shown
from loops.evolve.operators import CATALOGUE, PROPOSER
from loops.evolve.proposer import Operators, Situation, lessons_of

FILES = read_files(CATALOGUE.parent / "scaffolds" / "plain")
FINDING = Finding(cause="temporary", sentence="a command was given up", traces=("abc/sh_poll/1",))
RETRY = "from mechanism import Mechanism as Base\n\n\nclass Mechanism(Base):\n    pass\n"
ANSWER = {
    "hypothesis": "retry what fails for the moment",
    "critique": [
        {"sentence": "it gave up at once", "traces": ["abc/sh_poll/1"]},
        {"sentence": "it was careless", "traces": ["abc/other/9"]},
    ],
    "files": {"mechanisms/again.py": RETRY},
}


def _situation() -> Situation:
    return Situation(
        number=1, files=FILES, findings=(FINDING,), settings=PROPOSER, lessons=("x: tried 1, kept 0",),
        chance=random.Random(0),
    )  # fmt: skip


def test_what_it_writes_is_a_draft_and_only_cited_criticism_stays(new_door: NewDoor, tmp_path: Path) -> None:
    with ScriptedServer([Turn(text="Here: " + json.dumps(ANSWER))]) as server:
        draft = _proposer(new_door(openai_model(server)), tmp_path / "a").propose(_situation(), lambda files: True)
    assert draft is not None
    assert draft.files["mechanisms/again.py"] == RETRY
    assert [said.sentence for said in draft.critique] == ["it gave up at once"]
    assert draft.proposer.startswith("model ")
    asked = [message["content"] for message in server.requests[0]["messages"]]
    assert draft.prompt == "\n\n".join(asked)  # all of it, with the order it was given
    assert "tried 1, kept 0" in server.requests[0]["messages"][1]["content"]


def test_a_model_that_repeats_a_failure_or_breaks_off_leaves_the_operators(new_door: NewDoor, tmp_path: Path) -> None:
    def fresh(files: object) -> bool:
        return "mechanisms/again.py" not in files  # type: ignore[operator]

    offers = ([Turn(text=json.dumps(ANSWER))] * 2, [Turn(text="I would rather not.")] * 2, [Turn(status=400)])
    for number, turns in enumerate(offers):
        with ScriptedServer(turns) as server:
            draft = _proposer(new_door(openai_model(server)), tmp_path / str(number)).propose(_situation(), fresh)
        assert draft is not None
        last = [message["content"] for message in server.requests[-1]["messages"]]
        assert (draft.prompt, draft.proposer) == ("\n\n".join(last), "operators")
        assert "did not propose" in draft.hypothesis


def test_what_it_said_is_kept_and_read_again_without_asking(new_door: NewDoor, tmp_path: Path) -> None:
    """After a kill, and in a replay; also why it gave no answer."""
    for number, turn in enumerate((Turn(text=json.dumps(ANSWER)), Turn(status=400))):
        with ScriptedServer([turn]) as server:
            first = _proposer(new_door(openai_model(server)), tmp_path / str(number)).propose(_situation(), _any)
            killed = _proposer(new_door(openai_model(server)), tmp_path / str(number)).propose(_situation(), _any)
            asked = len(server.requests)
        journal = FolderJournal(tmp_path / str(number) / "journal.jsonl")
        replayed = ModelProposer(Answers(journal, None)).propose(_situation(), _any)
        assert first == killed == replayed
        assert asked == 1
    assert ModelProposer(Answers(FolderJournal(tmp_path / "none" / "j"), None)).propose(_situation(), _any) == (
        Operators().propose(_situation(), _any)
    )


def _any(files: object) -> bool:
    return True


def _proposer(door: Door, folder: Path) -> ModelProposer:
    return ModelProposer(Answers(FolderJournal(folder / "journal.jsonl"), door))


def test_only_ideas_are_lessons() -> None:
    kinds = (("idea", "add tool localise"), ("placebo", "set prompt"), ("control", "known to help"))
    decisions = [{"moves": [move], "kept": False, "kind": kind} for kind, move in kinds]
    assert lessons_of(decisions) == ["add tool localise: tried 1, kept 0"]


def test_no_figure_of_the_gate_is_in_what_a_model_is_asked() -> None:
    """Only whether a change was kept leaves the gate."""
    figures = {"mean": 0.123, "wealth": 4.567, "num_pairs": 89, "doubt": 0.321, "alpha": 0.00987, "discordant": 0.654}
    decisions = [
        {
            "round": number,
            "moves": ["add tool localise"],
            "kept": number == 2,
            "kind": "idea",
            "why": "futile",
            **figures,
        }
        for number in (1, 2)
    ]
    situation = Situation(
        number=3, files={}, findings=(FINDING,), settings=PROPOSER, lessons=lessons_of(decisions),
        chance=random.Random(0),
    )  # fmt: skip
    assert "add tool localise: tried 2, kept 1" in shown(situation)
    assert [figure for figure in figures.values() if str(figure) in shown(situation)] == []
    assert "difference" not in shown(situation)
