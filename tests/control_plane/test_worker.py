"""The worker: effects and cases side by side, one worker or several on one database."""

from __future__ import annotations

import threading

import psycopg
import pytest
from case import CASE, diagnostic, train_bad_run
from small_project import SmallProject, until

from contracts.enums import EffectState, InvestigationState
from contracts.errors import BackendFailure
from control_plane.cli.investigate import work_on
from control_plane.given_up import failure_of, give_up
from control_plane.leases import WORKER, Leases
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Feed, Worker


def test_a_worker_works_until_it_is_told_to_stop(lathe: Lathe, small_project: SmallProject) -> None:
    train_bad_run(lathe, small_project)
    close_case(lathe)
    diagnostic(lathe, small_project)
    stop = threading.Event()
    others = Leases(lathe.store.url)
    seen: list[str] = []
    with Worker(lathe, name="worker-a") as worker, others:
        assert others.is_held(WORKER)
        feed = Feed(lathe.store, lambda activity: seen.append(activity.text), after=0)
        worker.run_until(lambda: lathe.store.effects.get("d1").state == EffectState.DONE, feed)
        timer = threading.Timer(0.3, stop.set)
        timer.start()
        worker.run_forever(stop)
    assert any("diagnostic_run rr-d1 begins" in text for text in seen)


def test_a_worker_that_ends_is_no_longer_announced(settings: Settings) -> None:
    """Also while its process lives on: a second case in one process must not wait for the first one's worker."""
    with Lathe.open(settings) as first, Lathe.open(settings) as second:
        with Worker(first, name="a"):
            assert second.leases.is_held(WORKER)
        assert not second.leases.is_held(WORKER)
        assert not first.leases.is_held(WORKER)


def test_two_workers_share_the_effects(lathe: Lathe, settings: Settings, small_project: SmallProject) -> None:
    train_bad_run(lathe, small_project)
    close_case(lathe)
    keys = [f"d{number}" for number in range(6)]
    for key in keys:
        diagnostic(lathe, small_project, key)
    with Lathe.open(settings) as other, Worker(lathe, name="a") as a, Worker(other, name="b") as b:

        def step() -> bool:
            a.step()
            b.step()
            return all(lathe.store.effects.get(key).state == EffectState.DONE for key in keys)

        until(step, timeout_s=30)
    effects = [lathe.store.effects.get(key) for key in keys]
    assert {effect.worker for effect in effects} == {"a", "b"}
    assert {effect.attempt for effect in effects} == {1}


def test_a_case_is_driven_by_one_worker_at_a_time(lathe: Lathe, settings: Settings) -> None:
    with Lathe.open(settings) as other:
        assert lathe.leases.try_take("case:1")
        assert not lathe.leases.try_take("case:1")
        assert not other.leases.try_take("case:1")
        lathe.leases.give("case:1")
        assert other.leases.try_take("case:1")


def test_a_case_that_cannot_go_on_is_told_and_raised(lathe: Lathe, small_project: SmallProject) -> None:
    """A case without anomalies cannot be loaded by the loop: a defect that must not be swallowed."""
    train_bad_run(lathe, small_project)
    with Worker(lathe, name="a") as worker, pytest.raises(IndexError, match="tuple index out of range"):
        worker.run_until(lambda: False, Feed(lathe.store, lambda _: None, after=0))
    failure = failure_of(lathe.store, CASE)
    assert failure is not None
    assert "a defect of Lathe: IndexError: tuple index out of range" in failure.message
    assert failure.remedy
    assert lathe.store.knowledge.investigation(CASE).statement.startswith("The search stopped: ")


def test_whoever_waits_for_a_given_up_case_is_told(
    lathe: Lathe, settings: Settings, small_project: SmallProject
) -> None:
    """With a worker elsewhere, which tries again because it was asked to, fails again, and says so."""
    train_bad_run(lathe, small_project)
    give_up(lathe.store, CASE, ValueError("earlier"), now=0.0)
    stop = threading.Event()
    ready = threading.Event()

    def work() -> None:
        with Lathe.open(settings) as other, Worker(other, name="background") as worker:
            ready.set()
            worker.run_forever(stop)

    background = threading.Thread(target=work)
    background.start()
    try:
        assert ready.wait(timeout=15)
        with pytest.raises(BackendFailure, match="given up: a defect of Lathe: IndexError"):
            work_on(lathe, CASE)
    finally:
        stop.set()
        background.join()


def test_a_full_disk_is_waited_for(lathe: Lathe, small_project: SmallProject) -> None:
    """The database says so until somebody makes room; then the work goes on."""
    train_bad_run(lathe, small_project)
    close_case(lathe)
    diagnostic(lathe, small_project)
    stop = threading.Event()
    worker = threading.Thread(target=work_until, args=[lathe, stop])
    with psycopg.connect(lathe.store.url, autocommit=True) as database:
        database.execute(NO_SPACE)
        try:
            worker.start()
            until(lambda: database.execute("SELECT last_value FROM refused").fetchone() >= (2,))
            database.execute("DROP FUNCTION refuse CASCADE; DROP SEQUENCE refused")
            until(lambda: lathe.store.effects.get("d1").state == EffectState.DONE)
        finally:
            stop.set()
            worker.join()


def work_until(lathe: Lathe, stop: threading.Event) -> None:
    with Worker(lathe, name="a") as worker:
        worker.run_forever(stop)


NO_SPACE = """
CREATE SEQUENCE refused;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM nextval('refused'); RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON effect FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def close_case(lathe: Lathe) -> None:
    """No case is open: these tests are about effects."""
    lathe.store.knowledge.set_investigation(CASE, state=InvestigationState.CLOSED)
