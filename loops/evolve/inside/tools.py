"""The tools an episode can be given, carried out by the supervisor on the workspace. Their answers are text."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from loops.evolve.inside.calls import evaluate, in_child
from loops.evolve.inside.quiet import leave_alone

_MAX_TEXT = 6000
NAMES = ("list_files", "read_file", "run_tests", "edit", "undo", "localise", "shell", "fit", "submit")


class Tools:
    """One episode's workspace. `visible`: the calls with expected values that the scaffold may see and run.

    `end`: the monotonic second at which the episode's time is over; no tool runs for longer.
    """

    def __init__(self, folder: Path, task: dict[str, Any], seed: int) -> None:
        self._folder, self._task, self._seed = folder, task, seed
        self._before: list[tuple[Path, str]] = []
        self.submitted = False
        self.end = math.inf

    def _at_most(self, wall_s: float) -> float:
        return max(0.0, min(wall_s, self.end - time.monotonic()))

    def run(self, name: str, args: dict[str, Any]) -> str:
        """The tool's answer; what went wrong is an answer too."""
        if name not in NAMES:
            return f"ERROR no tool {name[:40]}"
        try:
            return str(getattr(self, f"_{name}")(**{str(key): value for key, value in args.items()}))[:_MAX_TEXT]
        except (TypeError, ValueError, LookupError, OSError) as error:
            return f"ERROR {type(error).__name__}: {str(error)[:200]}"

    def _path(self, path: str) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder.resolve()):
            raise ValueError(f"{path} is not in the workspace")
        return found

    def _list_files(self) -> str:
        paths = sorted(p for p in self._folder.rglob("*") if p.is_file())
        return "FILES\n" + "\n".join(str(path.relative_to(self._folder)) for path in paths[:100])

    def _read_file(self, path: str) -> str:
        lines = self._path(path).read_text(errors="replace").splitlines()
        return f"== {path}\n" + "\n".join(f"{number}| {line}" for number, line in enumerate(lines, 1)) + "\n"

    def _edit(self, path: str, line: int, text: str) -> str:
        """Replaces one line; `undo` takes the last one back."""
        target = self._path(path)
        before = target.read_text()
        lines = before.splitlines()
        lines[int(line) - 1] = text
        self._before.append((target, before))
        target.write_text("\n".join(lines) + "\n")
        return f"EDIT {path}:{line} -> {text}"

    def _undo(self) -> str:
        if not self._before:
            return "ERROR nothing to undo"
        target, text = self._before.pop()
        target.write_text(text)
        return "UNDONE"

    def _run_tests(self) -> str:
        if self._task["visible"].get("command"):
            return self._shell_check(self._task["visible"]["command"])
        results = self._results(traced=False)
        if results is None:
            return f"TESTS passed=0 failed={len(self._cases)}\nthey did not end in time"
        failures = [
            f"FAIL {call}: expected {expected}, got {found.get('value', found.get('error'))}"
            + (f" at line {found['line']}" if found.get("line") else "")
            for (call, expected), found in zip(self._cases, results, strict=True)
            if found.get("value") != expected
        ]
        return "\n".join([f"TESTS passed={len(results) - len(failures)} failed={len(failures)}", *failures])

    def _shell_check(self, command: str) -> str:
        done = self._run(command)
        return f"TESTS passed={int(done.returncode == 0)} failed={int(done.returncode != 0)}\n{done.stdout[-500:]}"

    def _localise(self, path: str) -> str:
        """Spectrum-based localisation by Ochiai's coefficient over the visible tests (Abreu et al. 2007)."""
        results = self._results(traced=True)
        if results is None:
            return "ERROR the tests did not end in time"
        bad = [found.get("value") != expected for (_, expected), found in zip(self._cases, results, strict=True)]
        scores = {}
        for line in sorted({line for found in results for line in found.get("lines", [])}):
            hit = [line in found.get("lines", []) for found in results]
            failed = sum(h and b for h, b in zip(hit, bad, strict=True))
            scores[line] = failed / max(1e-9, (sum(bad) * sum(hit)) ** 0.5)
        best = sorted(scores, key=lambda line: (-scores[line], line))
        return "\n".join(f"SUSPECT {path}:{line} {scores[line]:.2f}" for line in best) + f"\nAVOID localise {path}"

    @property
    def _cases(self) -> list[tuple[str, str]]:
        return [(call, expected) for call, expected in self._task["visible"].get("calls", [])]

    def _results(self, *, traced: bool) -> list[dict[str, Any]] | None:
        path = self._path(self._task["visible"]["module"])
        calls = [call for call, _ in self._cases]
        found = in_child(lambda: evaluate(path, calls, traced=traced), wall_s=self._at_most(15.0))
        return found if isinstance(found, list) and len(found) == len(calls) else None

    def _shell(self, command: str) -> str:
        done = self._run(command)
        return f"RAN exit={done.returncode} {command}\n{done.stdout[-3000:]}{done.stderr[-500:]}"

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        watcher = os.getpid()
        process = subprocess.Popen(  # this process has one thread
            ["/bin/sh", "-c", command], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
            preexec_fn=lambda: leave_alone([watcher]),
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=self._at_most(10.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out = err = ""
            with contextlib.suppress(subprocess.TimeoutExpired):  # what left the group may hold the streams open
                out, err = process.communicate(timeout=self._at_most(1.0))
            return subprocess.CompletedProcess(command, 124, out, err + "took too long")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _fit(self, model: str, setting: str, scale: str) -> str:
        """Trains, tells the accuracy by cross-validation, and writes predictions.csv."""
        from loops.evolve.inside.learners import MODELS, fit_predict  # numpy: only where it is needed, and once

        if model not in MODELS:
            return f"ERROR no model {model}"
        answer = in_child(
            lambda: fit_predict(self._folder, model, float(setting), scale in ("1", "true", 1), self._seed),
            wall_s=self._at_most(30.0),
        )
        if not isinstance(answer, list):
            return "ERROR it did not end in time"
        accuracy, labels = answer
        self._path("predictions.csv").write_text("label\n" + "\n".join(labels) + "\n")
        return f"FIT model={model} setting={setting} scale={scale} cv={accuracy:.4f}"

    def _submit(self) -> str:
        self.submitted = True
        return "SUBMITTED"
