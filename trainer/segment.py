"""Runs one segment of a run: from its start or last checkpoint to its last step, writing events and checkpoints."""

from __future__ import annotations

import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from contracts.backend import Launch
from contracts.events import (
    CheckpointSaved,
    CodeExecuted,
    DataRead,
    Effective,
    Finished,
    Metrics,
    Scalar,
    SegmentStarted,
    segment_folder,
)
from trainer.checkpoint import is_sound, load_checkpoint, save_checkpoint
from trainer.config import TrainConfig
from trainer.corpus import Corpus
from trainer.executed import ExecutionRecord
from trainer.feasibility import check_feasible, machine_memory
from trainer.ranks.alone import Ranks
from trainer.recipe import Recipe
from trainer.runlog import RunLog
from trainer.staged import StagedTraining
from trainer.training import StepRecord, TrainingState
from trainer.wishes import Wishes

_DRIVER = Path("/proc/driver/nvidia/version")
_TRACED_STEPS = 2
_MAX_REWINDS = 3  # to one checkpoint


class Segment:
    """One launch. `stop_requested` is asked after each step; `say` writes to the console."""

    def __init__(
        self,
        launch: Launch,
        recipe: Recipe,
        log: RunLog,
        record: ExecutionRecord,
        stop_requested: Callable[[], bool],
        say: Callable[[str], object],
        ranks: Ranks | None = None,
    ) -> None:
        self._launch, self._recipe, self._log, self._record = launch, recipe, log, record
        self._stop_requested, self._say, self._ranks = stop_requested, say, ranks
        self._plan = recipe.plan()
        self._wishes = Wishes(segment_folder(launch.folder, launch.segment), stop_requested)
        self._saved: list[CheckpointSaved] = list(log.found.checkpoints)
        self._effective: dict[str, Scalar] = {}
        self._rewinds: list[int] = []  # to the present checkpoint

    def run(self) -> Finished:
        """Train until the last step or a stop request; returns the event that was written last."""
        for stage in self._plan:
            check_feasible(stage.config, self._recipe.parts.parameter_group, machine_memory())
        state = self._start_state()
        training = StagedTraining(self._recipe, state, time.perf_counter, self._ranks)
        if cut := training.corpus.cut:
            self._say(f"WARNING: data.corpus_bytes lets in only the beginning of {', '.join(cut)}")
        if not self._log.found.is_started:
            self._log.append(self._started(training))
        last_step = self._launch.max_step or self._plan[-1].last_step
        traced_until = training.step + _TRACED_STEPS  # tracing slows the project's own code
        finished: Finished | None = None
        while training.step < last_step and finished is None:
            record = training.advance()
            self._write(record, training.config)
            if training.step in (traced_until, last_step):
                self._write_executed(training.step)
            finished = self._fault(record, training) or self._stop(training, last_step)
            is_wanted = self._wishes.checkpoint()
            is_due = training.step % training.config.checkpoint.every == 0 or training.ends_stage_early
            if finished is None and (is_wanted or is_due):
                self._checkpoint(training)
            if is_wanted:
                self._wishes.saved()
        return self._finish(training, finished)

    def _finish(self, training: StagedTraining, finished: Finished | None) -> Finished:
        is_sane = finished is None or finished.reason == "stopped"
        if is_sane and (finished or training.config.checkpoint.at_end) and not self._is_saved(training.step):
            self._checkpoint(training)
        finished = finished or Finished(step=training.step, reason="completed")
        self._log.append(finished)
        self._log.sync()
        return finished

    def _start_state(self) -> TrainingState | None:
        """The newest sound checkpoint that this segment wrote, else the one it was launched from."""
        for saved in reversed(self._saved):
            if is_sound(Path(saved.path)):
                return load_checkpoint(Path(saved.path))
        if not self._launch.start_checkpoint:
            return None
        return load_checkpoint(Path(self._launch.start_checkpoint))

    def _started(self, training: StagedTraining) -> SegmentStarted:
        config = training.config
        return SegmentStarted(
            run_id=self._launch.run_id,
            segment=self._launch.segment,
            start_step=training.step,
            code_version=self._launch.code_version,
            seed=config.seed,
            dp_size=config.parallel.dp_size,
            start_checkpoint=self._launch.start_checkpoint,
            config=config.flat(),
            environment=self._environment() | _facts(training.corpus),
            wall_time=time.time(),
        )

    def _environment(self) -> dict[str, Scalar]:
        hosts = self._ranks.hosts() if self._ranks else ()
        names = {f"host.place_{place}": name for place, name in enumerate(hosts)}
        return _environment(self._launch.num_threads) | names

    def _write(self, record: StepRecord, config: TrainConfig) -> None:
        step = record.step
        data = DataRead(step=step, sample_hash=record.sample_hash, position=record.consumed)
        metrics = Metrics(step=step, values=record.values)
        changed = {k: v for k, v in record.effective.items() if k not in self._effective or self._effective[k] != v}
        self._effective.update(changed)
        effective = [Effective(step=step, values=changed)] if changed else []
        self._log.append(*effective, data, metrics)
        if step % config.diagnostics.console_every == 0:
            self._say(self._recipe.parts.log_line(step, record.values))

    def _write_executed(self, step: int) -> None:
        if not self._record.is_running:
            return
        self._record.stop()
        self._log.append(CodeExecuted(step=step, modules=self._record.modules(), lines=self._record.lines()))

    def _fault(self, record: StepRecord, training: StagedTraining) -> Finished | None:
        """What the policy does about a loss or gradient that is not finite; the step was recorded as it is."""
        policy = training.config.numerics.on_nonfinite
        fault = _nonfinite(record)
        if fault is None or policy in ("continue", "skip"):
            return None
        if policy == "stop":
            return _failed(record.step, fault, "numerics.on_nonfinite=skip or rewind goes on without the step")
        state = self._start_state()
        target = state.step if state else 0
        self._rewinds = [step for step in self._rewinds if step == target] + [target]
        if len(self._rewinds) > _MAX_REWINDS:
            return _failed(record.step, f"{fault}, after {_MAX_REWINDS} returns to step {target}", "lower optim.*.lr")
        self._say(f"step {record.step}: {fault}; weights and optimizer return to those of step {target}")
        training.rewind(state)
        return None

    def _stop(self, training: StagedTraining, last_step: int) -> Finished | None:
        if training.step == last_step or not self._stop_requested():
            return None
        return Finished(step=training.step, reason="stopped", message="stop was requested")

    def _is_saved(self, step: int) -> bool:
        return any(saved.step == step for saved in self._saved)

    def _checkpoint(self, training: StagedTraining) -> None:
        saved = save_checkpoint(training.state(), self._folder(training.step))
        event = CheckpointSaved(
            step=training.step, path=str(saved.path), sha256=saved.sha256, size_bytes=saved.size_bytes
        )
        self._log.append(event)
        self._log.sync()
        self._saved = [s for s in self._saved if s.path != event.path] + [event]
        keep = training.config.checkpoint.keep
        for old in self._saved[:-keep] if keep else []:
            shutil.rmtree(old.path)
        self._saved = self._saved[-keep:]

    def _folder(self, step: int) -> Path:
        """`step-000120`, or with the segment's number when another segment of the run has that one."""
        folders = self._launch.folder / "checkpoints"
        plain, own = folders / f"step-{step:06d}", folders / f"step-{step:06d}-segment-{self._launch.segment:03d}"
        mine = {saved.path for saved in self._saved}
        is_taken = self._launch.segment > 0 and plain.exists() and str(plain) not in mine
        return own if is_taken else plain


def _facts(corpus: Corpus) -> dict[str, Scalar]:
    cut: dict[str, Scalar] = {"corpus_cut": ", ".join(corpus.cut)} if corpus.cut else {}
    return cut | {"corpus_sha256": corpus.sha256}


def _nonfinite(record: StepRecord) -> str | None:
    for name, text in (("loss", "loss"), ("grad_norm", "norm of the gradient")):
        if not math.isfinite(record.values[name]):
            return f"the {text} became {record.values[name]} at step {record.step}"
    return None


def _failed(step: int, message: str, remedy: str) -> Finished:
    return Finished(
        step=step, reason="failed", message=message, remedy=f"look at the steps before it and their data; {remedy}"
    )


def _environment(num_threads: int) -> dict[str, Scalar]:
    driver: dict[str, Scalar] = {"driver": _DRIVER.read_text().splitlines()[0]} if _DRIVER.is_file() else {}
    return driver | {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "num_cpus": os.cpu_count(),
        "num_threads": num_threads,
        "host": platform.node(),
        "executable": sys.executable,
    }
