"""How this package measures: candidates take turns in one process, and a figure is a median of paired ratios.

With one thread the clock is the process's CPU time, which another process's work hardly touches; with more threads it
is wall time. Nothing is measured on a machine that has more to do than it has cores.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from contracts.errors import EnvironmentFault

Times = Mapping[str, Sequence[float]]


def refuse_a_busy_machine() -> None:
    """Raise EnvironmentFault when the one-minute load average exceeds the number of cores."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        message = f"load average {load:.1f} on {cores} cores: measurements would mean nothing"
        raise EnvironmentFault(message, remedy="wait until the machine is quiet, or pass --any-load to look anyhow")


def interleave(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 2
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round; every round runs all of them, in turn from a moving start."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    names = list(candidates)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warmup + rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            begin = clock()
            candidates[name]()
            elapsed = clock() - begin
            if number >= warmup:
                times[name].append(elapsed)
    return times


def speedup(times: Times, ours: str, peer: str) -> float:
    """Median over rounds of peer seconds / our seconds: above one, ours is faster."""
    return statistics.median(b / a for a, b in zip(times[ours], times[peer], strict=True))


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def require_close(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], *, relative: float) -> None:
    """Equality first: raise AssertionError unless each pair differs by at most `relative` of its largest value."""
    for a, b in zip(got, want, strict=True):
        gap, scale = float((a.float() - b.float()).abs().max()), float(b.float().abs().max())
        if not gap <= relative * scale:
            raise AssertionError(f"results differ by {gap:.3g} where the largest value is {scale:.3g}")
