"""Suspects beside commits and fields of a resume: what differs from a fork's parent, and what came in mid-segment."""

from __future__ import annotations

from collections.abc import Callable

from synthetic import CUTS, Stretch
from world import ATTENTION, NOW, OUTSIDE, README, REPORT, SCALE, World

from context_store.records import Anomaly, NewRun, TimelineEvent
from contracts.enums import RunRole, TimelineKind, Verdict
from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.measure import Probe, Reading
from loops.debug.ranking import rank
from loops.debug.suspects import find_scene
from loops.debug.view import view_run
from loops.runner import Runner


def fork(world: World, head: str, start: int) -> None:
    """Run `fork`, from a checkpoint of run `first`, with the code of `head`."""
    folder = world.folder / "fork"
    world.store.runs.create(
        NewRun(
            id="fork", project_id="project", name="fork", role=RunRole.TRAINING, folder=str(folder),
            parent_run_id="first", parent_step=start,
        )
    )  # fmt: skip
    world._segment("fork", folder, 0, head, 1, Stretch(start=start, end=CUTS[2], code=world.code(head)), 4)
    world.store.ingest.ship("fork", folder)


def opened(world: World, run_id: str) -> str:
    """A case of a run as its detectors open it."""
    case_id = open_case(world.store, run_id, detect(world.store, run_id), NOW)
    assert case_id is not None
    return case_id


def test_what_a_fork_changed_against_its_parent_is_under_suspicion(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """The fork has no step of its own from before: its parent's last segment is the last known good state."""
    heads = world.lay_out([REPORT], [README, ATTENTION, SCALE])
    world.train("first", heads[:2])
    fork(world, heads[2], 110)
    world.train("whole", heads)  # the same steps in one run: what is found there is there in the fork as well
    case_id = open_case(world.store, "fork", detect(world.store, "whole"), NOW)
    assert case_id is not None
    scene = load_case(world.store, case_id).scene
    assert scene is not None
    assert (scene.parent, scene.good, scene.faulty) == ("first", heads[1], heads[2])
    assert "the fork from first at step 110 itself" in {factor.title for factor in scene.factors}
    new_runner().start("debug", case_id)
    verdict = world.store.knowledge.verdicts(case_id)[0]
    assert verdict.verdict is Verdict.PROVEN, verdict.statement
    assert verdict.suspect_keys == (f"commit:{world.commits[SCALE.subject]}",)
    assert "was forked from run `first` there" in world.store.knowledge.report(case_id)


def note(world: World, step: int, title: str) -> None:
    world.store.timeline.add(
        TimelineEvent(run_id="run", segment=2, step=step, kind=TimelineKind.NOTE, title=title, at=NOW)
    )


def test_what_came_in_the_middle_of_a_segment_is_listed_and_said_to_be_confounded(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """Nothing of it can be left out of a re-run; what came closer before the onset ranks higher."""
    world.unseen = OUTSIDE
    world.train("run", world.lay_out([REPORT], [ATTENTION]))
    onset = detect(world.store, "run")[0].onset
    note(world, onset[1], "the storage was remounted")
    note(world, onset[1] + 1, "too late to matter")
    case_id = opened(world, "run")
    new_runner().start("debug", case_id)
    titles = [suspect.title for suspect in world.store.knowledge.suspects(case_id)]
    assert f"the storage was remounted at step {onset[1]}" in titles
    assert not any("too late" in title for title in titles)
    case = world.store.knowledge.investigation(case_id)
    assert case.verdict is Verdict.CANNOT_TELL
    assert "confounded with" in case.statement
    assert "the storage was remounted" in case.statement


def test_changes_near_the_onset_rank_higher(world: World) -> None:
    world.train("run", world.lay_out([REPORT], [SCALE]))
    note(world, 113, "a disk was full")
    note(world, 160, "another disk was full")
    anomaly = Anomaly(
        run_id="run", kind="drift", series=("loss",), onset=(162, 165), severity=0.5, statement="", evidence=(),
        probe=Probe(
            series=("loss",), reading=Reading.LEVEL, normal=(1.0,), anomalous=(2.0,), noise=(0.1,), since=165, until=170
        ).to_json(),
    )  # fmt: skip
    scene = find_scene(world.store, view_run(world.store, "run"), anomaly.onset)
    assert scene is not None
    notes = [r for r in rank(world.store, scene, [anomaly]) if r.factor.step is not None]
    assert [r.factor.step for r in notes] == [160, 113]
    assert "newly in force at step 160, 1 steps before it began" in notes[0].reason
