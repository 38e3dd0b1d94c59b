"""Runs a scaffold on tasks in the sandbox and grades what it hands in, in another one.

A batch is one command: its episodes run one after another below a supervisor that is not part of the scaffold
(inside/supervisor.py). Nothing of a grader enters that sandbox; no network; everything but the workspace is read-only;
as root the code runs as another user id.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from agents.sandbox import Command, Limits, Mount, Sandbox
from contracts.errors import EnvironmentFault, NotPermitted
from loops.evolve.tasks import INSIDE, STARTER, Suite

_ROOT = "/inputs/lathe"
_PACKAGE = f"{_ROOT}/loops/evolve/inside"
_SITE = "/inputs/site"
_SCAFFOLD = "/inputs/scaffold"
_SCRATCH = "/tmp:/dev/shm"  # noqa: S108  # of the sandbox, emptied between episodes
BATCH = 24  # episodes a command
_WALL_S = 15.0  # an episode's share of the deadline


def deadline_s(num_episodes: int) -> float:
    """Wall seconds a batch may take; a scaffold that stops the supervisor holds the run up for no longer."""
    return 45.0 + _WALL_S * num_episodes


@dataclass(frozen=True, kw_only=True)
class Job:
    """One episode: a task by name and a seed."""

    task: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a job. `score` in [0, 1]; `trace` is empty unless asked for; `again`: it had to be begun twice."""

    job: Job
    score: float
    why: str
    ended: str
    asks: int
    chars: int
    canaries: tuple[str, ...] = ()
    trace: tuple[dict[str, Any], ...] = ()
    again: bool = False


class Runs(Protocol):
    """What a run needs of an evaluator; `Evaluator` here, `replay.Measured` where nothing is run."""

    @property
    def suite(self) -> Suite: ...

    def run(self, scaffold: Path, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]: ...


@dataclass(kw_only=True)
class Evaluator:
    """`argv`: the command of a scaffold that is not of our format (it speaks the protocol of inside/desk.py)."""

    sandbox: Sandbox
    suite: Suite
    argv: tuple[str, ...] = ()
    limits: Limits = field(
        default_factory=lambda: Limits(cpu_s=900, memory_bytes=3 << 30, output_bytes=32 << 20, processes=64)
    )

    def __post_init__(self) -> None:
        if not self.sandbox.facts().isolated:
            raise NotPermitted(
                "scaffolds are changed by a program and run only isolated",
                remedy="use a machine whose kernel allows user namespaces (lathe doctor says what is missing)",
            )
        if shown := labels_in_view():
            raise NotPermitted(
                f"{shown[0]} can be read inside the sandbox, and with it the labels of the tasks",
                remedy="install Lathe and its packages in a virtual environment outside /usr",
            )

    def run(self, scaffold: Path, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]:
        """One outcome a job, in order. An episode that gave no answer has failed."""
        return [
            outcome
            for start in range(0, len(jobs), BATCH)
            for outcome in self._batch(scaffold, jobs[start : start + BATCH], traced)
        ]

    def grade(self, submissions: Sequence[tuple[str, dict[str, str]]]) -> list[tuple[float, str]]:
        """(score, reason) for each (task, files)."""
        items: list[dict[str, Any]] = [
            {"id": str(number), "grader": self.suite.tasks[task].grader, "files": files}
            for number, (task, files) in enumerate(submissions)
        ]
        none: dict[str, Any] = {"score": 0.0, "why": "it could not be graded"}
        found, _ = self._all_answers("grade", [], items, ())
        rows = [found.get(item["id"], none) for item in items]
        return [(float(row["score"]), str(row["why"])) for row in rows]

    def _batch(self, scaffold: Path, jobs: Sequence[Job], traced: bool) -> list[Outcome]:
        specs: list[dict[str, Any]] = [
            {"id": str(number), "task": self.suite.tasks[job.task].shown, "seed": job.seed}
            for number, job in enumerate(jobs)
        ]
        words = [_SCAFFOLD, _SCRATCH, "trace" if traced else "no-trace", *self.argv]
        found, again = self._all_answers("supervisor", words, specs, (Mount(source=scaffold, target=_SCAFFOLD),))
        silent: dict[str, Any] = {"files": {}, "ended": "lost", "spent": {}, "canaries": [], "trace": []}
        rows = [found.get(spec["id"], silent) for spec in specs]
        grades = self.grade([(job.task, row["files"]) for job, row in zip(jobs, rows, strict=True)])
        outcomes = [_outcome(job, row, *grade) for job, row, grade in zip(jobs, rows, grades, strict=True)]
        return [replace(each, again=spec["id"] in again) for each, spec in zip(outcomes, specs, strict=True)]

    def _all_answers(
        self, module: str, words: list[str], items: list[dict[str, Any]], mounts: tuple[Mount, ...]
    ) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """The answers by id, and the ids that were begun twice, of which each is one more episode.

        What is missing is asked for again, because a machine that was busy or stopped has said nothing about it; the
        first one that is missing twice has ended its batch, and those behind it go on without it."""
        found: dict[str, dict[str, Any]] = {}
        again: set[str] = set()
        left, suspect = items, ""
        while left:
            found |= self._answers(module, words, left, mounts)
            left = [item for item in left if item["id"] not in found]
            if left and left[0]["id"] == suspect:
                left = left[1:]
            elif left:
                again.add(left[0]["id"])
            suspect = left[0]["id"] if left else ""
        return found, again

    def _answers(
        self, module: str, words: list[str], items: list[dict[str, Any]], mounts: tuple[Mount, ...]
    ) -> dict[str, dict[str, Any]]:
        """The lines the module prints, by id. What is no line of JSON with an id of ours is ignored."""
        code = (
            f"import sys; sys.path[:0] = [{_ROOT!r}, {_SITE!r}]; from loops.evolve.inside.{module} import main; main()"
        )
        limits = Limits(**{**vars(self.limits), "wall_s": deadline_s(len(items))})
        command = Command(
            argv=(self._interpreter, "-I", "-S", "-B", "-c", code, *words),
            stdin="".join(json.dumps(item) + "\n" for item in items).encode(),
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            limits=limits,
            mounts=(*self._mounts, *mounts),
        )
        workspace = self.sandbox.create()
        try:
            result = self.sandbox.run(workspace, command)
        finally:
            workspace.discard()
        if not result.stdout and result.exit_code:
            said = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise EnvironmentFault(
                f"the evaluator could not start in the sandbox: {' '.join(said)}",
                remedy="look whether the packages of this environment can be read by every user",
            )
        return _by_id(result.stdout)

    @cached_property
    def _interpreter(self) -> str:
        return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())

    @cached_property
    def _mounts(self) -> tuple[Mount, ...]:
        """The evaluator, and of installed packages only those that a scaffold needs: no data sets with their labels."""
        base = Path(sys.base_prefix)
        system = () if base.parts[1] == "usr" else (Mount(source=base),)
        inside = Mount(source=INSIDE, target=_PACKAGE)
        return (*system, inside, *(Mount(source=path, target=f"{_SITE}/{path.name}") for path in _packages()))


