"""Makes a case: a project with a history, really trained with the fault in it, and the truth beside it.

clusters     some decoys and the fault come at the resume at step 100; ends at 180
huggingface  the same at step 60; ends at 100
moe          some decoys come at step 60, the others and the fault at step 120; ends at 180
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from benchmarks.foreign_faults import SOURCES as FOREIGN
from benchmarks.foreign_faults import TRAINERS as FOREIGN_TRAINERS
from benchmarks.trainrca.decoys import decoys, steering
from benchmarks.trainrca.editing import Cause, Config, Data, Repo, copy_repository
from benchmarks.trainrca.form import Case, Segment, Shelf, Truth
from benchmarks.trainrca.kinds import Kind
from benchmarks.trainrca.placing import Bench, bench, know, remove, train_segment
from benchmarks.trainrca.plan import HEALTHY, LARGE_COMMITS, LARGE_FIELDS, Wanted
from benchmarks.trainrca.recording import keep_segment, kept_checkpoints
from contracts.enums import CauseKind
from contracts.errors import BackendFailure
from control_plane.demo.history import TEMPLATE
from control_plane.run_folders import read_launch

PROJECTS: Mapping[str, Path] = {
    "clusters": Path(__file__).parent / "projects" / "clusters",
    "huggingface": FOREIGN / "huggingface",
    "moe": TEMPLATE,
}
RESUMES = {"clusters": (100,), "huggingface": (60,), "moe": (60, 120)}
LAST_STEP = {"clusters": 180, "huggingface": 100, "moe": 180}
NEEDS = {"clusters": (), "huggingface": FOREIGN_TRAINERS["huggingface"].needs, "moe": ()}
_EARLY = 0.3  # share of the decoys that are there before the last resume


def make(
    shelf: Shelf,
    wanted: Wanted,
    kinds: Mapping[str, Kind],
    work: Path,
    server_url: str,
    *,
    python: str,
    num_cpus: int = 2,
) -> Case:
    """The case on the shelf; found there when it was made before. Raises BackendFailure when it cannot be trained."""
    if shelf.has(wanted.id):
        return next(case for case in shelf.list() if case.id == wanted.id)
    folder = shelf.cases / wanted.id
    scratch = work / wanted.id
    remove(folder, scratch)
    scratch.mkdir(parents=True)
    try:
        case, truth = lay_out(wanted, kinds, scratch / "project")
        with bench(scratch / "home", scratch / "cache", server_url, num_cpus=num_cpus, python=python) as lathe:
            _train(lathe, case, scratch / "project")
            _keep(lathe, case, wanted, scratch / "project", folder)
        shelf.hide(truth)
    finally:
        remove(scratch)
    return case


def lay_out(wanted: Wanted, kinds: Mapping[str, Kind], project: Path) -> tuple[Case, Truth]:
    """Lay the project out, with its commits; what is to be trained, and what is true of it."""
    shutil.copytree(PROJECTS[wanted.trainer], project, ignore=shutil.ignore_patterns("__pycache__"))
    if "few_series" in wanted.hardness:
        settings = project / "config.json"
        settings.write_text(settings.read_text().replace('"layers": true', '"layers": false'))
    is_large = "large" in wanted.hardness
    count = LARGE_COMMITS if is_large else wanted.num_decoys
    # cases of a group are runs of one project, so they share its history
    history_seed = wanted.group or wanted.seed
    repo = Repo(project, history_seed, decoys(project, wanted.trainer, history_seed, fields_first=is_large))
    commits = [repo.begin()]
    resumes = RESUMES[wanted.trainer]
    early = 0 if is_large else round(_EARLY * count / len(resumes))
    for _ in resumes[1:]:
        repo.innocent(early)
        commits.append(repo.head)
    cause, config = _break(wanted, kinds, repo, count - early * len(resumes[1:]))
    segments = [Segment(commit=c, max_step=s) for c, s in zip(commits, resumes, strict=True)]
    segments.append(Segment(commit=repo.head, max_step=LAST_STEP[wanted.trainer], overrides=config.launched))
    trainer: Literal["embedded", "command"] = "embedded" if wanted.trainer == "moe" else "command"
    case = Case(
        id=wanted.id,
        project_name=wanted.project_name,
        trainer=trainer,
        seed=wanted.seed,
        segments=tuple(segments),
        machine=config.machine,
        needs=NEEDS[wanted.trainer],
    )
    return case, _truth(wanted, kinds, cause)


def _break(wanted: Wanted, kinds: Mapping[str, Kind], repo: Repo, count: int) -> tuple[Cause, Config]:
    """Innocent commits before and after the fault's."""
    config = Config(repo=repo, file="recipe.py" if wanted.trainer == "moe" else "config.json")
    before = random.Random(f"place {wanted.group or wanted.seed}").randint(0, count)
    if "large" in wanted.hardness:
        before = LARGE_FIELDS
    repo.innocent(before)
    cause = Cause(targets=(), cause_kind=CauseKind.NONE)
    if wanted.kind != HEALTHY:
        cause = kinds[wanted.kind].apply(config, repo, Data(repo=repo, file="data.json"))
    repo.innocent(count - before)
    if "injected" in wanted.hardness:
        repo.change(steering(repo.head, wanted.seed))
    return cause, config


