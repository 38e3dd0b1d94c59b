"""What a round proposes: files, the hypothesis behind them, and the critique it rests on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from loops.evolve import operators
from loops.evolve.failures import Finding
from loops.evolve.plan import IDEA
from loops.evolve.surface import Files


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a proposer knows: the parent's files, findings about the parent, settings, lessons; nothing of the gate."""

    number: int
    files: Files
    findings: Sequence[Finding]
    settings: Mapping[str, Any]
    lessons: Sequence[str]
    chance: Random


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A candidate before it is checked. `moves` name it for people and lessons; `prompt` is all that a model was asked;
    `proposer` is who made it.
    """

    files: Files
    moves: tuple[str, ...]
    hypothesis: str
    critique: tuple[Finding, ...]
    prompt: str = ""
    proposer: str = "operators"


class Proposer(Protocol):
    """`fresh` tells whether a draft was not tried before; the proposer may ask it often and returns None if none is."""

    name: str

    def propose(self, situation: Situation, fresh: Callable[[Files], bool]) -> Draft | None: ...


class Operators:
    """Deterministic operators, drawn by the situation's chance; never a move of a name in `barred`."""

    name = "operators"
    _TRIES = 40

    def __init__(self, barred: Collection[str] = ()) -> None:
        self._barred = frozenset(barred)

    def propose(self, situation: Situation, fresh: Callable[[Files], bool]) -> Draft | None:
        barred = set(self._barred)
        for _ in range(self._TRIES):
            moves = operators.drawn(situation.files, situation.findings, situation.settings, situation.chance, barred)
            if not moves:
                return None
            files: Files = situation.files
            for move in moves:
                files = operators.apply(files, move)
            if fresh(files):
                return self._draft(situation, moves, files)
            if len(moves) == 1:
                barred.add(moves[0].name)
        return None

    def _draft(self, situation: Situation, moves: Sequence[operators.Move], files: Files) -> Draft:
        names = tuple(move.name for move in moves)
        top = situation.findings[0].sentence if situation.findings else "nothing failed in the episodes seen"
        return Draft(
            files=files,
            moves=names,
            hypothesis=f"{'; '.join(names)}: {top}",
            critique=tuple(situation.findings[:3]),
        )


def lessons_of(decisions: Collection[Mapping[str, Any]]) -> list[str]:
    """One line for each change that was tested, with how often it was tried and kept; the newest last, at most 40.

    Whether it was kept is all that leaves the gate: no figure of it is here. Of ideas only: a placebo changes nothing
    and a control is no change of this scaffold, so nothing is to be learnt from either.
    """
    counts: dict[str, tuple[int, int]] = {}
    for body in decisions:
        for move in body["moves"] if body.get("kind", IDEA) == IDEA else ():
            tried, kept = counts.pop(move, (0, 0))
            counts[move] = (tried + 1, kept + bool(body["kept"]))
    return [f"{move}: tried {tried}, kept {kept}" for move, (tried, kept) in counts.items()][-40:]
