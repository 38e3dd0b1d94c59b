"""Beginning, stopping, resuming a training: real processes, real store."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from small_project import SmallProject, commit, descendant, git, until

from context_store.records import NewRun
from contracts.enums import RunRole, RunState
from contracts.errors import ConfigError, LogFormatError, NotFound, RepositoryError, UserInputError
from contracts.events import Metrics, read_events
from control_plane.backends.segment import finished_event, is_running
from control_plane.projects import register_project
from control_plane.trainings import TrainingRequest, follow
from control_plane.upkeep import Upkeep
from control_plane.wiring import Lathe


def request(lathe: Lathe, small: SmallProject, **changes: object) -> TrainingRequest:
    project = register_project(lathe.store, small.folder)
    wish = TrainingRequest(run_id="run-1", project=project, commit=small.bad, max_step=25)
    return dataclasses.replace(wish, **changes)  # type: ignore[arg-type]


def test_a_training_lands_in_the_store(lathe: Lathe, small_project: SmallProject) -> None:
    outcome = follow(lathe.backend, lathe.shipper, lathe.trainings.begin(request(lathe, small_project)))
    assert outcome.reason == "completed"
    run = lathe.store.runs.get("run-1")
    assert (run.state, run.last_step) == (RunState.COMPLETED, 25)
    assert lathe.store.series.read("run-1", "loss").values[-1] == 4.0 + 0.5 * 25
    assert lathe.store.runs.segments("run-1")[0].code_version == small_project.bad


def test_the_same_run_id_is_the_same_training(lathe: Lathe, small_project: SmallProject) -> None:
    wish = request(lathe, small_project)
    assert lathe.trainings.begin(wish) == lathe.trainings.begin(wish)


def test_edits_after_the_start_do_not_reach_the_training(lathe: Lathe, small_project: SmallProject) -> None:
    launch = lathe.trainings.begin(request(lathe, small_project))
    (small_project.folder / "recipe.py").write_text("half an edit")
    assert follow(lathe.backend, lathe.shipper, launch).reason == "completed"


def test_a_stopped_training_goes_on_in_a_new_segment(lathe: Lathe, small_project: SmallProject) -> None:
    launch = lathe.trainings.begin(request(lathe, small_project, overrides={"step_s": 0.05}, max_step=1000))
    lathe.backend.submit(launch)
    until(lambda: lathe.shipper.ship("run-1", launch.folder) > 0)
    with pytest.raises(UserInputError, match="being trained"):
        lathe.trainings.go_on("run-1")
    lathe.backend.cancel("run-1", 0)
    stopped = follow(lathe.backend, lathe.shipper, launch, submit=False)
    assert stopped.reason == "stopped"
    resumed = lathe.trainings.go_on("run-1", overrides={"step_s": 0.0}, max_step=stopped.last_step + 10)
    assert resumed.segment == 1
    assert follow(lathe.backend, lathe.shipper, resumed).reason == "completed"
    segments = lathe.store.runs.segments("run-1")
    assert [segment.start_step for segment in segments] == [0, stopped.last_step]
    assert lathe.store.runs.get("run-1").last_step == stopped.last_step + 10


def test_a_training_that_crashed_goes_on_in_its_segment(lathe: Lathe, small_project: SmallProject) -> None:
    launch = lathe.trainings.begin(request(lathe, small_project, overrides={"step_s": 0.02}, max_step=60))
    lathe.backend.submit(launch)
    until(lambda: (launch.folder / "checkpoints" / "step-000010").exists())
    lathe.backend.close()
    until(lambda: not is_running(launch.folder, 0))
    assert lathe.trainings.go_on("run-1") == launch
    assert follow(lathe.backend, lathe.shipper, launch).reason == "completed"
    assert lathe.store.series.read("run-1", "loss").steps.tolist() == list(range(1, 61))


def test_a_training_whose_process_dies_is_marked_with_the_reason(lathe: Lathe, small_project: SmallProject) -> None:
    wish = request(lathe, small_project, overrides={"die_at": 25})
    outcome = follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    assert outcome.reason == "died"
    run = lathe.store.runs.get("run-1")
    assert run.state == RunState.FAILED
    assert "SIGKILL" in run.message


def test_a_training_whose_process_is_killed_is_started_again(lathe: Lathe, small_project: SmallProject) -> None:
    """From its last checkpoint, in its segment; one that was to stop stays stopped."""
    launch = lathe.trainings.begin(request(lathe, small_project, overrides={"step_s": 0.02}, max_step=60))
    killed: list[int] = []

    def kill_once() -> None:
        if not killed and (launch.folder / "checkpoints" / "step-000010").exists():
            training = descendant("segment-000/launch.json")
            killed.append(training.pid)
            for each in [training, *training.children()]:
                each.kill()

    assert follow(lathe.backend, lathe.shipper, launch, on_poll=kill_once).reason == "completed"
    assert killed
    assert lathe.store.runs.get("run-1").state == RunState.COMPLETED
    log = read_events(launch.folder / "segment-000" / "events.log")
    steps = [read.event.step for read in log if isinstance(read.event, Metrics)]
    assert (steps.count(1), set(steps)) == (1, set(range(1, 61)))


def test_what_another_process_left_is_loaded_and_marked(lathe: Lathe, small_project: SmallProject) -> None:
    launch = lathe.trainings.begin(request(lathe, small_project, overrides={"step_s": 0.05}, max_step=1000))
    lathe.shipper.begin(launch)
    lathe.backend.submit(launch)
    until(lambda: (launch.folder / "segment-000" / "events.log").exists())
    lathe.backend.close()
    until(lambda: not is_running(launch.folder, 0))
    soon, much_later = 0.0, 1e12
    assert lathe.shipper.catch_up(soon) > 0
    assert lathe.store.runs.get("run-1").state == RunState.RUNNING
    lathe.shipper.catch_up(much_later)
    assert lathe.store.runs.get("run-1").state == RunState.STOPPED


def test_a_commit_that_nobody_has_read_yet_is_read(lathe: Lathe, small_project: SmallProject) -> None:
    """A search for the cause must know the history between the two; one that no branch holds is refused in words."""
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(request(lathe, small_project)))
    (small_project.folder / "recipe.py").write_text("SLOPE = 0.25\n")
    later = commit(small_project.folder, "flatter")
    lathe.trainings.go_on("run-1", commit=later, max_step=60)
    project = lathe.store.runs.get("run-1").project_id
    assert [each.hash for each in lathe.store.code.commits(project, small_project.bad, later)] == [later]
    (small_project.folder / "recipe.py").write_text("SLOPE = 0.125\n")
    lost = commit(small_project.folder, "lost")
    git(small_project.folder, "reset", "-q", "--hard", later)
    with pytest.raises(RepositoryError, match="no branch") as caught:
        lathe.trainings.go_on("run-1", commit=lost, max_step=60)
    assert "git branch" in caught.value.remedy


def test_a_run_without_its_folder_cannot_go_on(lathe: Lathe, small_project: SmallProject) -> None:
    """Also a damaged or missing launch file is said clearly."""
    launch = lathe.trainings.begin(request(lathe, small_project))
    file = launch.folder / "segment-000" / "launch.json"
    file.write_text('{"run_id": ')
    with pytest.raises(LogFormatError, match=r"launch\.json is damaged"):
        lathe.trainings.go_on("run-1")
    file.unlink()
    with pytest.raises(NotFound, match=r"launch\.json is gone"):
        lathe.trainings.go_on("run-1")
    shutil.rmtree(launch.folder)
    with pytest.raises(UserInputError, match="has no segment") as caught:
        lathe.trainings.go_on("run-1")
    assert "lathe train" in caught.value.remedy


def test_an_unfinished_run_is_loaded_however_old_it_is(lathe: Lathe, small_project: SmallProject) -> None:
    """Behind more finished runs than one page holds."""
    launch = lathe.trainings.begin(request(lathe, small_project))
    lathe.backend.submit(launch)
    until(lambda: finished_event(launch.folder, 0) is not None)
    project = lathe.store.runs.get("run-1").project_id
    for number in range(201):
        later = NewRun(id=f"later-{number}", project_id=project, name="later", role=RunRole.TRAINING, folder="none")
        lathe.store.runs.create(later)
        lathe.store.runs.set_state(later.id, RunState.COMPLETED)
    assert lathe.shipper.catch_up(0.0) > 0
    assert lathe.store.runs.get("run-1").state == RunState.COMPLETED


def test_a_folder_without_a_recipe_is_no_project(lathe: Lathe, small_project: SmallProject) -> None:
    git(small_project.folder, "rm", "-q", "recipe.py")
    with pytest.raises(ConfigError, match=r"no recipe\.py"):
        register_project(lathe.store, Path(small_project.folder))


def test_a_project_has_an_owner_and_its_changes_are_linked_by_themselves(
    lathe: Lathe, small_project: SmallProject
) -> None:
    """Shows R801-2.5 (a change, the fields it reads, the statistics it bears on), without anybody asking."""
    project = register_project(lathe.store, small_project.folder, owner="ada")
    assert register_project(lathe.store, small_project.folder, owner="bob").owner == "ada"
    (small_project.folder / "late.py").write_text("def late(config):\n    return config.slope\n")
    late = commit(small_project.folder, "late")
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(request(lathe, small_project, commit=late)))
    Upkeep(lathe).step()
    assert {(link.path, link.field) for link in lathe.store.links.of_commit(project.id, late)} == {("late.py", "slope")}
