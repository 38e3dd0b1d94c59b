"""What a store cannot take: it is left out or put aside, and never keeps anything else back."""

from __future__ import annotations

from elsewhere import SEND_SPOOL, ApiProcess, Trainings, points

from context_store import Store
from contracts.enums import TimelineKind


def test_odd_names_and_texts_do_not_keep_a_log_back(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    trainings.run(
        r"""
config = {"a\ud800": "\ud800", "nul\0": "x\0y", "big": "x" * 5_000_000, "seed": 2**70}
run = lathe_log.init("my\0 project/1", "a b/c", "n\0" * 999, config=config, code_version="v" * 999, start_step=-3)
import numpy
run.config({"k\ud800": "v\0", "whole": numpy.int64(3), "seed": 2**70})
run.log({"loss\ud800": 1.0})
assert run.finish()
"""
    )
    (run,) = store.runs.list()
    assert (run.id, run.project_id, len(run.name)) == ("a-b-c", "my-project-1", 500)
    assert store.runs.declared("a-b-c", 0) == {"k?": "v", "whole": 3, "seed": 2**70}
    assert points(store, "a-b-c", "loss?") == [(0, 1, 1.0)]


def test_a_refused_line_does_not_keep_the_others_back(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    trainings.run(
        """
run = lathe_log.init("p", run="r")
run.log({"loss": 1.0})
note = {"kind": "note", "step": 1, "what": "surprise", "title": "of no known kind", "detail": {}, "wall_time": 1.0}
run._write(note, 1)  # as a client of a later version may
run.log({"loss": 2.0})
assert run.flush() is False, "not everything is in the database"
run.log({"loss": 3.0})
assert run.flush() is True
assert run.finish() is False
"""
    )
    assert points(store, "r") == [(0, 1, 1.0), (0, 2, 2.0), (0, 3, 3.0)]
    assert b"of no known kind" in (trainings.spool / "refused.txt").read_bytes()


def test_what_no_store_takes_is_left_out_before_it_is_sent(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    trainings.run(
        """
run = lathe_log.init("p", run="r", config={"nul\\0key": "a\\0b", "list": ["c\\0d"]})
run.log({"": 1.0, "loss": 2.0}, step=1)
run.log({"loss": 3.0}, step=2**64)
run.event("a\\0title", detail={"k": "\\0"})
run.event("of no known kind", kind="surprise")
assert run.finish()
"""
    )
    assert points(store, "r") == [(0, 1, 2.0)]
    assert store.runs.declared("r", 0) == {"nulkey": "ab", "list": '["cd"]'}
    assert [event.title for event in store.timeline.list("r", kinds=[TimelineKind.NOTE])] == ["atitle"]
    assert not (trainings.spool / "refused.txt").exists()


def test_names_of_any_script_stay_different_runs(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    for name in ("тест", "проба", "実験1"):
        trainings.run(f"run = lathe_log.init('проект', run={name!r}); run.log({{'loss': 1.0}}); assert run.finish()")
    runs = store.runs.list()
    assert len({run.id for run in runs}) == 3
    assert len({run.project_id for run in runs}) == 1
    assert all(store.runs.segments(run.id)[-1].number == 0 for run in runs)


def test_a_refused_log_does_not_keep_the_others_back(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    """Here: a fork of a run that nobody knows yet; it is taken as soon as its parent is there."""
    for run, parent in (("fork", "('later', 1)"), ("other", "None")):
        trainings.run(
            f"run = lathe_log.init('p', run={run!r}, parent={parent}); run.log({{'loss': 1.0}}); run.finish()"
        )
    api.start()
    assert trainings.run(SEND_SPOOL).startswith("sent 1 logs")
    assert [run.id for run in store.runs.list()] == ["other"]
    trainings.run("run = lathe_log.init('p', run='later'); run.log({'loss': 1.0}); assert run.finish()")
    trainings.run(SEND_SPOOL)
    assert store.runs.get("fork").parent_run_id == "later"
    assert list(trainings.spool.iterdir()) == []
