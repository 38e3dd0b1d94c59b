"""The starter suite and its graders: every oracle passes, every start fails, and scaffolds really differ."""

import shutil
from pathlib import Path

import pytest

from agents.sandbox import Sandbox
from contracts.errors import NotPermitted, UserInputError
from loops.evolve.evaluation import Evaluator, Job
from loops.evolve.operators import CATALOGUE
from loops.evolve.tasks import STARTER, Split, read_suite

SCAFFOLDS = CATALOGUE.parent / "scaffolds"


def test_the_suite_is_large_enough_and_no_task_is_in_two_splits() -> None:
    suite = read_suite()
    sizes = [len(suite.of(split)) for split in (Split.FIX, Split.GATE, Split.SEALED)]
    assert sum(sizes) >= 24
    assert min(sizes) >= 20
    assert {task.file.kind for task in suite.tasks.values()} == {"bugfix", "terminal", "ml"}


def test_no_row_of_data_is_in_two_splits() -> None:
    """Columns differ between tasks of one source, so a row is found in another by its numbers (a few small whole ones
    say nothing)."""
    suite = read_suite()
    rows = {
        (split, name): [frozenset(map(float, row)) for row in _rows(suite.tasks[name].files)]
        for split in (Split.FIX, Split.GATE, Split.SEALED)
        for name in suite.of(split)
        if suite.tasks[name].file.kind == "ml"
    }
    assert len(rows) >= 9
    for (split, name), ours in rows.items():
        for (other, another), theirs in rows.items():
            if other != split:
                telling = [one for one in ours if len(one) > 4 or any(number % 1 for number in one)]
                assert not any(one <= two for one in telling for two in theirs), (name, another)


def _rows(files: dict[str, str]) -> list[list[str]]:
    """Measures without labels."""
    train, test = (files[name].splitlines()[1:] for name in ("train.csv", "test.csv"))
    return [row.split(",")[:-1] for row in train] + [row.split(",") for row in test]


def test_the_readme_says_how_many_tasks_there_are() -> None:
    assert f"{len(read_suite().tasks)} starter tasks" in (STARTER.parent / "README.md").read_text()


def test_each_oracle_passes_and_each_start_does_not(evaluator: Evaluator) -> None:
    tasks = evaluator.suite.tasks
    oracle = evaluator.grade([(name, {**task.files, **task.oracle}) for name, task in tasks.items()])
    start = evaluator.grade([(name, task.files) for name, task in tasks.items()])
    assert [(name, why) for name, (score, why) in zip(tasks, oracle, strict=True) if score < 1.0] == []
    assert [name for name, (score, _) in zip(tasks, start, strict=True) if score > 0.0] == []


def test_our_default_scaffold_is_small_and_better_than_the_plain_one(evaluator: Evaluator) -> None:
    """The same tasks and seeds; every difference is what the scaffolds do."""
    files = [path for path in (SCAFFOLDS / "default").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    lines = sum(path.read_text().count("\n") for path in files)
    assert lines < 300
    jobs = [Job(task=task, seed=seed) for task in evaluator.suite.of(Split.FIX)[:12] for seed in (1,)]
    plain, default = (
        sum(outcome.score for outcome in evaluator.run(SCAFFOLDS / name, jobs)) for name in ("plain", "default")
    )
    assert default > plain


def test_the_same_seed_gives_the_same_episode(evaluator: Evaluator) -> None:
    jobs = [Job(task=task, seed=5) for task in evaluator.suite.of(Split.FIX)[:4]]
    once, again = (evaluator.run(SCAFFOLDS / "default", jobs, traced=True) for _ in range(2))
    assert [vars(outcome) for outcome in once] == [vars(outcome) for outcome in again]


def test_labels_that_say_nothing_cannot_be_guessed(evaluator: Evaluator) -> None:
    jobs = [Job(task=task, seed=seed) for task in evaluator.suite.of(Split.CANARY) for seed in (1, 2, 3)]
    assert all(outcome.score == 0.0 for outcome in evaluator.run(SCAFFOLDS / "default", jobs))


def test_a_foreign_scaffold_is_any_command_that_speaks_the_protocol(evaluator: Evaluator) -> None:
    program = (
        "import json, os, sys\n"
        "def call(request):\n"
        "    sys.stdout.write(json.dumps(request) + '\\n'); sys.stdout.flush()\n"
        "    return json.loads(sys.stdin.readline())\n"
        "assert os.environ['LATHE_TASK'].startswith('terminal')\n"
        "call({'op': 'tool', 'name': 'shell', 'args': {'command': 'grep -c ERROR app.log > n.txt'}})\n"
        "call({'op': 'tool', 'name': 'submit', 'args': {}})\n"
    )
    foreign = Evaluator(sandbox=evaluator.sandbox, suite=evaluator.suite, argv=("python3", "-c", program))
    outcome = foreign.run(SCAFFOLDS / "plain", [Job(task="sh_errors", seed=1)])[0]
    assert (outcome.score, outcome.ended) == (1.0, "submitted")


def test_labels_that_a_sandbox_would_show_are_refused(
    isolated: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib" / "python3.12" / "site-packages" / "sklearn" / "datasets").mkdir(parents=True)
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    with pytest.raises(NotPermitted, match="sklearn/datasets can be read"):
        Evaluator(sandbox=isolated, suite=read_suite())


def test_a_task_in_two_splits_is_refused(tmp_path: Path) -> None:
    shutil.copytree(STARTER / "fix_gcd", tmp_path / "fix_gcd")
    (tmp_path / "splits.json").write_text('{"fix": ["fix_gcd"], "gate": ["fix_gcd"]}')
    with pytest.raises(UserInputError, match="two splits"):
        read_suite(tmp_path)


def test_a_task_with_a_wrong_field_is_named(tmp_path: Path) -> None:
    shutil.copytree(STARTER / "fix_gcd", tmp_path / "fix_gcd")
    (tmp_path / "splits.json").write_text('{"fix": ["fix_gcd"]}')
    (tmp_path / "fix_gcd" / "task.json").write_text('{"kind": "riddle", "words": "", "submit": ["x"], "visible": {}}')
    with pytest.raises(UserInputError, match="kind"):
        read_suite(tmp_path)
