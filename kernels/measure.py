"""How this package measures: candidates take turns in one process, and a figure is a median of paired ratios.

With one thread the clock is the process's CPU time, which another process's work hardly touches; with more threads it
is wall time. Nothing is measured on a machine that has more to do than it has cores, and a measurement during which
other processes worked is thrown away and taken again.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from contracts.errors import EnvironmentFault

Times = Mapping[str, Sequence[float]]
R = TypeVar("R")
MOST_OTHERS = 0.1
"""Cores that other processes may keep busy during a measurement."""


def refuse_a_busy_machine() -> None:
    """Raise EnvironmentFault when the one-minute load average exceeds the number of cores."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        message = f"load average {load:.1f} on {cores} cores: measurements would mean nothing"
        raise EnvironmentFault(message, remedy="wait until the machine is quiet, or pass --any-load to look anyhow")


def undisturbed(measure: Callable[[], R], *, tries: int = 8, pause_s: float = 4.0, limit: float = MOST_OTHERS) -> R:
    """The result of a call during which other processes used fewer than `limit` cores (Linux).

    A disturbed call is repeated after a pause; raises EnvironmentFault when `tries` of them were.
    """
    busy = math.inf
    for number in range(tries):
        if number:
            time.sleep(pause_s)
        begin, others = time.monotonic(), _others_s()
        result = measure()
        busy = (_others_s() - others) / max(time.monotonic() - begin, 1e-9)
        if busy < limit:
            return result
    message = f"other processes kept {busy:.2f} cores busy during each of {tries} measurements"
    raise EnvironmentFault(message, remedy="wait until the machine is quiet, or pass --any-load to look anyhow")


def _others_s() -> float:
    """CPU seconds since boot that went to other processes or other guests of the host."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(field) for field in fields[1:9])
    own = os.times()
    mine_s = own.user + own.system + own.children_user + own.children_system
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK") - mine_s


def cpu_seconds(run: Callable[[], object]) -> float:
    """What a call took on this machine's CPU: CPU time with one thread, else wall time."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    run()
    return clock() - begin


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warmup: int = 2,
    seconds: Callable[[Callable[[], object]], float] = cpu_seconds,
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round; every round runs all of them, in another order than the last one.

    The orders are all there are, in turn: which candidate finds whose data in the cache is part of every figure.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    orders = itertools.islice(itertools.cycle(itertools.permutations(candidates)), warmup + rounds)
    for number, order in enumerate(orders):
        for name in order:
            elapsed = seconds(candidates[name])
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
