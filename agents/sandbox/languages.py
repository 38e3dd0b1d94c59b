"""Code execution for evaluations: prepare, compile and run commands and limits for ten languages (R801-9.6, Table 12).

A language whose programs are not on this machine is reported as not run, with what is missing; it never counts as
failed. Versions are asked from the programs themselves and recorded with each execution.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from agents.sandbox.protocol import Command, Limits, Mount, Outcome, Result, Sandbox
from contracts.errors import UserInputError

LIMIT_S = 15.0
_GIB = 1 << 30
_VERSION_CHARACTERS = 200


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"
    LIMIT = "limit"  # memory, processor time or disk
    NOT_RUN = "not_run"


@dataclass(frozen=True, kw_only=True)
class Language:
    """Commands as in the table. {tsc_js} and {javatuples_jar} are given by the caller; the jar may be absent.

    `before` are the prepare and compile commands, in order: the first that fails is a compile error.
    """

    name: str
    file: str
    version: str
    before: tuple[str, ...] = ()
    run: str
    env: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = _GIB

    @property
    def programs(self) -> tuple[str, ...]:
        first = (shlex.split(command)[0] for command in (*self.before, self.run, self.version))
        return tuple(dict.fromkeys(word for word in first if not word.startswith("./")))


_EXEC = "exec(compile(open('program.py').read(), 'program.py', 'exec'), {'__name__': '__main__'})"
_TSC = "node {tsc_js} program.ts --target es2020 --module commonjs --lib es2020,dom --skipLibCheck"
_GO_ENV = {"GOCACHE": "/tmp/go", "GOPATH": "/tmp/gopath", "GOPROXY": "off", "GOTOOLCHAIN": "local"}  # noqa: S108
LANGUAGES: tuple[Language, ...] = (
    Language(name="python", file="program.py", version="python --version", run=f'python -c "{_EXEC}"'),
    Language(
        name="cpp", file="program.cpp", version="g++ --version",
        before=("g++ -std=c++17 program.cpp -o program",), run="./program",
    ),
    Language(
        name="csharp", file="Program.cs", version="mono --version",
        before=("mcs -define:DEBUG -r:System.Numerics.dll -out:Program.exe Program.cs",),
        run="mono Program.exe", env={"MONO_TRACE_LISTENER": "Console.Error"},
    ),
    Language(
        name="go", file="solution_test.go", version="go version",
        before=("go mod init solution",), run="go test -p=8", env=_GO_ENV, memory_bytes=2 * _GIB,
    ),
    Language(
        name="java", file="Problem.java", version="java -version",
        before=("javac -cp .:{javatuples_jar} Problem.java",),
        run="java -ea -cp .:{javatuples_jar} Problem", memory_bytes=2 * _GIB,
    ),
    Language(
        name="javascript", file="program.js", version="node --version", run="node program.js", memory_bytes=2 * _GIB
    ),
    Language(name="php", file="program.php", version="php --version", run="php program.php"),
    Language(name="bash", file="program.sh", version="bash --version", run="bash program.sh"),
    Language(
        name="rust", file="program.rs", version="rustc --version",
        before=("rustc --edition 2021 program.rs -o program",), run="./program",
    ),
    Language(
        name="typescript", file="program.ts", version="node {tsc_js} --version",
        before=(_TSC,), run="node program.js", memory_bytes=2 * _GIB,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """A language's programs on this machine. `missing` says why the language cannot be run here; empty: it can."""

    language: Language
    paths: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    missing: str = ""

    def command(self, template: str) -> tuple[str, ...]:
        first, *words = shlex.split(template)
        for name, value in self.values.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return (self.paths.get(first, first), *words)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One program's way through its commands. `results` holds those that ran, the last one decided the verdict."""

    language: str
    version: str
    verdict: Verdict
    reason: str
    results: tuple[Result, ...]


def find_toolchains(
    search_path: str, *, tsc_js: Path | None = None, javatuples_jar: Path | None = None
) -> dict[str, Toolchain]:
    """Every language by name. `search_path` is PATH; Python is the running interpreter with its packages."""
    files = {"tsc_js": tsc_js, "javatuples_jar": javatuples_jar}
    return {language.name: _find(language, search_path, files) for language in LANGUAGES}


