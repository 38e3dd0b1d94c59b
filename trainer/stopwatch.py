"""Where the time of a step goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Stopwatch:
    """Seconds since it was made, and by part if `has_laps`. Parts of one name add up. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float], *, has_laps: bool) -> None:
        self._clock, self._has_laps = clock, has_laps
        self._started = self._last = clock()
        self.laps: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """What has passed since the last lap belongs to `part`."""
        if self._has_laps:
            now = self._clock()
            self.laps[part] = self.laps.get(part, 0.0) + now - self._last
            self._last = now

    def elapsed(self) -> float:
        return self._clock() - self._started


class Computing:
    """Seconds inside functions that this process computes without waiting for another one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._seconds = clock, 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts."""

        def counted(*arguments: Any) -> Any:
            began = self._clock()
            result = function(*arguments)
            self._seconds += self._clock() - began
            return result

        return counted

    def taken(self) -> float:
        """Seconds since this was asked last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds
