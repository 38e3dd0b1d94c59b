"""One segment of a foreign training: `python -m control_plane.backends.command_child LAUNCH.json`.

Starts the command of the launch's spec and translates what it writes into the segment's events.log meanwhile. Each
start of the command is an *attempt* with a folder of its own; what an attempt that was killed left unread is read
before the next one begins, from the newest checkpoint. SIGTERM is passed on. Exit status as in trainer.child: 0 the
training ended (the last event says how), 1 it was killed, 3 the machine must be repaired.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from contracts.backend import Launch
from contracts.errors import ConfigError, LatheError, UserInputError
from contracts.events import Finished, Scalar, SegmentStarted, segment_folder
from control_plane.backends.command_checkpoints import checkpoint_step, own_path
from control_plane.backends.command_events import EventLog
from control_plane.backends.command_executed import install_tracer
from control_plane.backends.command_line import Invocation, facts_of, invocation
from control_plane.backends.command_registry import spec_of
from control_plane.backends.command_spec import BackendSpec
from control_plane.backends.command_translation import Translation
from trainer.child import StopRequest

_GUARD = str(Path(__file__).with_name("guard.py"))
_POLL_S = 0.1
_KILLED, _MACHINE_FAULT = 1, 3


class CommandSegment:
    """The segment of one launch. `environment`: of this process, without credentials."""

    def __init__(self, launch: Launch, stop: StopRequest, environment: Mapping[str, str]) -> None:
        self._launch = launch
        self._stop = stop
        self._environment = environment
        self._folder = segment_folder(launch.folder, launch.segment)
        self._log = EventLog(self._folder)

    def run(self) -> int:
        """Make one attempt and return the exit status of this process. Raises EnvironmentFault, LogFormatError."""
        try:
            spec = spec_of(self._launch)
            if self._log.attempts:
                self._read_rest(spec)
            newest = self._log.newest_checkpoint()
            start = newest.path if newest else self._launch.start_checkpoint
            attempt = self._fresh_attempt(start)
            invoked = self._invoke(spec, attempt, start)
        except UserInputError as error:
            self._started({}, {}, seed=0)
            self._finished("failed", error.message, error.remedy)
            return 0
        facts: dict[str, Scalar] = {"host": platform.node(), "num_threads": self._launch.num_threads}
        facts |= {"backend": self._launch.entry.removeprefix("command:"), **facts_of(invoked)}
        self._started(invoked.declared, facts, seed=invoked.seed)
        translation = self._translation(spec, attempt)
        status = self._watch(_start(invoked, attempt), translation, signal.Signals[spec.stop_signal])
        return self._end(spec, status, translation, invoked, attempt)

    # --- attempts

    def _read_rest(self, spec: BackendSpec) -> None:
        """What the last attempt wrote before it, or its watcher, was killed. Two looks, as checkpoints need them."""
        rest = self._translation(spec, self._attempt(self._log.attempts))
        rest.pump()
        rest.pump()

    def _fresh_attempt(self, start: str) -> Path:
        attempt = self._attempt(self._log.attempts + 1)
        shutil.rmtree(attempt, ignore_errors=True)
        (attempt / "output").mkdir(parents=True)
        (attempt / "start").write_text(start)
        return attempt

    def _attempt(self, number: int) -> Path:
        return self._folder / f"attempt-{number}"

    def _translation(self, spec: BackendSpec, attempt: Path) -> Translation:
        start = attempt / "start"
        step = checkpoint_step(start.read_text()) if start.exists() else 0
        return Translation(spec, self._launch, self._log, attempt, start_step=step)

    def _invoke(self, spec: BackendSpec, attempt: Path, start: str) -> Invocation:
        try:
            checkpoint = own_path(start)
        except OSError as error:
            raise ConfigError(f"the checkpoint {start} is gone", remedy="restore its folder") from error
        invoked = invocation(spec, self._launch, attempt=attempt, checkpoint=checkpoint, environment=self._environment)
        folders = [str(install_tracer(attempt, Path(self._launch.project))), str(invoked.folder)]
        if theirs := spec.environment.get("PYTHONPATH"):
            folders.append(theirs)
        return replace(invoked, environment={**invoked.environment, "PYTHONPATH": os.pathsep.join(folders)})

    # --- the training

    def _watch(self, process: subprocess.Popen[bytes], translation: Translation, stop_signal: signal.Signals) -> int:
        """Exit status of the training, as in Popen.returncode; all that it wrote is translated then."""
        told = False
        while (status := process.poll()) is None:
            translation.pump()
            if self._stop() and not told:
                process.send_signal(stop_signal)
                told = True
            time.sleep(_POLL_S)
        with suppress(ProcessLookupError, PermissionError):  # workers that it left behind
            os.killpg(process.pid, signal.SIGKILL)
        translation.pump(ended_well=status == 0)
        return status

    def _end(self, spec: BackendSpec, status: int, translation: Translation, invoked: Invocation, attempt: Path) -> int:
        step, errors = self._log.last_step, attempt / "stderr.txt"
        if self._stop() and (status != 0 or step < invoked.steps):
            self._finished("stopped", "stopped as asked", "")
        elif status < 0:
            sys.stderr.write(f"the command was ended by {signal.Signals(-status).name}\n")
            return _KILLED
        elif status > 0:
            said = errors.read_text(errors="replace").strip().splitlines()[-1:]
            message = f"the command ended with exit status {status}" + (f": {said[0]}" if said else "")
            self._finished("failed", message, f"read {errors}")
        elif nothing := translation.found_nothing:
            self._finished("failed", nothing, f"correct the section log of backend {spec.name} and add it again")
        elif invoked.steps - step > translation.interval:
            self._finished("stopped", f"ended by itself at step {step} of {invoked.steps}", f"read {errors}")
        else:
            self._finished(
                "completed", "" if step >= invoked.steps else f"last logged step {step} of {invoked.steps}", ""
            )
        return 0

    # --- events

    def _started(self, config: Mapping[str, Scalar], environment: Mapping[str, Scalar], *, seed: int) -> None:
        """The start is that of the segment, wherever this attempt goes on."""
        self._log.append(
            SegmentStarted(
                run_id=self._launch.run_id,
                segment=self._launch.segment,
                start_step=checkpoint_step(self._launch.start_checkpoint),
                code_version=self._launch.code_version,
                seed=seed,
                dp_size=1,
                start_checkpoint=self._launch.start_checkpoint,
                config=config,
                environment=environment,
                wall_time=time.time(),
            )
        )

    def _finished(self, reason: str, message: str, remedy: str) -> None:
        self._log.append(Finished(step=self._log.last_step, reason=reason, message=message, remedy=remedy))
        self._log.sync()


def _start(invoked: Invocation, attempt: Path) -> subprocess.Popen[bytes]:
    with (attempt / "stdout.txt").open("wb") as out, (attempt / "stderr.txt").open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-I", _GUARD, str(os.getpid()), *invoked.arguments],
            cwd=invoked.folder,
            env=invoked.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            close_fds=False,  # this process was given the segment's lock; it is held until the training is gone too
            start_new_session=True,
        )


def main(arguments: list[str]) -> int:
    """Run one launch and return the exit status."""
    stop = StopRequest()
    launch = Launch.from_json(Path(arguments[0]).read_text())
    try:
        return CommandSegment(launch, stop, dict(os.environ)).run()
    except LatheError as error:
        sys.stderr.write(f"{error}\n")
        return _MACHINE_FAULT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