def _find(language: Language, search_path: str, files: Mapping[str, Path | None]) -> Toolchain:
    if "{tsc_js}" in language.version and files["tsc_js"] is None:
        return Toolchain(language=language, missing="tsc.js (the TypeScript compiler) was not given")
    paths, folders = {}, []
    for name in language.programs:
        found = _locate(name, search_path)
        if found is None:
            return Toolchain(language=language, missing=f"{name} is not on this machine")
        paths[name], needed = found
        folders += needed
    given = {name: file.resolve() for name, file in files.items() if file is not None}
    folders += [_own_folder(file) if name == "tsc_js" else file for name, file in given.items()]
    values = {name: str(given.get(name, "")) for name in files}
    mounts = tuple(Mount(source=folder) for folder in dict.fromkeys(folders) if not _is_system(folder))
    return Toolchain(language=language, paths=paths, values=values, mounts=mounts)


def _locate(name: str, search_path: str) -> tuple[str, list[Path]] | None:
    """Where a program is, and the folders it needs."""
    if name == "python":
        return sys.executable, [Path(sys.prefix), Path(sys.base_prefix)]
    found = shutil.which(name, path=search_path)
    if found is None:
        return None
    if name == "rustc":  # often a proxy that chooses a toolchain by files in the home folder
        asked = subprocess.run([found, "--print", "sysroot"], capture_output=True, text=True, check=False)
        found = f"{asked.stdout.strip()}/bin/rustc"
    if not os.path.exists(found):
        return None
    real = Path(found).resolve()
    return found if _is_system(Path(found)) else str(real), [_own_folder(real)]


def _own_folder(file: Path) -> Path:
    """What a program needs: the folder above its bin or lib, or only itself where our home is in that folder."""
    folder, home = file.parent.parent, Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return folder if file.parent.name in ("bin", "lib") and not home.is_relative_to(folder) else file


def _is_system(path: Path) -> bool:
    return path.parts[1] in ("usr", "bin", "sbin", "lib", "lib64")


def execute(
    sandbox: Sandbox,
    toolchain: Toolchain,
    source: str,
    *,
    stdin: bytes = b"",
    files: Mapping[str, bytes] | None = None,
    run_limit_s: float = LIMIT_S,
) -> Execution:
    """Prepares, compiles and runs one program, each command within its limit. `files` lie beside it, by plain names."""
    if odd := [name for name in files or {} if Path(name).name != name]:
        raise UserInputError(f"'{odd[0]}' cannot lie beside the program", remedy="give files plain names, no paths")
    if toolchain.missing:
        return Execution(
            language=toolchain.language.name, version="", verdict=Verdict.NOT_RUN, reason=toolchain.missing, results=()
        )
    language = toolchain.language
    with tempfile.TemporaryDirectory(prefix="lt") as folder:
        for name, content in {**(files or {}), language.file: source.encode(errors="replace")}.items():
            (Path(folder) / name).write_bytes(content)
        workspace = sandbox.create(Path(folder))
    try:
        version = sandbox.run(workspace, _command(toolchain, language.version, b"", LIMIT_S))
        results: list[Result] = []
        for step in language.before:
            results.append(sandbox.run(workspace, _command(toolchain, step, b"", LIMIT_S)))
            if not results[-1].ok:
                break
        else:
            results.append(sandbox.run(workspace, _command(toolchain, language.run, stdin, run_limit_s)))
    finally:
        workspace.discard()
    verdict = _verdict(results[-1], is_last=len(results) > len(language.before))
    reason = "" if verdict == Verdict.PASSED else results[-1].stderr.decode(errors="replace")
    return Execution(
        language=language.name, version=_first_line(version), verdict=verdict, reason=reason, results=tuple(results)
    )


def _command(toolchain: Toolchain, template: str, stdin: bytes, wall_s: float) -> Command:
    language = toolchain.language
    limits = Limits(
        wall_s=wall_s, cpu_s=int(LIMIT_S) * 2, memory_bytes=language.memory_bytes, processes=256, open_files=1024
    )
    return Command(
        argv=toolchain.command(template), stdin=stdin, env=language.env, limits=limits, mounts=toolchain.mounts
    )


def _verdict(result: Result, *, is_last: bool) -> Verdict:
    if result.outcome in (Outcome.EXITED, Outcome.SIGNALLED):
        if not is_last:
            return Verdict.COMPILE_ERROR
        return Verdict.PASSED if result.ok else Verdict.FAILED
    return Verdict.TIMEOUT if result.outcome in (Outcome.TIMEOUT, Outcome.CPU) else Verdict.LIMIT


def _first_line(result: Result) -> str:
    text = (result.stdout + result.stderr).decode(errors="replace").strip()
    return text.partition("\n")[0][:_VERSION_CHARACTERS]
