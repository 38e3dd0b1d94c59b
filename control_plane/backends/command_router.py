"""Sends each launch to the backend that its entry names."""

from __future__ import annotations

from contracts.backend import Launch, Outcome, TrainerBackend
from contracts.errors import BackendFailure
from control_plane.backends.command_registry import is_command


class RoutedBackend:
    """`command` runs launches of specs, `embedded` all others. Thread-safe when both are."""

    name = "routed"

    def __init__(self, *, embedded: TrainerBackend, command: TrainerBackend) -> None:
        self._embedded = embedded
        self._command = command
        self._home: dict[tuple[str, int], TrainerBackend] = {}

    def submit(self, launch: Launch) -> None:
        """Start or continue the segment unless it is running here."""
        backend = self._command if is_command(launch.entry) else self._embedded
        self._home[launch.run_id, launch.segment] = backend
        backend.submit(launch)

    def poll(self, run_id: str, segment: int) -> Outcome | None:
        """The outcome, or None while it runs. Raises BackendFailure when it was never submitted here."""
        backend = self._home.get((run_id, segment))
        if backend is None:
            raise BackendFailure(f"run {run_id}, segment {segment} was not started here", remedy="start it again")
        return backend.poll(run_id, segment)

    def cancel(self, run_id: str, segment: int) -> None:
        """Ask the training to write a checkpoint and end; after a grace time it is killed."""
        if backend := self._home.get((run_id, segment)):
            backend.cancel(run_id, segment)

    def close(self) -> None:
        """Close both."""
        try:
            self._command.close()
        finally:
            self._embedded.close()
