"""What every implementation of the protocol promises (RC2-10.1, RC2-10.5 on one machine)."""

import stat
import threading
import time
from pathlib import Path

import pytest

from agents.sandbox import Change, ChangeKind, Command, Limits, Mount, Outcome, Sandbox, Workspace
from contracts.errors import UserInputError


def sh(sandbox: Sandbox, workspace: Workspace, script: str, **limits: float) -> str:
    result = sandbox.run(workspace, Command(argv=("/bin/sh", "-c", script), limits=Limits(**limits)))  # type: ignore[arg-type]
    assert result.ok, result
    return result.stdout.decode()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("a")
    (folder / "b.txt").write_text("b")
    (folder / "link").symlink_to("b.txt")
    return folder


def test_a_command_gets_input_arguments_and_its_own_environment_only(either: Sandbox) -> None:
    workspace = either.create()
    command = Command(
        argv=("/bin/sh", "-c", 'cat; echo "$1"; echo $GIVEN; env | wc -l; echo err >&2; exit 3', "sh", "a b"),
        stdin=b"in\n",
        env={"GIVEN": "x"},
    )
    result = either.run(workspace, command)
    lines = result.stdout.decode().split()
    assert lines[:4] == ["in", "a", "b", "x"]
    assert int(lines[4]) < 10
    assert (result.outcome, result.exit_code, result.stderr) == (Outcome.EXITED, 3, b"err\n")
    workspace.discard()


def test_a_missing_program_is_an_exit_code_not_an_error(either: Sandbox) -> None:
    workspace = either.create()
    result = either.run(workspace, Command(argv=("no-such-program",)))
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr
    workspace.discard()


def test_the_source_is_copied_and_never_touched(either: Sandbox, project: Path) -> None:
    workspace = either.create(project)
    assert (
        sh(either, workspace, "cat src/a.txt link; echo changed > b.txt; rm src/a.txt; mkdir n; echo n > n/n") == "ab"
    )
    assert (project / "b.txt").read_text() == "b"
    assert workspace.diff() == (
        Change(path="b.txt", kind=ChangeKind.MODIFIED, size_bytes=8),
        Change(path="n/n", kind=ChangeKind.ADDED, size_bytes=2),
        Change(path="src/a.txt", kind=ChangeKind.DELETED, size_bytes=0),
    )
    workspace.discard()


def test_forks_diverge_and_snapshots_stay(either: Sandbox, project: Path) -> None:
    """Shows RC2-10.5 for files: both sides go on from the same state and do not see each other."""
    origin = either.create(project)
    sh(either, origin, "echo 1 > n")
    snapshot = origin.snapshot()
    fork = origin.fork()
    sh(either, origin, "echo 2 > n; rm b.txt")
    sh(either, fork, "echo 3 >> n")
    assert sh(either, origin, "cat n; ls") == "2\nlink\nn\nsrc\n"
    assert sh(either, fork, "cat n b.txt") == "1\n3\nb"
    origin.discard()
    again = snapshot.fork()
    assert sh(either, again, "cat n b.txt") == "1\nb"
    snapshot.discard()
    assert sh(either, again, "cat n b.txt") == "1\nb"
    assert [change.path for change in fork.diff()] == ["n"]
    fork.discard()
    again.discard()


def test_a_deleted_and_remade_folder_hides_the_old_one(either: Sandbox, project: Path) -> None:
    workspace = either.create(project)
    sh(either, workspace, "rm -r src; mkdir src; echo new > src/new")
    fork = workspace.fork()
    assert [(c.path, c.kind) for c in fork.diff()] == [("src/a.txt", "deleted"), ("src/new", "added")]
    assert sh(either, fork, "ls src") == "new\n"
    workspace.discard()
    fork.discard()


def test_export_takes_files_and_inner_links_and_nothing_that_leads_outside(
    either: Sandbox, project: Path, tmp_path: Path
) -> None:
    workspace = either.create(project)
    script = """
        ln -s /etc/shadow absolute; ln -s ../../etc/shadow climbing; mkfifo pipe
        mkdir -p d1/d2; ln -s ../.. d1/d2/up; ln -s d1/d2/up/../secret fooling; cp /bin/true suid; chmod 6755 suid
        ln -s ../out/b.txt return; ln -s d2/up/../out/b.txt d1/return; ln -s loop loop; ln -s d1/d2/up/b.txt good
    """
    sh(either, workspace, script)
    exported = workspace.export(tmp_path / "out")
    assert exported.skipped == ("absolute", "climbing", "d1/return", "fooling", "loop", "pipe", "return")
    assert (tmp_path / "out" / "good").read_text() == "b"
    assert (tmp_path / "out" / "link").read_text() == "b"
    assert (tmp_path / "out" / "src" / "a.txt").read_text() == "a"
    assert not (tmp_path / "out" / "suid").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    with pytest.raises(UserInputError, match="cannot export"):
        workspace.export(tmp_path / "out")
    workspace.discard()


