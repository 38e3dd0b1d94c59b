"""Carries out schedules: watches runs as they arrive, backs the store up, lets old points expire.

A schedule that is due is claimed in the store, so of several workers one does it. It is done in a thread of its own,
because the worker's thread must go on carrying effects out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import structlog

from context_store import Store
from context_store.records import Run, Schedule, TriageMark
from context_store.triage import covers
from contracts.enums import RunRole, RunState, ScheduleAction
from contracts.errors import DatabaseUnavailable, LatheError, UserInputError
from control_plane.disk import explained
from control_plane.wiring import Lathe

_log = structlog.get_logger(__name__)
_PAGE = 200
_MIN_NEW_STEPS = 20  # a training that goes on is looked at again after so many steps, or a twentieth more

_Mark = tuple[int, RunState]  # step and state of a run when it was looked at


class Timekeeper:
    """One worker's. `look` never waits."""

    def __init__(self, lathe: Lathe, clock: Callable[[], float]) -> None:
        self._lathe = lathe
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._snoozed: dict[str, tuple[float, _Mark]] = {}  # runs to be looked at again from then on, whatever is new

    @property
    def busy(self) -> bool:
        """True while something is being done."""
        return self._thread is not None and self._thread.is_alive()

    def look(self) -> None:
        """Begin what is due, one after the other. Nothing while everything is halted."""
        if self.busy:
            return
        if self._lathe.store.policies.halted() is not None:
            return
        schedule = self._lathe.store.schedules.claim(self._clock())
        if schedule is not None:
            self._thread = threading.Thread(target=self._do, args=(schedule,), name="schedule", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait until what was begun is over; a watch ends after the run that it looks at."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _do(self, schedule: Schedule) -> None:
        action = {
            ScheduleAction.WATCH: self._watch,
            ScheduleAction.MEASURE: self._measure,
            ScheduleAction.BACKUP: self._backup,
            ScheduleAction.EXPIRE: self._expire,
        }[schedule.action]
        try:
            self._report(schedule, action(schedule), ok=True)
        except DatabaseUnavailable as error:
            _log.warning("a schedule was left out", schedule=schedule.id, reason=error.message)
        except LatheError as error:
            self._report(schedule, f"{error.message}; {error.remedy}", ok=False)
        except Exception as error:  # the end of a thread: what nobody foresaw is told, and tried again when due
            _log.error("defect", schedule=schedule.id, exc_info=error)
            self._report(schedule, f"a defect of Lathe: {type(error).__name__}: {error}", ok=False)

    def _report(self, schedule: Schedule, message: str, *, ok: bool) -> None:
        store = self._lathe.store
        store.schedules.report(schedule.id, message, self._clock(), ok=ok)
        if not ok:
            store.activity.publish("progress", f"schedule {schedule.id} ({schedule.action}) failed: {message}")

    def _watch(self, schedule: Schedule) -> str:
        """Look at each training with something new; a case is opened for what is found, and a worker drives it."""
        from loops.debug import detect, open_case

        store, looked, opened = self._lathe.store, 0, 0
        for run in self._with_news(schedule):
            if self._stopping.is_set():
                break
            known = {case.id for case in store.knowledge.investigations(run_id=run.id)}
            findings, quiet = detect(store, run.id), store.triage.quiet(run.id, self._clock())
            marks = [[each for each in quiet if covers(*each, f.kind, f.series, f.onset)] for f in findings]
            wanted = [finding for finding, found in zip(findings, marks, strict=True) if not found]
            case_id = open_case(store, run.id, wanted, self._clock())
            self._looked_at(run, [mark for found in marks for _, mark in found])
            looked += 1
            if case_id is not None and case_id not in known:
                opened += 1
                self._tell(schedule, run, case_id)
        return f"looked at {looked} runs, opened {opened} cases"

    def _measure(self, schedule: Schedule) -> str:
        """Open a case for each training whose newest checkpoint lies far enough behind the last measured one."""
        from loops.potential.monitor import due
        from loops.potential.opening import open_case

        store, looked, opened = self._lathe.store, 0, 0
        for run in self._trainings(schedule):
            if run.created_at < schedule.set_at and run.state is not RunState.RUNNING:
                continue
            looked += 1
            wish = due(store, run.id)
            if wish is None or self._stopping.is_set():
                continue
            try:
                case_id = open_case(store, wish, self._clock())
            except UserInputError:  # a run whose weights cannot be read here
                continue
            opened += 1
            self._tell(schedule, run, case_id)
        return f"looked at {looked} runs, opened {opened} cases"

    def _looked_at(self, run: Run, withheld: Sequence[TriageMark]) -> None:
        """Not in the store while a snooze withholds a finding: when it ends, the run is looked at once more."""
        ends = [mark.until for mark in withheld if mark.until is not None]
        if ends:
            self._snoozed[run.id] = (min(ends), (run.last_step, run.state))
            return
        self._snoozed.pop(run.id, None)
        self._lathe.store.schedules.mark(run, self._clock())

    def _tell(self, schedule: Schedule, run: Run, case_id: str) -> None:
        store, now = self._lathe.store, self._clock()
        title = store.knowledge.investigation(case_id).title
        store.ledger.append(
            f"schedule:{schedule.id}", "open_investigation", f"investigation:{case_id}", {"run_id": run.id}, (), now
        )
        store.activity.publish("finding", f"{run.name}: {title}", investigation_id=case_id, run_id=run.id)

    def _with_news(self, schedule: Schedule) -> Iterator[Run]:
        """Trainings that began since the schedule was set, or go on, and made steps, ended or fell silent since."""
        store = self._lathe.store
        now = self._clock()
        marks: dict[str, _Mark] = {**store.schedules.marks()}
        marks |= {run_id: mark for run_id, (until, mark) in self._snoozed.items() if now < until}
        for run in self._trainings(schedule):
            arrived = run.created_at >= schedule.set_at or run.state is RunState.RUNNING or run.id in marks
            news = arrived and (_has_news(run, marks.get(run.id)) or _fell_silent(store, run))
            if news and run.last_step > 0:
                yield run

    def _trainings(self, schedule: Schedule) -> Iterator[Run]:
        """All of the schedule's project, page by page, newest first."""
        runs, last = self._lathe.store.runs, None
        while page := runs.list(project_id=schedule.target or None, role=RunRole.TRAINING, limit=_PAGE, before=last):
            yield from page
            last = page[-1].id

    def _backup(self, schedule: Schedule) -> str:
        """A folder named after the moment."""
        from context_store import archive

        now = self._clock()
        folder = Path(schedule.target) / time.strftime("lathe-%Y%m%d-%H%M%S", time.gmtime(now))
        with explained(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            made = archive.backup(self._lathe.store.url, folder, now=now, tell=lambda *_: None)
        return f"{folder}: content sha256 {made.content_sha256}"

    def _expire(self, schedule: Schedule) -> str:
        store, now = self._lathe.store, self._clock()
        runs = store.retention.ended_before(now - schedule.older_than_s, schedule.target or None)
        points = 0
        for run in runs:
            removed = store.retention.expire(run)
            points += removed.num_points
            if removed.num_points:
                detail = {"points": removed.num_points, "bytes": removed.size_bytes}
                store.ledger.append(f"schedule:{schedule.id}", "points.expired", f"run:{run}", detail, (), now)
        return f"deleted {points} points of {len(runs)} runs"


def _has_news(run: Run, mark: _Mark | None) -> bool:
    if mark is None:
        return True
    step, state = mark
    grown = run.last_step - step
    ended = state is not run.state and run.state is not RunState.RUNNING
    return ended or grown < 0 or grown >= max(_MIN_NEW_STEPS, step // 20)


def _fell_silent(store: Store, run: Run) -> bool:
    """A silence was noted that no case holds yet."""
    from loops.debug import silent

    found = silent(store, run.id) if run.state is RunState.RUNNING else []
    cases = store.knowledge.investigations(run_id=run.id) if found else []
    held = {anomaly.kind for case in cases for anomaly in store.knowledge.anomalies(investigation_id=case.id)}
    return bool(found) and found[0].kind not in held
