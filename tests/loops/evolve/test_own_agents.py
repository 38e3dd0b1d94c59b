"""Lathe's own agents as scaffolds: what is exported decides as they do, and whole rounds keep what is better.

Shows RM2-7.23 for the chat without a model and for the debug loop's ranking of suspects.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from world import ATTENTION, IDLE, OUTSIDE, README, REPORT, SCALE, SKIP, Edit, World

from agents.sandbox import Sandbox
from benchmarks.agent_parts.worlds import PUBLISHED, Incidents
from benchmarks.agent_parts.written import Over, Written
from benchmarks.agents import known_questions
from benchmarks.evolve_parts import chat_tasks, diagnosis_tasks
from benchmarks.evolve_parts.exporting import Question, write_scaffold, write_suite
from benchmarks.trainrca.form import Case, Segment, Truth
from context_store import Store
from contracts.errors import UserInputError
from loops.evolve import operators
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive, read_files
from loops.evolve.declared import surface_of
from loops.evolve.evaluation import Evaluator, Job
from loops.evolve.journal import FolderJournal
from loops.evolve.plan import Plan
from loops.evolve.proposer import Operators
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import Split


def _few(incidents: Sequence[str]) -> dict[str, list[Written]]:
    """Of each file two questions over those incidents that can be answered, and one that cannot."""
    found = {}
    for name, written in known_questions().items():
        mine = [each for each in written if each.over is Over.INCIDENTS]
        known = [each for each in mine if {name.partition("/")[0] for name in each.evidence} & set(incidents)]
        found[name] = [*known[:2], *[each for each in mine if each.unknown][:1]]
    return found


def _spoilt(files: Mapping[str, str], **weights: float) -> dict[str, str]:
    params = {**json.loads(files["params.json"]), **weights}
    return {**files, "params.json": json.dumps(params, indent=2) + "\n"}


def _evolved(folder: Path, files: Mapping[str, str], evaluator: Evaluator, seed: int) -> Evolution:
    """Two rounds. The seed is one by which the second draws the weight that was spoilt."""
    folder.mkdir()
    folder.chmod(0o755)
    rule = Rule(rounds=2, effect=0.4, max_pairs=24, run_alpha=0.5)
    plan = Plan(
        run="own", suite_hash=evaluator.suite.hash, seed=seed, rule=rule, block=12, fix_seeds=1, placebo_share=0.0
    )
    archive = Archive.begin(folder / "archive.git", plan.run, files)
    run = Evolution(
        plan, FolderJournal(folder / "journal.jsonl"), archive, evaluator, folder=folder / "commits",
        proposer=Operators(),
    )  # fmt: skip
    while run.step():
        pass
    return run


def _checked(suite_folder: Path, questions: Sequence[Question], sandbox: Sandbox) -> Evaluator:
    """Every oracle passes and no start does."""
    evaluator = Evaluator(sandbox=sandbox, suite=write_suite(suite_folder, questions))
    tasks = evaluator.suite.tasks
    oracle = evaluator.grade([(name, task.oracle) for name, task in tasks.items()])
    start = evaluator.grade([(name, task.files) for name, task in tasks.items()])
    assert [why for score, why in oracle if score < 1.0] == []
    assert [why for score, why in start if score > 0.0] == []
    return evaluator


@pytest.mark.slow
def test_the_chat_as_a_scaffold_answers_as_the_chat_does_and_rounds_mend_it(
    store: Store, place: Path, isolated: Sandbox
) -> None:
    lines = PUBLISHED.read_text().splitlines()[:5]
    (place / "incidents.jsonl").write_text("\n".join(lines))
    few = _few([json.loads(line)["id"] for line in lines])
    questions, left_out = chat_tasks.exported(store, Incidents(store, place / "incidents.jsonl"), few)
    assert len(questions) + sum(left_out.values()) == sum(map(len, few.values()))
    evaluator = _checked(place / "chat-suite", questions, isolated)
    write_scaffold(place / "chat", chat_tasks.files())
    surface_of(read_files(place / "chat"))

    outcomes = evaluator.run(place / "chat", [Job(task=each.name, seed=1) for each in questions])
    assert [outcome.score for outcome in outcomes] == [float(each.is_answered) for each in questions]
    assert {outcome.ended for outcome in outcomes} == {"submitted"}

    silent = _spoilt(chat_tasks.files(), least_near=100.0)
    run = _evolved(place / "chat-run", silent, evaluator, seed=42)
    assert [body["kept"] for body in run.history.decisions] == [False, True], run.history.decisions
    archive = Archive(place / "chat-run" / "archive.git", "own")
    mended = json.loads(archive.files(archive.incumbent)["params.json"])
    assert mended["least_near"] == 5.52


def _back(edit: Edit) -> Edit:
    return replace(edit, subject=f"take back: {edit.subject}", before=edit.after, after=edit.before)


def _cases(world: World) -> list[Question]:
    """Runs that went wrong after another commit each, among innocent ones; and one by nothing that a commit says."""
    faults = (SCALE, SKIP, IDLE)
    stages = [(REPORT, SCALE), (_back(SCALE),), (README, SKIP), (_back(SKIP),), (ATTENTION, IDLE), (_back(IDLE),)]
    heads = world.lay_out(*stages)
    found = []
    for number, fault in enumerate(faults):
        name, before, after = f"run-{number}", heads[2 * number], heads[2 * number + 1]
        world.train(name, [before, before, after])
        target = f"commit:{world.commits[fault.subject]}"
        truth = Truth(id=name, kind="made", family="made", answer="cause", targets=(target,))
        found += _asked(world, name, truth, after)
    world.unseen = OUTSIDE
    world.train("run-3", [heads[0], heads[0], heads[0]])
    found += _asked(world, "run-3", Truth(id="run-3", kind="made", family="made", answer="cannot_tell"), heads[0])
    return found


def _asked(world: World, name: str, truth: Truth, commit: str) -> list[Question]:
    case = Case(
        id=name, project_name="made", trainer="embedded", seed=1, segments=(Segment(commit=commit, max_step=240),)
    )
    asked = diagnosis_tasks.question_of(world.store, case, truth, Split.FIX)
    assert isinstance(asked, Question)
    return [
        replace(asked, name=f"{asked.name}-{split}", split=split) for split in (Split.FIX, Split.GATE, Split.SEALED)
    ]


def test_the_ranking_as_a_scaffold_ranks_as_the_debug_loop_does_and_rounds_mend_it(
    world: World, place: Path, isolated: Sandbox
) -> None:
    """The same four cases in each split: here it is about the machine, not about ranking."""
    questions = _cases(world)
    evaluator = _checked(place / "ranking-suite", questions, isolated)
    write_scaffold(place / "ranking", diagnosis_tasks.files())
    mine = [each for each in questions if each.split is Split.FIX]
    shown = [each.asked["suspects"] for each in mine]
    assert all("targets" not in json.dumps(each.asked) for each in mine)
    assert [[suspect["key"] for suspect in each] for each in shown] == [list(each.said) for each in mine]
    outcomes = evaluator.run(place / "ranking", [Job(task=each.name, seed=1) for each in mine])
    assert [outcome.score for outcome in outcomes] == [float(each.is_answered) for each in mine]
    assert sum(each.is_answered for each in mine) >= 2

    silent = _spoilt(diagnosis_tasks.files(), least_score=1.0)
    surface = surface_of(silent)
    for move in operators.moves(silent):
        surface.check(silent, operators.apply(silent, move), ())
    run = _evolved(place / "ranking-run", silent, evaluator, seed=12)
    assert [body["kept"] for body in run.history.decisions] == [False, True], run.history.decisions


def test_too_few_questions_are_no_suite(tmp_path: Path) -> None:
    one = Question(name="one", split=Split.FIX, words="why?", asked={}, right=("a",))
    with pytest.raises(UserInputError, match="too few"):
        write_suite(tmp_path / "suite", [one])
    (tmp_path / "theirs.txt").write_text("")
    with pytest.raises(UserInputError, match="not empty"):
        write_scaffold(tmp_path, {"graph.py": ""})


@pytest.mark.parametrize(
    ("grader", "answer", "passes"),
    [
        ({"right": ["a"], "within": 1}, '{"named": ["a", "b"]}', True),
        ({"right": ["a"], "within": 1}, '{"named": ["b", "a"]}', False),
        ({"right": ["a"], "within": 2}, '{"named": ["b", "a"]}', True),
        ({"right": ["a", "b"], "within": 2, "whole": True}, '{"named": ["b", "a"]}', True),
        ({"right": ["a", "b"], "within": 2, "whole": True}, '{"named": ["b", "c", "a"]}', False),
        ({"right": ["a"], "within": 1}, '{"unknown": true}', False),
        ({"right": [], "within": 1}, '{"unknown": true}', True),
        ({"right": [], "within": 1}, '{"unknown": true, "named": ["a"]}', False),
        ({"right": [], "within": 1}, '{"named": ["a"]}', False),
        ({"right": [], "within": 1}, "{}", False),
        ({"right": ["a"], "within": 1}, '{"named": [["a"]]}', False),
        ({"right": ["a"], "within": 1}, '["a"]', False),
        ({"right": ["a"], "within": 1}, "[" * 100_000, False),
        ({"right": ["a"], "within": 1}, "", False),
    ],
)
def test_an_answer_is_graded_by_what_it_names_first(
    grader: dict[str, object], answer: str, passes: bool, tmp_path: Path
) -> None:
    from loops.evolve.inside.grade import graded

    whole = {"kind": "answer", "file": "answer.json", "whole": False, **grader}
    assert graded(whole, {"answer.json": answer}, tmp_path)[0] == float(passes)
