"""The worker: ships run folders, carries out effects, drives cases and experiments, keeps schedules. Driven by `step`.

Each case runs in a thread of its own, because a loop waits for its re-runs; the thread that calls `step` carries the
effects out. Several workers may share one database: an effect has a lease, a case has a lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psycopg
import structlog

from context_store import Store
from context_store.records import Activity, Investigation
from contracts.enums import InvestigationState, ProposalState
from contracts.errors import DatabaseUnavailable, EnvironmentFault
from control_plane.experiments import Experimenter
from control_plane.given_up import failure_of, give_up
from control_plane.leases import WORKER
from control_plane.presence import Presence
from control_plane.proposing import request_approved
from control_plane.silence import SilenceWatch
from control_plane.timekeeper import Timekeeper
from control_plane.wiring import Lathe
from loops.core import AwaitsPerson
from loops.runner import CaseStatus

_log = structlog.get_logger(__name__)
_IDLE_S = 0.2
_CASES_S = 1.0
_SHIP_S = 2.0
_RETRY_S = 0.5
_MAX_CASE_FAILURES = 3
_REST_S = 2.0  # between two looks at a case that waits for a person's labels


class _Stopping(Exception):
    """Ends a case's thread between two polls; the case goes on later from its last graph step."""


class Worker:
    """Use it as a context manager: leaving ends the cases' threads and gives the leases back."""

    def __init__(self, lathe: Lathe, *, name: str, clock: Callable[[], float] = time.time) -> None:
        self._lathe = lathe
        self._name = name
        self._clock = clock
        self._executor = lathe.executor(name, clock=clock)
        self._cases = CaseThreads(lathe, clock)
        self._experiments = Experimenter(lathe.store, lathe.leases, clock)
        self._timekeeper = Timekeeper(lathe, clock)
        self._silence = SilenceWatch(lathe.store)
        self._presence = Presence(lathe.settings.workers_folder)
        self._shown = ExitStack()
        self._looked_at = 0.0
        self._shipped_at = 0.0

    def __enter__(self) -> Worker:
        self._shown.enter_context(self._presence.shown(self._name))
        self._lathe.leases.announce(WORKER)
        return self

    def __exit__(self, *_: object) -> None:
        self._cases.stop()
        self._timekeeper.stop()
        with suppress(DatabaseUnavailable):  # then the leases run out by themselves
            self._executor.release()
        self._lathe.leases.withdraw(WORKER)
        self._shown.close()

    def step(self) -> bool:
        """Do what can be done now, without waiting; True when anything changed."""
        now = self._clock()
        if now - self._shipped_at >= _SHIP_S:
            self._lathe.shipper.catch_up(now)
            self._lathe.store.series.seal_waiting()
            self._shipped_at = now
        if now - self._looked_at >= _CASES_S:
            self._lathe.leases.renew()
            self._take_over(now)
            request_approved(self._lathe.store, now)
            self._cases.look()
            self._experiments.look()
            self._timekeeper.look()
            for sentence in self._silence.look(now):
                self._lathe.store.activity.publish("finding", sentence)
            self._looked_at = now
        return self._executor.step()

    def _take_over(self, now: float) -> None:
        """What workers had in hand that were killed goes on now, instead of when their leases end."""
        if gone := self._presence.gone():
            self._lathe.store.effects.abandon(gone, now)
            self._presence.forget(gone)

    def run_forever(self, stop: threading.Event) -> None:
        """Until `stop` is set. A database that goes away, a full disk and the like are waited for."""
        while not stop.is_set():
            try:
                if not self.step():
                    stop.wait(_IDLE_S)
            except EnvironmentFault as error:
                _log.warning("waiting for the machine", reason=error.message, remedy=error.remedy)
                stop.wait(_RETRY_S)

    def run_until(self, done: Callable[[], bool], feed: Feed) -> None:
        """Until `done`, forwarding the live feed meanwhile. Raises what a case failed with for good."""
        while not done():
            if not self.step():
                time.sleep(_IDLE_S)
            feed.forward()
            self._cases.raise_failure()
        feed.forward()


