"""Programs in the languages of R801-9.6 that this machine has; the others are reported as not run."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.sandbox import NamespaceSandbox
from agents.sandbox.languages import LANGUAGES, Toolchain, Verdict, _own_folder, execute, find_toolchains
from contracts.errors import UserInputError

TOOLCHAINS = find_toolchains(os.environ["PATH"])


@dataclass(frozen=True, kw_only=True)
class Programs:
    """`right` prints its input; `broken` does not compile (None where nothing is compiled)."""

    right: str
    wrong: str
    endless: str
    broken: str | None = None


_JAVA = "public class Problem {{ public static void main(String[] a) {{ {} }} }}"
_CPP = "#include <iostream>\n#include <cassert>\nint main() {{ {} }}"
_GO = 'package solution\nimport "testing"\nfunc TestX(t *testing.T) {{ {} }}'
_CS = "using System; class Program {{ static int Main() {{ {} }} }}"
_READ_JS = "require('fs').readFileSync(0, 'utf8')"
PROGRAMS = {
    "python": Programs(right="print(input())", wrong="assert 1 == 2", endless="while True: pass"),
    "cpp": Programs(
        right=_CPP.format("std::string s; std::cin >> s; std::cout << s;"), wrong=_CPP.format("assert(1 == 2);"),
        endless=_CPP.format("volatile int x = 0; for (;;) x++;"), broken=_CPP.format("nothing"),
    ),
    "csharp": Programs(
        right=_CS.format("Console.Write(Console.ReadLine()); return 0;"), wrong=_CS.format("return 1;"),
        endless=_CS.format("for (;;) {}"), broken=_CS.format("nothing"),
    ),
    "go": Programs(right=_GO.format(""), wrong=_GO.format('t.Fatal("wrong")'), endless=_GO.format("for {}")),
    "java": Programs(
        right=_JAVA.format("System.out.print(new java.util.Scanner(System.in).next());"),
        wrong=_JAVA.format("assert 1 == 2;"), endless=_JAVA.format("for (;;) {}"), broken=_JAVA.format("nothing"),
    ),
    "javascript": Programs(right=f"console.log({_READ_JS})", wrong="throw 1", endless="for (;;) {}"),
    "php": Programs(right="<?php echo fgets(STDIN);", wrong="<?php exit(1);", endless="<?php for (;;) {}"),
    "bash": Programs(right="cat", wrong="exit 1", endless="while :; do :; done"),
    "rust": Programs(
        right='fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap(); print!("{}", s); }',
        wrong="fn main() { assert_eq!(1, 2); }", endless="fn main() { loop {} }", broken="fn main() { nothing }",
    ),
    "typescript": Programs(right="console.log('hey')", wrong="throw 1", endless="for (;;) {}", broken="let x: = 1"),
}  # fmt: skip


def toolchain(name: str) -> Toolchain:
    found = TOOLCHAINS[name]
    if found.missing:
        pytest.skip(f"{name} is not run here: {found.missing}")
    return found


def test_the_table_has_ten_languages_and_absent_ones_are_not_run(sandbox: NamespaceSandbox) -> None:
    assert {language.name for language in LANGUAGES} == PROGRAMS.keys() == TOOLCHAINS.keys()
    nothing = find_toolchains("/nowhere")
    for name in PROGRAMS.keys() - {"python"}:
        execution = execute(sandbox, nothing[name], PROGRAMS[name].right)
        assert (execution.verdict, execution.results) == (Verdict.NOT_RUN, ())
        assert "not" in execution.reason


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_passes_and_the_version_is_recorded(sandbox: NamespaceSandbox, name: str) -> None:
    execution = execute(sandbox, toolchain(name), PROGRAMS[name].right, stdin=b"hey\n")
    assert execution.verdict == Verdict.PASSED, execution
    assert b"hey" in execution.results[-1].stdout or name == "go"
    assert any(character.isdigit() for character in execution.version)


@pytest.mark.parametrize("name", ["python", "bash", "javascript"])
def test_a_wrong_program_fails_and_an_endless_one_times_out(sandbox: NamespaceSandbox, name: str) -> None:
    found = toolchain(name)
    assert execute(sandbox, found, PROGRAMS[name].wrong).verdict == Verdict.FAILED
    assert execute(sandbox, found, PROGRAMS[name].endless, run_limit_s=1.0).verdict == Verdict.TIMEOUT


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_language_has_a_fail_a_compile_error_and_a_timeout(sandbox: NamespaceSandbox, name: str) -> None:
    """Shows R801-9.6: a pass (above), a fail, a compile error and a timeout for each installed language."""
    found, programs = toolchain(name), PROGRAMS[name]
    wrong = execute(sandbox, found, programs.wrong)
    assert wrong.verdict == Verdict.FAILED, wrong
    assert execute(sandbox, found, programs.endless).verdict == Verdict.TIMEOUT
    if programs.broken is not None:
        broken = execute(sandbox, found, programs.broken)
        assert broken.verdict == Verdict.COMPILE_ERROR
        assert broken.reason


def test_files_lie_beside_the_program(sandbox: NamespaceSandbox) -> None:
    source = "import beside; print(beside.value, open('data.txt').read())"
    files = {"beside.py": b"value = 7", "data.txt": b"data"}
    assert execute(sandbox, toolchain("python"), source, files=files).results[-1].stdout == b"7 data\n"
    for name in ("../beside.py", "a/b", "/x"):
        with pytest.raises(UserInputError, match="cannot lie beside"):
            execute(sandbox, toolchain("python"), source, files={name: b""})


def test_a_toolchain_does_not_bring_a_home_with_it() -> None:
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    assert _own_folder(home / "bin" / "node") == home / "bin" / "node"
    assert _own_folder(Path("/opt/node/bin/node")) == Path("/opt/node")
