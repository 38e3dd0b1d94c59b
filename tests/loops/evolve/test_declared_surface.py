"""Scaffolds of others say themselves what may be changed; our operators change that, in whole rounds.

Shows RM2-7.23 for a scaffold that is not of our format.
"""

import json
from pathlib import Path

import pytest

from contracts.errors import NotPermitted, UserInputError
from loops.evolve import operators
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive
from loops.evolve.control import control
from loops.evolve.declared import declared, surface_of
from loops.evolve.evaluation import Evaluator, Job
from loops.evolve.failures import Finding
from loops.evolve.journal import FolderJournal
from loops.evolve.plan import Plan
from loops.evolve.proposer import Operators
from loops.evolve.replay import differences
from loops.evolve.rounds import Evolution

MANIFEST = """
editable = ["notes/*.md"]
settings = "config.json"

[parameters.tries]
values = [1, 4]
bears_on = ["temporary"]

[parameters.patience]
low = 0.0
high = 1.0
step = 0.5

[mechanisms]
steps = ["look", "work"]
"""
AGENT = """
import json, os, re, sys

CONFIG = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json")))


def tool(name, **args):
    sys.stdout.write(json.dumps({"op": "tool", "name": name, "args": args}) + "\\n")
    sys.stdout.flush()
    answer = json.loads(sys.stdin.readline())
    return answer["text"] if "text" in answer else sys.exit(0)


task = os.environ["LATHE_TASK"]
if "look" in CONFIG["steps"]:
    tool("list_files")
if "work" in CONFIG["steps"]:
    script, out = re.search(r"script (\\S+),", task), re.search(r"to (\\S+)$", task)[1]
    command = f"sh {script[1]} > {out}" if script else "grep -c ERROR app.log > n.txt"
    for _ in range(CONFIG["tries"]):
        tool("shell", command=command)
tool("submit")
"""
FILES = {
    "agent.py": AGENT,
    "config.json": json.dumps({"tries": 1, "patience": 0.5, "steps": ["look"], "name": "theirs"}, indent=1) + "\n",
    "notes/why.md": "Written by somebody else.\n",
    "scaffold.toml": MANIFEST,
}
ARGV = ("python3", "/inputs/scaffold/agent.py")


def _files(manifest: str) -> dict[str, str]:
    return {**FILES, "scaffold.toml": manifest}


def test_every_declared_move_can_be_applied_and_stays_within_the_declared_surface() -> None:
    surface = surface_of(FILES)
    names = [move.name for move in operators.moves(FILES)]
    assert names == ["set tries 4", "set patience 0.0", "set patience 1.0", "remove steps look", "add steps work"]
    for move in operators.moves(FILES):
        after = operators.apply(FILES, move)
        surface.check(FILES, after, ())
        assert after != FILES
    more = operators.apply(FILES, operators.moves(FILES)[-1])
    assert json.loads(more["config.json"])["steps"] == ["look", "work"]
    assert json.loads(more["config.json"])["name"] == "theirs"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("agent.py", "print()\n"),
        ("scaffold.toml", MANIFEST.replace("[1, 4]", "[1, 4, 400]")),
        ("params.json", "{}\n"),
        ("config.json", FILES["config.json"].replace('"tries": 1', '"tries": 2')),
        ("config.json", FILES["config.json"].replace("0.5", "1.5")),
        ("config.json", FILES["config.json"].replace('"look"', '"cheat"')),
        ("config.json", FILES["config.json"].replace("theirs", "ours")),
        ("config.json", FILES["config.json"].replace('"name"', '"other"')),
    ],
)
def test_what_was_not_declared_is_refused_whoever_proposes_it(name: str, text: str) -> None:
    with pytest.raises(NotPermitted):
        surface_of(FILES).check(FILES, {**FILES, name: text}, ())