def labels_in_view() -> list[Path]:
    """Folders with labels of the tasks that every sandbox shows: below /usr, or in the interpreter's own folder."""
    visible = sorted({Path("/usr"), Path(sys.base_prefix).resolve()})
    tree = "lib/python3*/*-packages/sklearn/datasets"
    found = [path for place in visible for pattern in (tree, f"local/{tree}") for path in place.glob(pattern)]
    return found + [STARTER for place in visible if STARTER.resolve().is_relative_to(place)]


def _packages() -> list[Path]:
    """What `import langgraph.graph, numpy` loads from site-packages, as top-level files and folders."""
    code = (
        "import sys, langgraph.graph, numpy, numpy.linalg, numpy.random\n"
        "files = [getattr(m, '__file__', None) or '' for m in list(sys.modules.values())]\n"
        "files += [line.split()[-1] for line in open('/proc/self/maps') if '.so' in line]\n"
        "for file in sorted(set(files)):\n"
        "    head, found, tail = file.partition('site-packages/')\n"
        "    if found: print(head + found + tail.split('/')[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentFault(
            f"langgraph and numpy cannot be imported: {done.stderr.strip().splitlines()[-1:]}",
            remedy="install Lathe again",
        )
    return sorted({Path(line) for line in done.stdout.splitlines()})


def _by_id(stdout: bytes) -> dict[str, dict[str, Any]]:
    found = {}
    for line in stdout.splitlines():
        try:
            row = json.loads(line)
            found[str(row["id"])] = row
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _outcome(job: Job, row: dict[str, Any], score: float, why: str) -> Outcome:
    return Outcome(
        job=job,
        score=score,
        why=why,
        ended=str(row["ended"]),
        asks=int(row["spent"].get("asks", 0)),
        chars=int(row["spent"].get("chars", 0)),
        canaries=tuple(row["canaries"]),
        trace=tuple(row["trace"]),
    )
