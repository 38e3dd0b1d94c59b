"""Notices a model that turns in circles or gets nowhere (RM2-7.25)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from agents.llm.messages import json_object


class Stall(StrEnum):
    REPEAT = "repeat"  # the same action with the same result
    CYCLE = "cycle"  # several actions, again and again
    NO_PROGRESS = "no_progress"  # nothing new is learned


@dataclass
class RepeatDetector:
    """Fed with every action and its observation. Polling whose result changes is no repeat."""

    times: int = 3  # so often in a row is a repeat
    longest_cycle: int = 4
    patience: int = 8  # so many observations without a new evidence id
    _marks: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _idle: int = 0

    def observe(self, name: str, arguments: str, observation: str, evidence: Iterable[str] = ()) -> Stall | None:
        """What is wrong after this observation, None when nothing is."""
        value = json_object(arguments)
        canonical = json.dumps(value, sort_keys=True) if value is not None else arguments
        self._marks.append(hashlib.sha256(f"{name}\0{canonical}\0{observation}".encode(errors="replace")).hexdigest())
        new = set(evidence) - self._seen
        self._seen |= new
        self._idle = 0 if new else self._idle + 1
        for length in range(1, self.longest_cycle + 1):
            if self._repeats(length):
                return Stall.REPEAT if length == 1 else Stall.CYCLE
        return Stall.NO_PROGRESS if self._idle >= self.patience else None

    def _repeats(self, length: int) -> bool:
        needed = length * self.times
        last = self._marks[-needed:]
        return len(last) == needed and all(mark == last[i % length] for i, mark in enumerate(last))
