"""What the planner knows and says: changes, re-runs of sets of changes, what they showed, and the decision.

A re-run is named by the set of changes that are in force in it. All changes on is the faulty version; all new ones
off is the last good one. Reverting, adding, bisecting and the cells of a 2x2 are such sets too, so no set runs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from contracts.enums import CauseKind, DiagnosticKind, Verdict

On = frozenset[str]
_MOST_NAMED = 6


class Identity(NamedTuple):
    """Which re-run: changes in force, circumstances undone, seed (None: as recorded), which repetition of it,
    which two ranks are in each other's place, and whether in small (loops/debug/small.py)."""

    on: On
    without: On = frozenset()
    seed: int | None = None
    repeat: int = 0
    swap: tuple[int, int] | None = None
    small: bool = False


class Seen(StrEnum):
    """What a re-run showed of the anomaly."""

    PRESENT = "present"
    PARTIAL = "partial"  # between the two: it neither cures nor refutes, nor is it a placebo
    ABSENT = "absent"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, kw_only=True)
class Option:
    """A change as the planner sees it. `circumstance`: how the run was resumed; held fixed unless in question.

    `weight`: by its rank, how likely it is the cause, beside the weights of the others.
    """

    key: str
    title: str
    cause_kind: CauseKind
    is_new: bool = True
    circumstance: bool = False
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One re-run. `on`: changes in force; `without`: circumstances undone; a seed means: from step 0 with that seed.

    `base`: a later commit than the faulty one, from which to leave out what is not `on`.
    """

    kind: DiagnosticKind
    label: str
    on: On
    suspects: tuple[str, ...] = ()
    without: On = frozenset()
    seed: int | None = None
    repeat: int = 0
    swap: tuple[int, int] | None = None
    small: bool = False
    base: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(
            on=self.on, without=self.without, seed=self.seed, repeat=self.repeat, swap=self.swap, small=self.small
        )


@dataclass(frozen=True, kw_only=True)
class Seat:
    """The place of a rank that departs from its peers, one that it may change with, and two others for the placebo."""

    key: str
    title: str
    rank: int
    partner: int
    bystanders: tuple[int, int]
    size: int  # number of ranks


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`ranked`: testable changes, most suspicious first. `chronological`: keys of the same, oldest first.

    `placebos`: changes that may serve as the innocent one, best first. `seen`: what a set showed, None when not run.
    `exact`: whether the replay is bitwise equal to the recorded run, None when it was not run. `inert`: changes that a
    static check excludes, since they are in prose only; no re-run is spent on them. `seat`: the place in question.
    `is_dear`: a proof at full size costs more than the case may spend. `confounded`: titles of what was new as well and
    nothing can switch off.
    """

    ranked: tuple[Option, ...]
    chronological: tuple[str, ...]
    placebos: tuple[str, ...]
    seen: Callable[[Identity], Seen | None]
    exact: bool | None = None
    fresh_seeds: tuple[int, ...] = ()
    inert: On = frozenset()
    seat: Seat | None = None
    is_dear: bool = False
    confounded: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Option, ...]:
        return tuple(option for option in self.ranked if not option.circumstance)

    @property
    def everything(self) -> On:
        return frozenset(option.key for option in self.changes)

    @property
    def control(self) -> On:
        """The last good version: what was in force before all new changes."""
        return frozenset(option.key for option in self.changes if not option.is_new)

    def at(self, on: On) -> Seen | None:
        return self.seen(Identity(on=on))

    def leaving_out(self, key: str) -> Identity:
        """Everything but one change, or everything with one circumstance undone."""
        if key in self.everything:
            return Identity(on=self.everything - {key})
        return Identity(on=self.everything, without=frozenset({key}))

    def title(self, key: str) -> str:
        if self.seat and key == self.seat.key:
            return self.seat.title
        return next(option.title for option in self.ranked if option.key == key)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Nothing more is to be run. `cause` holds one key, or two that need each other; empty unless proven.

    `baseline`: the set whose re-run is the control. `placebo`: the innocent change whose revert did not cure.
    """

    verdict: Verdict
    reason: str
    cause_kind: CauseKind = CauseKind.NONE
    cause: tuple[str, ...] = ()
    baseline: On = frozenset()
    placebo: str | None = None


def unseen(facts: Facts, experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """Those that were not run yet, each once."""
    first = {experiment.identity: experiment for experiment in reversed(tuple(experiments))}
    return tuple(e for e in reversed(first.values()) if facts.seen(e.identity) is None)


def confounded_with(titles: Sequence[str]) -> str:
    """In words, what was new and cannot be told apart by re-runs; "" when there is nothing."""
    more = f" and {len(titles) - _MOST_NAMED} more" if len(titles) > _MOST_NAMED else ""
    return f"confounded with {', '.join(titles[:_MOST_NAMED])}{more}, which no re-run can leave out" if titles else ""


def cannot(reason: str) -> Decision:
    """Nothing that could be run tells the cause."""
    return Decision(verdict=Verdict.CANNOT_TELL, reason=reason)