class Feed:
    """Hands each message of the live feed with an id above `after` to `show`."""

    def __init__(self, store: Store, show: Callable[[Activity], None], *, after: int) -> None:
        self._store = store
        self._show = show
        self._last = after

    def forward(self) -> None:
        """Hand over every message since the last call."""
        for activity in self._store.activity.after(self._last):
            self._last = activity.id
            self._show(activity)


class CaseThreads:
    """One thread per case that can go on."""

    def __init__(self, lathe: Lathe, clock: Callable[[], float]) -> None:
        self._lathe = lathe
        self._clock = clock
        self._threads: dict[str, threading.Thread] = {}
        self._failures: dict[str, int] = {}
        self._given_up: dict[str, Exception] = {}
        self._rests_until: dict[str, float] = {}
        self._stopping = threading.Event()
        self._halted = threading.Event()

    def look(self) -> None:
        """Start a thread for every case that can go on and that nobody else drives; none while all is halted."""
        if self._lathe.store.policies.halted() is not None:
            self._halted.set()
            return
        self._halted.clear()
        for case in self._lathe.store.knowledge.investigations():
            thread = self._threads.get(case.id)
            if (thread is not None and thread.is_alive()) or not self._can_go_on(case):
                continue
            if self._lathe.leases.try_take(f"case:{case.id}"):
                self._threads[case.id] = threading.Thread(
                    target=self._drive, args=(case.id,), name=case.id, daemon=True
                )
                self._threads[case.id].start()

    def stop(self) -> None:
        """End all threads at their next poll."""
        self._stopping.set()
        for thread in self._threads.values():
            thread.join()

    def raise_failure(self) -> None:
        """Raise what a case failed with for good."""
        for error in self._given_up.values():
            raise error

    def _can_go_on(self, case: Investigation) -> bool:
        if case.state == InvestigationState.CLOSED or failure_of(self._lathe.store, case.id) is not None:
            return False
        if case.state == InvestigationState.OPEN:
            return self._clock() >= self._rests_until.get(case.id, 0.0)
        proposals = self._lathe.store.proposals.list(investigation_id=case.id)
        return not any(each.state == ProposalState.OPEN and each.expires_at > self._clock() for each in proposals)

    def _drive(self, case_id: str) -> None:
        try:
            runner = self._lathe.runner(self._pause)
            loop = self._lathe.store.knowledge.investigation(case_id).loop
            if runner.start(loop, case_id).status is CaseStatus.CLOSED:
                runner.prune()
            self._failures.pop(case_id, None)
            self._given_up.pop(case_id, None)
        except _Stopping:
            _log.info("case paused", case=case_id)
        except AwaitsPerson as error:
            self._rests_until[case_id] = self._clock() + _REST_S
            _log.info("case rests", case=case_id, reason=error.message)
        except Exception as error:  # a thread's end: the failure is kept, told, and tried again a few times
            self._note(case_id, error)
        finally:
            self._lathe.leases.give(f"case:{case_id}")

    def _pause(self) -> None:
        if self._stopping.wait(_IDLE_S) or self._halted.is_set():
            raise _Stopping

    def _note(self, case_id: str, error: Exception) -> None:
        _log.error("case failed", case=case_id, exc_info=error)
        if is_outage(error):  # says nothing about the case
            return
        self._failures[case_id] = self._failures.get(case_id, 0) + 1
        if self._failures[case_id] < _MAX_CASE_FAILURES:
            return
        with suppress(DatabaseUnavailable):  # then it is tried, and given up, once more
            give_up(self._lathe.store, case_id, error, self._clock())
            self._given_up[case_id] = error
            del self._failures[case_id]


def is_outage(error: BaseException | None) -> bool:
    """Was the database away? LangGraph's saver says so in words of its own, and may hide it behind a later error."""
    while error is not None:
        if isinstance(error, DatabaseUnavailable):
            return True
        if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith(("08", "57P")):
            return True
        error = error.__cause__ or error.__context__
    return False
