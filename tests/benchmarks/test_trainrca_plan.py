"""What the root-cause benchmark is made of: its plan, its decoys, its kinds. Nothing is trained here."""

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.trainrca.decoys import decoys
from benchmarks.trainrca.editing import Config, Data, Repo
from benchmarks.trainrca.kinds import FAMILIES, Kind, all_kinds, load_kinds
from benchmarks.trainrca.making import PROJECTS, RESUMES, lay_out
from benchmarks.trainrca.plan import HEALTHY, LARGE_COMMITS, LARGE_FIELDS, LOOK_ALIKES, Wanted, plan
from contracts.enums import CauseKind
from contracts.errors import UserInputError
from control_plane.demo.changes import apply
from control_plane.git import Git

KINDS = {kind.name: kind for kind in all_kinds()}
PLAN = plan(list(KINDS.values()))


def test_the_plan_holds_what_the_benchmark_promises() -> None:
    healthy = [each for each in PLAN if each.kind == HEALTHY]
    broken = [each for each in PLAN if each.kind != HEALTHY]
    pairs = [each for each in broken if KINDS[each.kind].family == "interaction"]
    assert len(PLAN) >= 150
    assert len(healthy) >= 50
    assert any(each.num_decoys == 0 for each in healthy)  # plain seed noise
    assert len(KINDS) >= 30
    assert {kind.family for kind in KINDS.values()} | {HEALTHY} == set(FAMILIES)
    assert len(pairs) >= 0.1 * len(PLAN)
    assert sum(each.trainer == "huggingface" for each in PLAN) >= 0.15 * len(PLAN)
    assert sum(each.trainer == "moe" for each in PLAN) >= 0.2 * len(PLAN)
    assert {name for each in PLAN for name in each.hardness} == {"injected", "large", "no_checkpoints", "few_series"}


def test_an_id_says_nothing_of_its_kind_and_belongs_to_one_case() -> None:
    assert len({each.id for each in PLAN}) == len(PLAN)
    assert not [each.id for each in PLAN if each.kind in each.id or HEALTHY in each.id]


def test_the_beginning_of_the_plan_is_a_mixture() -> None:
    beginning = PLAN[:24]
    assert {each.trainer for each in beginning} == {"clusters", "huggingface", "moe"}
    assert 3 <= sum(each.kind == HEALTHY for each in beginning) <= 10
    assert len({each.kind for each in beginning}) >= 12


def test_cases_of_a_group_come_in_the_order_of_their_ids() -> None:
    for group in range(1, len(LOOK_ALIKES) + 1):
        team = sorted((each for each in PLAN if each.group == group), key=lambda each: each.id)
        assert [each.turn for each in team] == [0, 1, 2]
        assert team[0].recurrence == "first"
        assert {each.recurrence for each in team[1:]} == {"repeat", "look_alike"}  # the id does not say which is which
        assert len({each.project_name for each in team}) == 1


@pytest.mark.parametrize("trainer", PROJECTS)
def test_every_kind_fits_its_project(trainer: str, tmp_path: Path) -> None:
    for kind in (each for each in KINDS.values() if each.trainer == trainer):
        folder = tmp_path / kind.name
        shutil.copytree(PROJECTS[trainer], folder, ignore=shutil.ignore_patterns("__pycache__"))
        repo = Repo(folder, 1, iter(()))
        repo.begin()
        config = Config(repo=repo, file="config.json")
        cause = kind.apply(config, repo, Data(repo=repo, file="data.json"))
        commits = [target for target in cause.targets if target.startswith("commit:")]
        made = Git(folder)("rev-list", "HEAD").split()[:-1]
        assert {target.removeprefix("commit:") for target in commits} == set(made), kind.name
        assert cause.targets, kind.name
        assert cause.cause_kind is not CauseKind.NONE, kind.name
        assert len(cause.targets) > 1 or kind.family != "interaction", kind.name


@pytest.mark.parametrize("trainer", PROJECTS)
def test_decoys_fit_whatever_their_order(trainer: str, tmp_path: Path) -> None:
    for seed in range(4):
        folder = tmp_path / f"{seed}"
        shutil.copytree(PROJECTS[trainer], folder, ignore=shutil.ignore_patterns("__pycache__"))
        for change in islice(decoys(folder, trainer, seed), 60):
            if change.edits[0].before:
                apply(change, folder)


def test_a_large_case_has_as_many_commits_and_fields_as_it_says(tmp_path: Path) -> None:
    wanted = Wanted(kind="labels_moved", trainer="clusters", seed=3, num_decoys=5, hardness=("large",))
    case, truth = lay_out(wanted, KINDS, tmp_path / "project")
    git = Git(tmp_path / "project")
    before, after = (
        json.loads(git("show", f"{segment.commit}:config.json")) for segment in (case.segments[0], case.segments[-1])
    )
    moved = [f"{s}.{f}" for s, fields in before.items() for f in fields if fields[f] != after[s][f]]
    count = int(git("rev-list", "--count", f"{case.segments[0].commit}..{case.segments[-1].commit}"))
    assert count == LARGE_COMMITS + 1
    assert len(moved) >= LARGE_FIELDS
    assert truth.first_step == RESUMES["clusters"][-1] + 1


def test_equal_wishes_give_equal_histories_and_a_fault_reverts_alone(tmp_path: Path) -> None:
    wanted = Wanted(kind="labels_moved", trainer="clusters", seed=5, num_decoys=9, hardness=("injected",))
    cases = [lay_out(wanted, KINDS, tmp_path / name / "project") for name in ("a", "b")]
    assert cases[0] == cases[1]
    git = Git(tmp_path / "a" / "project")
    git("revert", "--no-edit", cases[0][1].targets[0].removeprefix("commit:"))
    assert "np.roll" not in (tmp_path / "a" / "project" / "pages.py").read_text()


def test_what_is_read_of_a_case_does_not_name_its_kind(tmp_path: Path) -> None:
    wanted = next(each for each in PLAN if each.kind == "machine_changes_numbers")
    case, truth = lay_out(wanted, KINDS, tmp_path / "project")
    assert wanted.kind not in case.model_dump_json()
    assert (truth.answer, truth.cause_kind, case.machine) == ("cannot_tell", CauseKind.ENVIRONMENT, "0.6")


def test_kinds_of_a_file_are_read_and_others_are_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    text = (
        "from benchmarks.trainrca.kinds import CODE, Cause, Kind\n"
        "def apply(config, repo, data):\n"
        "    return Cause(targets=(config.set('a', 'b', 'c'),), cause_kind=CODE)\n"
        "KINDS = [Kind(name='mine', family='FAMILY', trainer='clusters', apply=apply, late=True)]\n"
    )
    good.write_text(text.replace("FAMILY", "data"))
    bad.write_text(text.replace("FAMILY", "weather"))
    kinds = load_kinds(good)
    assert [(kind.name, kind.late) for kind in kinds] == [("mine", True)]
    assert isinstance(kinds[0], Kind)
    with pytest.raises(UserInputError, match="known family"):
        load_kinds(bad)