def test_what_is_declared_may_also_be_written_anew() -> None:
    fine = {"notes/why.md": "Other words.\n", "config.json": FILES["config.json"].replace("0.5", "0.7")}
    surface_of(FILES).check(FILES, {**FILES, **fine}, ())


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("editable = [", "at end of document"),
        ("", "nothing that may be changed"),
        ("colour = 'red'", "colour"),
        ("[parameters.tries]\nvalues = [1, 'many']", "many"),
        ("[parameters.tries]\nlow = 5\nhigh = 1\nstep = 1", "below"),
        ("[parameters.patience]\nlow = 0.0\nhigh = 1.0\nstep = 0.001", "larger `step`"),
        ("[parameters.tries]\nlow = 1\nhigh = 3", "`step`"),
        ("[parameters.tries]\nvalues = [1]\nlow = 1", "`values`"),
        ("[parameters.colour]\nvalues = [1]", "no JSON object in params.json"),
        ("settings = 'config.json'\n[parameters.colour]\nvalues = [1]", "colour does not stand in config.json"),
        ("settings = 'config.json'\n[parameters.tries]\nvalues = [2]\nbears_on = ['luck']", "luck"),
        ("settings = 'config.json'\n[mechanisms]\ntries = ['a']", "mechanisms.tries"),
        ("editable = ['../outside.py']", "outside"),
    ],
)
def test_a_bad_declaration_is_named_with_its_place(manifest: str, said: str) -> None:
    params = {"params.json": '{"tries": 1, "patience": 0.5}'}
    files = _files(manifest) | (params if "settings" not in manifest and "colour]" not in manifest else {})
    with pytest.raises(UserInputError, match=r"^scaffold\.toml: ") as caught:
        declared(files)
    assert said in caught.value.message
    assert caught.value.remedy


def test_a_folder_that_declares_nothing_is_told_how() -> None:
    with pytest.raises(UserInputError, match="nothing says what may be changed"):
        surface_of({"agent.py": AGENT})
    assert surface_of(control()[0]).editable


def test_failures_make_the_parameters_that_were_said_to_bear_on_them_likelier() -> None:
    finding = Finding(cause="temporary", sentence="", traces=("t",))
    own = declared(FILES)
    assert own is not None
    options = operators.moves(FILES)
    before = operators.weights(options, [], 2.0, own.bears_on)
    after = operators.weights(options, [finding], 2.0, own.bears_on)
    assert [move.what for move, a, b in zip(options, before, after, strict=True) if b > a] == ["tries"]


def test_a_foreign_command_goes_through_whole_rounds(place: Path, quick: Evaluator) -> None:
    """Its start solves nothing; the search finds the mechanism that works, and replays to the same decisions."""
    foreign = Evaluator(sandbox=quick.sandbox, suite=quick.suite, argv=ARGV)
    rule = Rule(rounds=4, effect=0.5, max_pairs=16, run_alpha=0.5)
    plan = Plan(run="theirs", suite_hash=quick.suite.hash, seed=4, rule=rule, block=8, fix_seeds=1)
    folder = place / "theirs"
    folder.mkdir()
    folder.chmod(0o755)
    archive = Archive.begin(folder / "archive.git", plan.run, FILES)
    journal = FolderJournal(folder / "journal.jsonl")
    run = Evolution(plan, journal, archive, foreign, folder=folder / "commits", proposer=Operators())
    while run.step():
        pass
    kept = [body for body in run.history.decisions if body["kept"]]
    reverted = [body for body in run.history.decisions if not body["kept"]]
    assert kept, run.history.decisions
    assert reverted
    last = archive.files(archive.incumbent)
    assert "work" in json.loads(last["config.json"])["steps"]
    assert {name for name in FILES if last[name] != FILES[name]} == {"config.json"}
    assert set(last) == set(FILES)
    score = foreign.run(archive.export(archive.incumbent, folder / "commits"), [Job(task="sh_errors", seed=1)])[0].score
    assert score == 1.0
    assert differences(journal, quick.suite, archive, folder / "again") == []
