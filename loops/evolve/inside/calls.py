"""Evaluates calls of a module in another process, which learns the calls and never what is expected of them.

`in_child` forks: quick, and for what holds no secret, since a fork has all the memory of its parent. `in_process`
starts a program of its own, for graders. What runs may be hostile: it is bounded in time, its streams go nowhere.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loops.evolve.inside.quiet import leave_alone

_MAX_BYTES = 1 << 18
_CPU_S = 3
_NOT_RUN = "not run, because the call before it did not end"
_CALL_CPU_S = 0.05
_ROOT = Path(__file__).parents[3]  # what `loops.evolve.inside` is imported from


def in_child(work: Callable[[], Any], wall_s: float) -> Any:
    """`work()` in a forked child, as JSON; None when it does not answer in time or not with JSON."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_child(reader, writer, work)
    os.close(writer)
    data = _read(reader, wall_s)
    os.close(reader)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def in_process(path: Path, calls: Sequence[str], wall_s: float) -> Any:
    """`evaluate(path, calls)` by a fresh interpreter, None when it does not answer in time or not with JSON."""
    code = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from loops.evolve.inside.calls import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True, cwd=path.parent,
    )  # fmt: skip
    try:
        out, _ = process.communicate(json.dumps({"path": str(path), "calls": list(calls)}).encode(), timeout=wall_s)
        return json.loads(out[:_MAX_BYTES])
    except (ValueError, subprocess.TimeoutExpired):
        return None
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """One request on standard input, one answer on standard output, which the tested code does not get."""
    request = json.load(sys.stdin)
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    leave_alone([os.getppid()])
    data = json.dumps(evaluate(Path(request["path"]), request["calls"])).encode()
    while data:
        data = data[os.write(answer, data) :]
    os._exit(0)


def _become_child(reader: int, writer: int, work: Callable[[], Any]) -> None:
    """Never returns."""
    try:
        os.close(reader)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        leave_alone([os.getppid()])
        data = json.dumps(work()).encode()[:_MAX_BYTES]
        while data:
            data = data[os.write(writer, data) :]
    except BaseException:
        os._exit(1)
    os._exit(0)


def _read(reader: int, wall_s: float) -> bytes:
    end, data = time.monotonic() + wall_s, b""
    while len(data) < _MAX_BYTES:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(reader, 1 << 16) if ready else b""
        if not piece:
            return data
        data += piece
    return data


def evaluate(path: Path, calls: Sequence[str], *, traced: bool = False) -> list[dict[str, Any]]:
    """For each call its value (`repr`) or the error, the line where it was raised, and with `traced` the lines run."""
    space: dict[str, Any] = {"__name__": "tested", "__file__": str(path)}
    try:
        exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102
    except BaseException as error:
        return [
            {"error": f"{type(error).__name__}: {error}"[:200], "line": _line_of(error, path), "lines": []}
            for _ in calls
        ]
    found: list[dict[str, Any]] = []
    for call in calls:
        stuck = bool(found) and found[-1].get("error", "").startswith(("TimeoutError", _NOT_RUN))
        found.append({"error": _NOT_RUN, "lines": []} if stuck else _one(call, dict(space), path, traced))
    return found


def _one(call: str, space: dict[str, Any], path: Path, traced: bool) -> dict[str, Any]:
    lines: set[int] = set()

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == str(path) and event == "line":
            lines.add(frame.f_lineno)
        return trace

    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, _CALL_CPU_S)  # of processor time, so that a busy machine changes no result
    sys.settrace(trace if traced else None)
    try:
        found: dict[str, Any] = {"value": repr(eval(call, space))[:2000]}  # noqa: S307
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {error}"[:200], "line": _line_of(error, path)}
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return found | {"lines": sorted(lines)}


def _too_long(*_: Any) -> None:
    raise TimeoutError("took too long")


def _line_of(error: BaseException, path: Path) -> int:
    if isinstance(error, TimeoutError):
        return 0  # wherever it happened to be
    step, line = error.__traceback__, getattr(error, "lineno", 0) or 0
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path):
            line = step.tb_lineno
        step = step.tb_next
    return int(line)