def test_an_export_that_would_be_too_large_leaves_nothing(either: Sandbox, tmp_path: Path) -> None:
    workspace = either.create()
    sh(either, workspace, "truncate -s 100M a b")
    with pytest.raises(UserInputError, match="more than"):
        workspace.export(tmp_path / "out", max_bytes=150 << 20)
    assert not (tmp_path / "out").exists()
    workspace.discard()


def test_folders_nested_too_deep_are_refused_and_still_removed(either: Sandbox) -> None:
    workspace = either.create()
    script = "i=0; while [ $i -lt 400 ]; do mkdir dddddddddd && cd dddddddddd || exit 0; i=$((i+1)); done"
    either.run(workspace, Command(argv=("/bin/sh", "-c", script)))
    with pytest.raises(UserInputError, match="nest deeper"):
        workspace.diff()
    workspace.discard()


def test_the_deadline_ends_the_whole_tree(either: Sandbox) -> None:
    workspace = either.create()
    script = "trap '' TERM INT HUP; sleep 61 & (trap '' TERM; sleep 61) & echo started; sleep 61"
    started = time.monotonic()
    result = either.run(workspace, Command(argv=("/bin/sh", "-c", script), limits=Limits(wall_s=0.5)))
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.TIMEOUT, None, b"started\n")
    assert time.monotonic() - started < 20
    workspace.discard()


def test_processor_time_is_bounded(either: Sandbox) -> None:
    workspace = either.create()
    command = Command(argv=("/bin/sh", "-c", "while :; do :; done"), limits=Limits(cpu_s=1, wall_s=60))
    assert either.run(workspace, command).outcome == Outcome.CPU
    workspace.discard()


def test_output_beyond_the_cap_is_dropped(either: Sandbox) -> None:
    workspace = either.create()
    command = Command(
        argv=("/bin/sh", "-c", "head -c 300000 /dev/zero; echo kept >&2"), limits=Limits(output_bytes=1000)
    )
    result = either.run(workspace, command)
    assert (len(result.stdout), result.stdout_truncated) == (1000, True)
    assert (result.stderr, result.stderr_truncated, result.exit_code) == (b"kept\n", False, 0)
    workspace.discard()


def test_a_mount_is_readable_where_it_is_outside(either: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("data")
    tmp_path.chmod(0o755)
    workspace = either.create()
    mount = Mount(source=tmp_path / "data.txt")
    result = either.run(workspace, Command(argv=("cat", str(tmp_path / "data.txt")), mounts=(mount,)))
    assert result.stdout == b"data", result
    workspace.discard()


def test_a_busy_or_discarded_workspace_says_so(either: Sandbox) -> None:
    workspace = either.create()
    thread = threading.Thread(target=either.run, args=(workspace, Command(argv=("sleep", "1"))))
    thread.start()
    time.sleep(0.3)
    with pytest.raises(UserInputError, match="busy"):
        workspace.fork()
    thread.join()
    workspace.discard()
    workspace.discard()
    with pytest.raises(UserInputError, match="discarded"):
        either.run(workspace, Command(argv=("true",)))


def test_what_cannot_be_copied_is_said(either: Sandbox, sandbox_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="holds the sandbox's own folder"):
        either.create(sandbox_root)
    (tmp_path / "link").symlink_to(sandbox_root)
    with pytest.raises(UserInputError, match="holds the sandbox's own folder"):
        either.create(tmp_path / "link")
    with pytest.raises(UserInputError, match="cannot be"):
        either.create(Path("/proc/self"))


def test_what_makes_no_sense_is_refused_with_a_remedy(either: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="not a folder"):
        either.create(tmp_path / "missing")
    for limits in ({"wall_s": 0}, {"wall_s": float("inf")}, {"cpu_s": 1.5}, {"memory_bytes": 1 << 70}):
        with pytest.raises(UserInputError, match="cannot be"):
            Limits(**limits)
    with pytest.raises(UserInputError, match="open_files cannot be 1: no program could start"):
        Limits(open_files=1)
    for source, target in ((Path("a\0b"), ""), (Path("a"), "/inputs/a\0b"), (Path("a"), "/inputs/\ud800")):
        with pytest.raises(UserInputError, match="no path holds a NUL"):
            Mount(source=source, target=target)
    for argv in ((), ("",), ("a\0b",), ("a", "\ud800")):
        with pytest.raises(UserInputError, match="the command is empty"):
            Command(argv=argv)
    for name in ("", "a=b"):
        with pytest.raises(UserInputError, match="'=' in a variable's name"):
            Command(argv=("true",), env={name: "x"})
    workspace = either.create()
    with pytest.raises(UserInputError, match="does not exist"):
        either.run(workspace, Command(argv=("true",), mounts=(Mount(source=tmp_path / "missing"),)))
    workspace.discard()
