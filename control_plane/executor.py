"""Carries out effects, each once: claim, check, do, watch, verify, complete.

`step` never waits: it claims what fits, looks at what runs and returns. All state that matters lies in the store and
in run folders; after SIGKILL another executor claims the effect when its lease ends and goes on where it stood.
While everything is halted (`store.policies.halt`) nothing new is begun and running diagnostics are stopped; both go on
where they stood once it is lifted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from context_store import Store
from context_store.policies import CLAIMED_WHILE_HALTED, WITHIN_BUDGET
from context_store.records import Amount, Effect
from contracts.backend import Launch, Outcome, TrainerBackend
from contracts.enums import EffectKind
from contracts.errors import BackendFailure, DatabaseUnavailable, LatheError, NotPermitted
from control_plane.backends.metered import SpentNotes
from control_plane.disk import in_words
from control_plane.effects import DONE, EffectHandler, Landed
from control_plane.shipper import Shipper
from control_plane.worktrees import Tree

_log = structlog.get_logger(__name__)
LEASE_S = 15.0
_HEARTBEAT_S = 3.0
_SHIP_S = 0.5
_RERUNS = WITHIN_BUDGET
_TRAININGS = frozenset({EffectKind.START_RUN, EffectKind.RESUME_WITH_PATCH, EffectKind.UNDO})
_MAX_STARTS = 3  # of one training whose process vanishes again and again
_HALTED = "is stopped, since everything is halted"


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """An effect this executor holds. `launch` is None until `do` gave one."""

    effect: Effect
    tree: Tree | None
    launch: Launch | None = None
    reserved: Amount | None = None  # what it may spend; None: no limit
    starts: int = 0
    ended_early: str = ""  # why its training was asked to stop
    landed: Outcome | None = None  # how the last start ended, with the CPU seconds of all of them and of all workers
    beat_at: float = 0.0
    shipped_at: float = 0.0


class Executor:
    """One worker's share of the effects. Not thread-safe.

    At most `slots` diagnostic re-runs and as many other trainings at the same time: re-runs never keep a main run
    waiting, and what needs no training (a stop, a checkpoint, a branch) waits for nothing.
    """

    def __init__(
        self,
        *,
        store: Store,
        backend: TrainerBackend,
        shipper: Shipper,
        handlers: tuple[EffectHandler, ...],
        worker: str,
        slots: int,
        spent: SpentNotes,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._backend = backend
        self._shipper = shipper
        self._handlers: Mapping[EffectKind, EffectHandler] = {each.kind: each for each in handlers}
        self._worker = worker
        self._slots = slots
        self._spent = spent
        self._clock = clock
        self._flights: dict[str, _Flight] = {}
        self._halted = False

    @property
    def busy(self) -> bool:
        """True while an effect is in flight here."""
        return bool(self._flights)

    def step(self) -> bool:
        """Do what can be done now; True when anything changed. DatabaseUnavailable leaves all as it is."""
        self._halted = self._store.policies.halted() is not None
        changed = [self._advance(flight) for flight in list(self._flights.values())]
        while effect := self._claim():
            self._take(effect)
            changed.append(True)
        return any(changed)

    def release(self) -> None:
        """Give the leases back, so that the next executor need not wait for their end."""
        for key in list(self._flights):
            self._store.effects.heartbeat(key, self._worker, 0.0, self._clock())
            del self._flights[key]

    def _claim(self) -> Effect | None:
        taken = [flight.effect.kind for flight in self._flights.values()]
        crowded = [group for group in (_RERUNS, _TRAININGS) if sum(kind in group for kind in taken) >= self._slots]
        kinds = self._handlers.keys() - frozenset().union(*crowded)
        return self._store.effects.claim(self._worker, kinds, LEASE_S, self._clock())

    def _take(self, effect: Effect) -> None:
        self._tell(effect, "begins" if effect.attempt < 2 else "goes on after an interruption")
        try:
            tree = self._handlers[effect.kind].check(effect)
        except DatabaseUnavailable:
            raise
        except LatheError as error:
            self._end(effect, error)
        except Exception as error:  # one effect must not end the worker, and would again after every claim
            self._end(effect, _unexpected(error, effect))
        else:
            reserved = self._store.budgets.reserved(effect.key)
            self._advance(self._keep(_Flight(effect=effect, tree=tree, reserved=reserved, beat_at=self._clock())))

    def _advance(self, flight: _Flight) -> bool:
        """True when the effect began to run, ended, or was lost to another worker."""
        try:
            if not self._beat(flight):
                return True
            flight = self._flights[flight.effect.key]
            if flight.launch is None:
                return self._put_back(flight) if self._may_not_begin(flight) else self._start(flight)
            outcome = flight.landed or self._poll(flight, flight.launch)
            if outcome is None:
                self._ship(flight, flight.launch)
                self._end_early(flight, flight.launch)
                return False
            self._land(flight, flight.launch, outcome)
        except DatabaseUnavailable:
            raise
        except LatheError as error:
            self._end(flight.effect, error)
        except Exception as error:  # as in `_take`
            self._end(flight.effect, _unexpected(error, flight.effect))
        return True

    def _start(self, flight: _Flight) -> bool:
        launch = self._handlers[flight.effect.kind].do(flight.effect, flight.tree)
        if launch is None:
            return False
        if launch is DONE:
            self._complete(flight, None, "done")
            return True
        launch = self._limited(launch, flight)
        self._shipper.begin(launch)
        self._backend.submit(launch)
        self._keep(replace(flight, launch=launch, starts=flight.starts + 1))
        return True

    def _poll(self, flight: _Flight, launch: Launch) -> Outcome | None:
        outcome = self._backend.poll(launch.run_id, launch.segment)
        if outcome is None:
            return None
        outcome = replace(outcome, cpu_s=self._spent.read(flight.effect.key).cpu_s)
        self._keep(replace(flight, landed=outcome))
        return outcome

    def _land(self, flight: _Flight, launch: Launch, outcome: Outcome) -> None:
        effect = flight.effect
        if outcome.reason in ("died", "stopped") and flight.ended_early == _HALTED:
            self._shipper.ship(launch.run_id, launch.folder)
            self._put_back(flight)
            return
        if outcome.reason == "died" and flight.starts < _MAX_STARTS and not flight.ended_early:
            flight = replace(flight, landed=None, launch=None)
            if self._may_not_begin(flight):
                self._put_back(flight)
                return
            self._tell(effect, f"{outcome.message}; starting it again")
            self._start(flight)
            return
        self._shipper.finish(launch, outcome)
        _require_whole(effect, flight, outcome)
        landed = Landed(launch=launch, outcome=outcome)
        self._complete(flight, landed, f"{outcome.reason} at step {outcome.last_step}")

    def _complete(self, flight: _Flight, landed: Landed | None, text: str) -> None:
        effect = flight.effect
        result = self._handlers[effect.kind].verify(effect, flight.tree, landed)
        self._store.effects.complete(effect.key, {**result, **self._booked(effect.key)}, worker=self._worker)
        self._spent.forget(effect.key)
        self._tell(effect, text)
        del self._flights[effect.key]

    def _limited(self, launch: Launch, flight: _Flight) -> Launch:
        """With what is left of its reservation, and the file in which its seconds are noted."""
        key, reserved = flight.effect.key, flight.reserved
        left_s = None if reserved is None else max(0.0, reserved.cpu_s - self._spent.read(key).cpu_s)
        return replace(launch, cpu_limit_s=left_s, spent_note=str(self._spent.path(key)))

    def _booked(self, key: str) -> dict[str, float]:
        """What its processes spent, by all starts and all workers; wall seconds where some were reserved."""
        spent, reserved = self._spent.read(key), self._store.budgets.reserved(key)
        wall = {"wall_s": spent.wall_s} if reserved is not None and reserved.wall_s else {}
        return {"cpu_s": spent.cpu_s, **wall} if spent.cpu_s else {}

    def _may_not_begin(self, flight: _Flight) -> bool:
        return self._halted and flight.effect.kind not in CLAIMED_WHILE_HALTED

    def _end_early(self, flight: _Flight, launch: Launch) -> None:
        """Ask a training to stop that has used up its wall seconds, or may not go on while everything is halted."""
        why, reserved = "", flight.reserved
        if reserved is not None and reserved.wall_s and self._spent.read(flight.effect.key).wall_s > reserved.wall_s:
            why = f"it was ended after {reserved.wall_s:g} s, which were reserved for it"
        elif self._halted and flight.effect.kind in _RERUNS:
            why = _HALTED
        if why and not flight.ended_early:
            self._backend.cancel(launch.run_id, launch.segment)
            self._tell(flight.effect, why)
            self._keep(replace(flight, ended_early=why))

    def _put_back(self, flight: _Flight) -> bool:
        """Whoever claims it once the halt is lifted goes on where it stands."""
        self._store.effects.put_back(flight.effect.key, self._worker, self._spent.read(flight.effect.key).cpu_s)
        self._tell(flight.effect, "waits until the halt is lifted")
        del self._flights[flight.effect.key]
        return True

    def _end(self, effect: Effect, error: LatheError) -> None:
        flight = self._flights.get(effect.key)
        if flight is not None and flight.launch is not None and flight.landed is None:
            with suppress(OSError):  # its folder may be what is missing
                self._backend.cancel(flight.launch.run_id, flight.launch.segment)
        end = self._store.effects.refuse if isinstance(error, NotPermitted) else self._store.effects.fail
        end(effect.key, error.message, error.remedy, worker=self._worker, spent=self._booked(effect.key))
        self._spent.forget(effect.key)
        self._tell(effect, f"{'refused' if isinstance(error, NotPermitted) else 'failed'}: {error.message}")
        self._flights.pop(effect.key, None)

    def _beat(self, flight: _Flight) -> bool:
        """Extend the lease now and then; False when another worker has the effect (it waits for our training)."""
        now = self._clock()
        if now - flight.beat_at < _HEARTBEAT_S:
            return True
        if not self._store.effects.heartbeat(flight.effect.key, self._worker, LEASE_S, now):
            del self._flights[flight.effect.key]
            return False
        self._keep(replace(flight, beat_at=now))
        return True

    def _ship(self, flight: _Flight, launch: Launch) -> None:
        now = self._clock()
        if now - flight.shipped_at >= _SHIP_S:
            self._shipper.ship(launch.run_id, launch.folder)
            self._keep(replace(flight, shipped_at=now))

    def _keep(self, flight: _Flight) -> _Flight:
        self._flights[flight.effect.key] = flight
        return flight

    def _tell(self, effect: Effect, text: str) -> None:
        label = str(effect.payload.get("run_id", effect.key))
        _log.info("effect", key=effect.key, kind=str(effect.kind), text=text)
        self._store.activity.publish(
            "progress",
            f"{effect.kind} {label} {text}",
            investigation_id=effect.investigation_id,
            run_id=label,
            detail={"effect": effect.key, "kind": str(effect.kind)},
        )


def _require_whole(effect: Effect, flight: _Flight, outcome: Outcome) -> None:
    """BackendFailure for a training that was cut short: it is never taken for one that came to its end."""
    if outcome.reason in ("died", "over_budget") and not flight.ended_early:
        raise BackendFailure(outcome.message, remedy=outcome.remedy)
    if outcome.reason in ("died", "over_budget", "stopped") and (flight.ended_early or effect.kind in _RERUNS):
        why = flight.ended_early or "somebody stopped it"
        raise BackendFailure(
            f"run {outcome.run_id} ended at step {outcome.last_step} before its end: {why}",
            remedy="ask for it again, with a larger budget if it had used up its own",
        )


def _unexpected(error: Exception, effect: Effect) -> LatheError:
    """What an exception that nobody foresaw means to the person."""
    if isinstance(error, OSError):
        return in_words(error, f"effect {effect.key}")
    _log.error("defect", key=effect.key, exc_info=error)
    return LatheError(
        f"a defect of Lathe: {type(error).__name__}: {error}", remedy="read the worker's log and report it"
    )
