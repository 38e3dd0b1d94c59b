"""From a launch to an exit status: opens the log, loads the project, runs the segment and records why it ended."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from contracts.backend import Launch
from contracts.errors import DiskFull, LatheError, UserInputError
from contracts.events import Finished, segment_folder
from trainer.executed import ExecutionRecord
from trainer.project import is_project_fault, load_recipe, where
from trainer.ranks.team import member, team_of
from trainer.recipe import Recipe
from trainer.runlog import RunLog
from trainer.segment import Segment
from trainer.staged import StagedTraining

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def run_launch(
    launch: Launch, stop_requested: Callable[[], bool], launch_path: str | None = None, address: str | None = None
) -> int:
    """0 when the segment completed or was stopped, 1 when its training failed.

    `launch_path` and `address` are for the other processes of a training that has several (`ranks.team`).
    A segment that is already complete is left alone. Errors are recorded in the log, as far as the disk takes
    it, and raised: those of the project's code as UserInputError.
    """
    make_deterministic(launch.num_threads)
    keep_freed_memory()
    log = RunLog(segment_folder(launch.folder, launch.segment))
    if log.found.finished == "completed":
        return 0
    try:
        finished = _train(launch, log, stop_requested, launch_path, address)
    except Exception as error:
        failure = _failure(error, Path(launch.project))
        with contextlib.suppress(DiskFull):
            log.append(_finished(failure, log.last_step))
        raise failure from error
    finally:
        log.close()
    return 1 if finished.reason == "failed" else 0


def follow_launch(launch: Launch, rank: int, address: str) -> int:
    """Be process `rank` of a launch whose first process is at `address`: 0 at its end, 1 when it is lost."""
    make_deterministic(launch.num_threads)
    keep_freed_memory()
    recipe = _recipe(launch)
    try:
        with member(recipe.plan()[0].config, rank, address) as (ranks, orders):
            training = StagedTraining(recipe, None, time.perf_counter, ranks)
            for order in orders:
                training.obey(order)
    except RuntimeError as error:
        sys.stderr.write(f"process {rank}: {str(error).splitlines()[0]}\n")
        return 1
    return 0


def _train(
    launch: Launch, log: RunLog, stop_requested: Callable[[], bool], launch_path: str | None, address: str | None
) -> Finished:
    record = ExecutionRecord(Path(launch.project))
    record.start()
    try:
        recipe = _recipe(launch)
        with team_of(recipe.plan()[0].config, launch_path, address) as ranks:
            return Segment(launch, recipe, log, record, stop_requested, _say, ranks).run()
    finally:
        record.stop()


def _recipe(launch: Launch) -> Recipe:
    recipe = load_recipe(Path(launch.project), launch.entry)
    overrides = dict(launch.overrides) | ({} if launch.seed is None else {"seed": launch.seed})
    return recipe.with_overrides(overrides)


def _failure(error: Exception, project: Path) -> Exception:
    if isinstance(error, LatheError) or not is_project_fault(error, project):
        return error
    return UserInputError(
        f"{where(error, project)}: {type(error).__name__}: {error}",
        remedy="correct the project's code and start again; it goes on from the last checkpoint",
    )


def _finished(error: Exception, step: int) -> Finished:
    if isinstance(error, LatheError):
        return Finished(step=step, reason="failed", message=error.message, remedy=error.remedy)
    message = f"{type(error).__name__}: {error}"
    return Finished(step=step, reason="failed", message=message, remedy="the process's error output says where")


def make_deterministic(num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    torch.set_deterministic_debug_mode("error")  # use_deterministic_algorithms would import the compiler: 2 s
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing here reads memory it did not write


def keep_freed_memory() -> None:
    """Let glibc reuse freed blocks of any size; by default it returns large ones and each step faults them in again."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**30)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
