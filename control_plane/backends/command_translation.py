"""What a foreign training writes, as training events: its log, what it executed, and its checkpoints."""

from __future__ import annotations

from pathlib import Path

from contracts.backend import Launch
from contracts.events import CodeExecuted, Metrics, segment_folder
from control_plane.backends.command_checkpoints import CheckpointWatch
from control_plane.backends.command_events import EventLog
from control_plane.backends.command_executed import ExecutedWatch
from control_plane.backends.command_logs import MetricsLog
from control_plane.backends.command_spec import BackendSpec

_TRACED_STEPS = 2  # as our own trainer's lines are


class Translation:
    """Of one attempt, which began at `start_step`. `pump` may be called at any time and appends what is new.

    Rows are counted, so a translation that was killed is continued by another one of the same attempt. `interval`: the
    most steps between two rows.
    """

    def __init__(self, spec: BackendSpec, launch: Launch, log: EventLog, attempt: Path, *, start_step: int) -> None:
        self._log = log
        self._metrics = MetricsLog(spec.log, attempt, start_step=start_step)
        self._executed = ExecutedWatch(Path(launch.project), attempt)
        kept = segment_folder(launch.folder, launch.segment) / "checkpoints"
        self._checkpoints = CheckpointWatch(spec.checkpoints, attempt / "output", kept) if spec.checkpoints else None
        self._num_rows = 0
        self.interval = 0
        self._logged = start_step
        self._trace_until = start_step + _TRACED_STEPS

    def pump(self, *, ended_well: bool = False) -> None:
        """Rows, then what was executed, then the checkpoints that the rows have reached. Raises EnvironmentFault."""
        for row in self._metrics.rows():
            self._num_rows += 1
            self.interval = max(self.interval, row.step - self._logged)
            self._logged = max(self._logged, row.step)
            if self._num_rows > self._log.rows:  # the others were translated by a process that is gone
                self._log.append(Metrics(step=row.step, values=row.values))
        if self._logged >= self._trace_until:
            self._executed.stop_lines()
        if found := self._executed.look():
            self._log.append(CodeExecuted(step=self._log.last_step, modules=found[0], lines=found[1]))
        if self._checkpoints is not None:
            self._pump_checkpoints(self._checkpoints, ended_well)

    @property
    def found_nothing(self) -> str:
        """What to say of a training in whose log there was no row; "" when there was one."""
        if self._num_rows:
            return ""
        unread = f" ({self._metrics.unread} records there have no step)" if self._metrics.unread else ""
        return f"nothing that the backend reads was logged: it looks at {self._metrics.place}{unread}"

    def _pump_checkpoints(self, checkpoints: CheckpointWatch, ended_well: bool) -> None:
        known = {checkpoint.path for checkpoint in self._log.checkpoints}
        for saved in checkpoints.look(logged=self._logged, ended_well=ended_well):
            if saved.path not in known:
                self._log.append(saved)
                self._log.sync()
