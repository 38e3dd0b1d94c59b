"""Where a log goes over into another start or another run.

Only the training's own clock decides: an evaluation may be logged late, at an older step. A step that goes back to
where the run began is another run; one that goes back halfway is a restart from a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Change(Enum):
    NONE = "none"
    SEGMENT = "segment"
    RUN = "run"


@dataclass
class Clock:
    """The steps of one run as they pass by. `checkpoint`: of the restart that the log announced, -1 without one."""

    first: tuple[bool, int] | None = None  # is_eval and step of the first row
    first_train: int | None = None
    last_train: int | None = None
    last_eval: int | None = None

    def judge(self, step: int, is_eval: bool, *, restarted: bool = False) -> Change:
        """What the row means; take it with `pass_to`. `restarted`: a process started since the last row."""
        if self.first is None:
            return Change.RUN
        if self._begins_again(step, is_eval):
            return Change.RUN
        decides = not is_eval or self.first_train is None
        last = self.last_train if not is_eval else self.last_eval
        if not decides or last is None:
            return Change.SEGMENT if restarted and self._is_new(step) else Change.NONE
        if step < last:
            lowest = self.first_train if self.first_train is not None else self.first[1]
            return Change.RUN if step <= lowest else Change.SEGMENT
        return Change.SEGMENT if restarted and step > last else Change.NONE

    def pass_to(self, step: int, is_eval: bool) -> None:
        if self.first is None:
            self.first = (is_eval, step)
        if is_eval:
            self.last_eval = step
        else:
            self.first_train = step if self.first_train is None else self.first_train
            self.last_train = step

    @property
    def last(self) -> int:
        """The highest step of the newest rows."""
        return max(self.last_train or 0, self.last_eval or 0)

    def _begins_again(self, step: int, is_eval: bool) -> bool:
        """The very first row, an evaluation before training for instance, comes again."""
        last = self.last_eval if is_eval else self.last_train
        return self.first == (is_eval, step) and last is not None and max(last, self.last) > step

    def _is_new(self, step: int) -> bool:
        return step > self.last
