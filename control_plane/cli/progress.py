"""One line of progress while something long runs: live on a terminal, now and then in a file."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from context_store import Store
from contracts.backend import Launch
from control_plane.cli.session import notes

_SHOWN = {"lm_loss": "lm loss {:.3f}", "max_vio": "MaxVio {:.2f}", "tokens_per_second": "{:.0f} tokens/s"}
_PLAIN_EVERY_S = 10.0


class TrainingProgress:
    """Reads the store, so it shows what is safe. A context manager."""

    def __init__(self, store: Store, launch: Launch, *, quiet: bool) -> None:
        self._store = store
        self._launch = launch
        self._terminal = notes()
        self._plain_at = time.monotonic()
        self._quiet = quiet
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
        )
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=self._terminal, disable=quiet or not self._terminal.is_terminal
        )
        self._task = self._progress.add_task(launch.run_id, total=launch.max_step, values="starting")

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def update(self) -> None:
        """Show the newest step that is in the store."""
        run = self._store.runs.get(self._launch.run_id)
        latest = self._store.series.latest([run.id], list(_SHOWN)).get(run.id, {})
        values = "  ".join(text.format(latest[name]) for name, text in _SHOWN.items() if name in latest) or "starting"
        total = self._launch.max_step or self._declared_steps()
        self._progress.update(self._task, completed=run.last_step, total=total, values=values)
        if self._progress.disable and time.monotonic() - self._plain_at >= _PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            self.say(f"step {run.last_step} of {total or '?'}  {values}")

    def say(self, text: str) -> None:
        """One line above the bar."""
        if not self._quiet:
            self._progress.console.print(f"{self._launch.run_id}: {text}", markup=False, soft_wrap=True)

    def _declared_steps(self) -> int | None:
        steps = self._store.runs.declared(self._launch.run_id, self._launch.segment).get("steps")
        return steps if isinstance(steps, int) else None


class StageProgress:
    """Stages of one command, each with how much of it is done. A context manager."""

    def __init__(self, *, quiet: bool) -> None:
        self._terminal = notes()
        self._quiet = quiet
        self._plain_at = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=self._terminal, disable=quiet or not self._terminal.is_terminal
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> StageProgress:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, stage: str, done: int, total: int) -> None:
        """`total` 0: not known."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=None, amount="")
        amount = f"{done:,} of {total:,}" if total else f"{done:,}"
        self._progress.update(self._tasks[stage], completed=done, total=total or None, amount=amount)
        if self._progress.disable and not self._quiet and time.monotonic() - self._plain_at >= _PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            self._terminal.print(f"{stage}: {amount}", markup=False)
