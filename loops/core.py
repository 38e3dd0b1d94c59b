"""The loop contract: what every loop declares and the typed steps it implements.

A loop is propose -> execute -> measure -> update (R801-1.2). `execute` belongs to the runner, because only effects
that were requested, budgeted and, where needed, approved may touch the world. The runner may call every method again
after a crash, so each one is a deterministic function of what the store holds as *measured*: the same store gives the
same answer, and writing twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from context_store.records import Amount, Effect, EffectRequest, Json, Proposal
from contracts.enums import SignalStrength
from contracts.errors import LatheError, UserInputError
from contracts.evidence import EvidenceRef

if TYPE_CHECKING:
    from agents.llm import Door
    from context_store import Store


class LoopClass(StrEnum):
    """The three classes of loops (R801-1.7)."""

    DEBUG = "debug"
    POTENTIAL = "potential"
    QUANTIFICATION = "quantification"


class Link(StrEnum):
    """The links of the cycle; a charter names those that are broken for its object."""

    PROPOSE = "propose"
    EXECUTE = "execute"
    MEASURE = "measure"
    UPDATE = "update"


@dataclass(frozen=True, kw_only=True)
class Charter:
    """Why a loop exists. Raises UserInputError when a part is empty: a loop without a charter is refused (R801-1.4)."""

    loop_class: LoopClass
    broken_links: tuple[Link, ...]  # which links the full-size training breaks
    why_broken: str
    closes_at: str  # where the cycle closes instead
    signal: SignalStrength

    def __post_init__(self) -> None:
        if not (self.broken_links and self.why_broken.strip() and self.closes_at.strip()):
            raise UserInputError(
                "a loop needs a charter that names the broken link, the reason, and where the loop closes instead",
                remedy="fill in broken_links, why_broken and closes_at of its Charter",
            )


WALL_PER_CPU = 10.0  # a re-run in the background may wait for the processor nine tenths of its time

WATCH_UNTIL = "watch_until"  # of the payload of a change to a run: the step at which `verify` looks at it for once


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Caps of one case. What they forbid is not begun; what runs when time is up is no longer waited for."""

    max_rounds: int = 24
    unit: str = "rounds"  # how `max_rounds` are called to people
    wall_s: float = 3600.0
    cpu_s: float = 1800.0
    reruns: int = 40
    tokens: int = 0  # of language models, and what they may cost
    usd: float = 0.0

    @property
    def sentence(self) -> str:
        """The stop rule and the budget, told before anything is run."""
        return (
            "it stops when the loop has its answer or nothing is left to try, and at the latest after "
            f"{self.max_rounds} {self.unit}, {self.reruns} re-runs, {self.cpu_s:.0f} CPU s or {self.wall_s:.0f} s"
        )

    @property
    def amount(self) -> Amount:
        """The budget of a case. Its wall seconds are those of its re-runs together, not `wall_s`, which the runner
        keeps: a person may take days to decide."""
        wall_s = WALL_PER_CPU * self.cpu_s
        return Amount(cpu_s=self.cpu_s, reruns=self.reruns, tokens=self.tokens, usd=self.usd, wall_s=wall_s)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a case is about, in words, for the search in earlier negative results."""

    text: str
    project_id: str | None


@dataclass(frozen=True, kw_only=True)
class Request:
    """One effect a loop wants, with the upper estimate of its price; reserved before anything is requested."""

    effect: EffectRequest
    cost: Amount


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The next step: effects that do not depend on each other. `reason` is one sentence for the reader."""

    requests: tuple[Request, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """Nothing more is to be executed. `reason` is one sentence for the reader."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """What a piece of a case's work is given. `folder` is the case's own and stays; `tell` is for the live feed.

    `door` leads to the language model within the case's budget; it gives None without one.
    """

    store: Store
    case_id: str
    folder: Path
    tell: Callable[[str], None]
    door: Callable[[], Door | None]


Work = Callable[[Workplace, Json], Json]
"""A piece of a case's work. It may be killed at any moment and begins again, so what it writes is the same each time.
A LatheError ends its effect as failed."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """What the cycle wrote down for good. Without a proposal the case closes here."""

    statement: str
    evidence: tuple[EvidenceRef, ...]
    proposal_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A decided proposal. `effect` is None when a person rejected it or it expired.

    It still runs when its payload has a `watch_until` and the run has come there: then `verify` looks, stores nothing.
    """

    proposal: Proposal
    effect: Effect | None


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What became of an applied proposal. `undo`: it did not hold, so the runner takes it back."""

    sentence: str
    undo: bool = False


class Loop(Protocol):
    """Four steps of a cycle and the question it asks of memory. `case_id` is an investigation of the store."""

    name: str
    charter: Charter

    def recall(self, case_id: str) -> Question:
        """What to look for among negative results before anything is proposed."""
        ...

    def propose(self, case_id: str) -> Planned | Conclusion:
        """The next step by what has been measured so far."""
        ...

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        """Store the reading of each finished effect (done, failed or refused); returns one sentence."""
        ...

    def update(self, case_id: str, stopped: str) -> Update:
        """Store verdict, exclusions and lesson, and at most one proposal. `stopped` is "" or the cap that ended it."""
        ...

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """Store whether the change held in the continuing run, or why a person declined it."""
        ...


class AwaitsPerson(LatheError):
    """`measure` raises it while a person has not given what only a person can: the case rests and is looked at again.

    The time it rests counts in none of its limits.
    """


class EmptyCycle(LatheError):
    """A cycle ended without a stored change or a stored negative result (R801-1.2)."""

    @classmethod
    def of(cls, loop: str, case_id: str) -> EmptyCycle:
        """The error for one case."""
        return cls(
            f"the {loop} loop ended case {case_id} without a stored change or a stored negative result",
            remedy="this is a defect of the loop: its update step has to store what was ruled out, with evidence",
        )
