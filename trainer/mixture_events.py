"""Where mixture, seed and balance windows change: positions of the global order that a start or a resume fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from contracts.errors import ConfigError
from trainer.config import TrainConfig
from trainer.data_config import DataConfig
from trainer.order import MixtureEvent


@dataclass(frozen=True, kw_only=True)
class Window:
    """Balance windows of `rows` samples follow each other from position `start` on; 0 rows: there are none."""

    start: int
    rows: int

    def border(self, position: int) -> int:
        """The first position at or behind the given one at which a window starts."""
        return position + (self.start - position) % self.rows if self.rows else position


NO_WINDOW = Window(start=0, rows=0)


def planned_window(data: DataConfig, consumed: int, before: Window) -> Window:
    """The windows from position `consumed` on. Those of before go on if they are of the same size.

    Raises ConfigError when they are not and one is half read: its rows would be lost or read twice.
    """
    rows = data.batch_size * data.balance_window
    if rows == before.rows:
        return before
    if before.border(consumed) != consumed:
        raise ConfigError(
            f"data.balance_window {data.balance_window} with data.batch_size {data.batch_size} cannot start in the "
            f"middle of a window of {before.rows} rows",
            remedy=f"resume with windows of {before.rows} rows, or from a checkpoint at the end of a window",
        )
    return Window(start=consumed, rows=rows) if rows else NO_WINDOW


def planned_events(
    config: TrainConfig, before: Sequence[MixtureEvent], step: int, consumed: int, window: Window
) -> tuple[MixtureEvent, ...]:
    """The mixture events up to position `consumed`, and those that the config asks for from `step` on.

    What a half-read balance window was planned with stays to its end: a mixture or seed that is another one than before
    counts from there on.
    """
    data = config.data
    schedule = data.mixture.schedule() if data.documents != "answers" else ((0, (1.0,)),)
    border = window.border(consumed)
    next_step = step + (border - consumed) // data.batch_size
    wanted = [(border, [weights for start, weights in schedule if start <= next_step][-1])]
    wanted += [(consumed + (at - step) * data.batch_size, weights) for at, weights in schedule if at > next_step]
    first = wanted[0][1]  # what was read of other sources has no weights among these
    events = [
        event if len(event.weights) == len(first) else replace(event, weights=first)
        for event in before
        if event.start < border
    ]
    for start, weights in wanted:
        if not events or (events[-1].seed, events[-1].weights) != (config.seed, weights):
            events.append(MixtureEvent(start=start, seed=config.seed, weights=weights))
    return tuple(events)
