"""Runs attacks in a sandbox and lets the judge look after each."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.sandbox.egress import EgressRule
from agents.sandbox.protocol import Command, Mount, Outcome, Result, Sandbox, Workspace
from agents.sandbox.proxy import EgressProxy
from benchmarks.sandbox_attacks.host import Peak
from benchmarks.sandbox_attacks.world import EVALUATOR_SAYS, GRACE_S, LIMITS, Case, World
from contracts.errors import LatheError, UserInputError

OWN_ATTACKS = Path(__file__).parent / "attacks"
_HOST_LIMIT_S = 20.0  # what diff, export and discard may take together
_READ_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A script. Comment lines `# phases: N`, `# then: PROGRAM` (of the workspace, run by later phases instead),
    `# proxy: yes` and `# control: yes` (harmless without a sandbox).
    """

    path: Path
    phases: int
    then: str
    proxy: bool
    control: bool

    @classmethod
    def read(cls, path: Path) -> Attack:
        lines = path.read_text(errors="replace").splitlines()
        marks = dict(line.lstrip("# ").split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
        return cls(
            path=path,
            phases=int(marks.get("phases", "1")),
            then=marks.get("then", ""),
            proxy=marks.get("proxy") == "yes",
            control=marks.get("control") == "yes",
        )


@dataclass(kw_only=True)
class Findings:
    """What came out of one attack and of handling its workspace afterwards."""

    results: list[Result] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Range:
    """A sandbox with its world: where attacks are tried. `sibling_file` is a secret of another workspace, from outside.

    `base` is what every attacked workspace is created with.
    """

    sandbox: Sandbox
    world: World
    base: Path
    store: Path
    sibling: Workspace
    sibling_file: str

    def attack(self, attack: Attack) -> dict[str, Any]:
        """Runs one attack and judges it."""
        token = f"token-{secrets.token_hex(12)}"
        findings = Findings()
        with self._proxy(attack) as proxy, self.world.sampler.watching() as peak:
            workspace: Workspace = self.sandbox.create(self.base)
            for phase in range(1, attack.phases + 1):
                self._run(findings, workspace, self._command(attack, token, phase, proxy))
                if phase < attack.phases:
                    before, workspace = workspace, workspace.fork()
                    before.discard()
            self._evaluate(findings, workspace)
            self._handle(findings, workspace, token)
        return self._row(attack, token, findings, peak)

    def _row(self, attack: Attack, token: str, findings: Findings, peak: Peak) -> dict[str, Any]:
        case = Case(token=token, results=findings.results, texts=findings.texts, problems=findings.problems, peak=peak)
        seen = self.world.judge(case)
        return {
            "attack": attack.path.name,
            "outcome": "escaped" if seen else "contained",
            "witness": seen,
            "ended": [str(result.outcome) for result in findings.results],
            "seconds": round(sum(result.wall_s for result in findings.results), 2),
            "peak_mib": peak.memory_bytes >> 20,
            "peak_processes": peak.processes,
        }

    @contextlib.contextmanager
    def _proxy(self, attack: Attack) -> Iterator[Path | None]:
        if not attack.proxy:
            yield None
            return
        rule = EgressRule(
            host="localhost", port=self.world.listeners.web_port, methods=("GET",), path_prefix="/ok/", private=True
        )
        path = self.world.folder / "egress.sock"
        with EgressProxy(path, (rule,), record=lambda record: None, clock=time.time, idle_s=2.0):
            yield path

    def _command(self, attack: Attack, token: str, phase: int, proxy: Path | None) -> Command:
        interpreter = [sys.executable, "-S"] if attack.path.suffix == ".py" else ["/bin/sh"]
        env = self.world.environment(token, phase, self.store, self.sibling_file)
        argv = (attack.then,) if attack.then and phase > 1 else (*interpreter, str(attack.path))
        return Command(
            argv=argv, env=env, limits=LIMITS, proxy=proxy,
            mounts=(*_interpreter_mounts(), Mount(source=attack.path), Mount(source=self.world.evaluator),
                    Mount(source=Path(__file__).parent / "kit.py")),
        )  # fmt: skip

    def _run(self, findings: Findings, workspace: Workspace, command: Command) -> None:
        started = time.monotonic()
        try:
            result = self.sandbox.run(workspace, command)
        except LatheError as error:
            findings.problems.append(f"broke the sandbox: {error.message}")
            return
        late_s = time.monotonic() - started - LIMITS.wall_s
        if late_s > GRACE_S:
            findings.problems.append(f"ended {late_s:.1f} s after the deadline")
        findings.results.append(result)
        findings.texts += [result.stdout, result.stderr]

    def _evaluate(self, findings: Findings, workspace: Workspace) -> None:
        """A trusted command afterwards, in the same workspace, must say what it always says."""
        evaluator = self.world.evaluator
        command = Command(
            argv=(sys.executable, "-I", "-S", str(evaluator / "check.py")), limits=LIMITS,
            mounts=(*_interpreter_mounts(), Mount(source=evaluator)),
        )  # fmt: skip
        result = self.sandbox.run(workspace, command)
        if result.stdout != EVALUATOR_SAYS and result.outcome != Outcome.DISK:  # a full workspace stays refused
            findings.problems.append(f"the evaluator says {result.stdout!r} {result.stderr[-200:]!r}")

    def _handle(self, findings: Findings, workspace: Workspace, token: str) -> None:
        """What people do with a workspace afterwards: diff, export, read, snapshot, discard."""
        started = time.monotonic()
        target = self.world.folder.parent / f"export-{token}"
        try:
            findings.texts += [change.path.encode(errors="surrogateescape") for change in workspace.diff()]
            workspace.export(target, max_bytes=LIMITS.disk_bytes * 2)
            moved = target.with_name(f"moved-{token}")  # its own name leads elsewhere then
            target.rename(moved)
            target = moved
            findings.problems += _read_all(target, findings.texts)
        except UserInputError:
            pass  # a clear refusal: too deep, or too large
        except Exception as error:
            findings.problems.append(f"broke whoever looks at it: {type(error).__name__} {error}")
        workspace.snapshot().discard()
        workspace.discard()
        if target.exists():
            _remove(target)
        if time.monotonic() - started > _HOST_LIMIT_S:
            findings.problems.append(f"held the host for {time.monotonic() - started:.0f} s")


def read_attacks(folders: Sequence[Path]) -> list[Attack]:
    paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".py", ".sh")]
    return [Attack.read(path.resolve()) for path in paths]


def _interpreter_mounts() -> tuple[Mount, ...]:
    places = {Path(sys.prefix), Path(sys.base_prefix)}
    return tuple(Mount(source=place) for place in sorted(places) if place.parts[1] != "usr")


def _read_all(folder: Path, texts: list[bytes]) -> list[str]:
    """Reads an export as somebody would who thinks no evil. Returns what should not be in it."""
    problems = []
    inside = os.path.realpath(folder)
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            status = os.lstat(path)
            if not (os.path.realpath(path) + os.sep).startswith(inside + os.sep):
                problems.append(f"exported a link that leads outside: {name!r}")
            if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                problems.append(f"exported a set-id file: {name!r}")
            if (
                not stat.S_ISREG(status.st_mode)
                and not stat.S_ISDIR(status.st_mode)
                and not stat.S_ISLNK(status.st_mode)
            ):
                problems.append(f"exported a device, pipe or socket: {name!r}")
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    texts.append(file.read(_READ_BYTES))
    return problems


def _remove(folder: Path) -> None:
    from agents.sandbox import trees

    trees.remove(folder)