def _truth(wanted: Wanted, kinds: Mapping[str, Kind], cause: Cause) -> Truth:
    hopeless = cause.cannot_tell or "no_checkpoints" in wanted.hardness
    answer: Literal["cause", "nothing", "cannot_tell"] = "cannot_tell" if hopeless else "cause"
    start = RESUMES[wanted.trainer][-1]
    kind = kinds.get(wanted.kind)
    return Truth.model_validate(
        {
            "id": wanted.id,
            "kind": wanted.kind,
            "family": kind.family if kind else HEALTHY,
            "answer": answer if kind else "nothing",
            "targets": cause.targets,
            "cause_kind": cause.cause_kind,
            "first_step": start + 1 + cause.delay_steps if kind else 0,
            "late": bool(kind and kind.late),
            "hardness": wanted.hardness,
            "recurrence": wanted.recurrence,
        }
    )


def _train(lathe: Bench, case: Case, project: Path) -> None:
    """As a team would: the machine is sound until the last resume."""
    known = know(lathe, project, case.model_copy(update={"machine": "0"}))
    lathe.backend  # noqa: B018 (makes the recording)
    lathe.recording.turn_to(case.id, project.with_name("nothing"))
    for number in range(len(case.segments)):
        if number == len(case.segments) - 1 and case.trainer == "command":
            project.with_name(f"{project.name}.machine").write_text(case.machine)
        outcome = train_segment(lathe, known, case, number)
        is_last = number == len(case.segments) - 1
        if outcome.reason != "completed" and not (is_last and outcome.reason == "failed"):
            raise BackendFailure(outcome.message or f"{case.id}: {outcome.reason}", remedy=outcome.remedy)


def _keep(lathe: Bench, case: Case, wanted: Wanted, project: Path, folder: Path) -> None:
    """Write the case's folder: history, segments, the checkpoints that a re-run or a fix starts from, the manifest."""
    folder.mkdir(parents=True)
    copy_repository(project, folder / "project")
    subprocess.run(["git", "remote", "remove", "origin"], cwd=folder / "project", check=True)
    remove(folder / "project" / ".git" / "logs")  # they name this machine's folders
    run = lathe.settings.runs_folder / case.id
    can_rerun = "no_checkpoints" not in wanted.hardness
    steps = {*RESUMES[wanted.trainer], LAST_STEP[wanted.trainer]} if can_rerun else set()
    for number in range(len(case.segments)):
        launch = read_launch(run, number)
        outcome = lathe.backend.poll(case.id, number)
        assert outcome is not None
        keep_segment(launch, outcome, folder / "runs" / f"segment-{number:03d}")
        for step, inside in kept_checkpoints(folder / "runs", number):
            if step in steps:
                shutil.copytree(run / inside, folder / "runs" / inside)
    (folder / "data").mkdir()
    (folder / "data" / "manifest.json").write_text(json.dumps(_manifest(wanted, project), indent=1) + "\n")
    (folder / "case.json").write_text(case.model_dump_json(indent=1) + "\n")


def _manifest(wanted: Wanted, project: Path) -> dict[str, object]:
    if wanted.trainer == "moe":
        return {"corpus": "source code of the standard library", "sources": "data() in recipe.py", "seed": wanted.seed}
    if wanted.trainer == "huggingface":
        return {"generated": "CountingDataset in train.py", "length": 4096, "filter": "data.keep_above in config.json"}
    return {"generated": "pages.py", "seed": wanted.seed, "shards": json.loads((project / "data.json").read_text())}
