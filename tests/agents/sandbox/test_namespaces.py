"""What the isolated implementation keeps apart (RM2-7.15, RC2-10.1 on one machine)."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.sandbox import Command, Limits, Mount, NamespaceSandbox, Outcome, Result
from agents.sandbox.workspaces import MAX_LAYERS
from contracts.errors import EnvironmentFault, UserInputError

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"


def run(sandbox: NamespaceSandbox, script: str, mounts: tuple[Mount, ...] = (), **limits: float) -> Result:
    workspace = sandbox.create()
    try:
        command = Command(argv=("/bin/sh", "-c", script), mounts=mounts, limits=Limits(**limits))  # type: ignore[arg-type]
        return sandbox.run(workspace, command)
    finally:
        workspace.discard()


def test_no_rights_are_left(sandbox: NamespaceSandbox) -> None:
    text = run(sandbox, "cat /proc/self/status; id -u; hostname").stdout.decode()
    values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert {values[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")
    assert text.endswith("1000\nsandbox\n")


def test_the_host_is_out_of_sight(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    outside = f"{tmp_path}/secret /etc/shadow /root /home /proc/{os.getpid()}/environ"
    result = run(sandbox, f"cat {outside}; ls / /home; ls /proc | grep -c '^[0-9]'")
    assert b"secret\n" not in result.stdout
    assert b"home" not in result.stdout
    assert int(result.stdout.split()[-1]) <= 6


def test_there_is_no_network_but_loopback(sandbox: NamespaceSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        code = f"""
import socket
for address in ("127.0.0.1", "192.0.2.1"):
    try: socket.create_connection((address, {port}), timeout=1)
    except OSError as error: print(error.errno)
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname()); print("own loopback")
try: socket.socket(socket.AF_VSOCK)
except OSError as error: print(error.errno)
print(socket.if_nameindex())
"""
        result = run(sandbox, f"{PYTHON} -c '{code}'")
        assert result.stdout.decode().split("\n")[:5] == ["111", "101", "own loopback", "97", "[(1, 'lo')]"], result
        with pytest.raises(TimeoutError):
            listener.accept()


def test_mounts_are_read_only_and_cannot_be_replaced(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    """An evaluator keeps its content and its place, also below the writable /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="lt", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "eval.py").write_text("print('judged')")
    mounts = (Mount(source=folder / "eval.py"), Mount(source=folder, target="/inputs/evaluator"))
    script = f"""
        for f in {folder}/eval.py /inputs/evaluator/eval.py; do echo x > $f; rm -f $f; chmod 777 $f; done
        mv {folder} {folder}.moved; mv /inputs /inputs.moved; mkdir -p {folder}; ln -s /workspace {folder}/x
        {PYTHON} {folder}/eval.py; {PYTHON} /inputs/evaluator/eval.py
    """
    result = run(sandbox, script, mounts)
    assert result.stdout == b"judged\njudged\n", result
    assert (folder / "eval.py").read_text() == "print('judged')"
    subprocess.run(["rm", "-r", str(folder)], check=True)


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "/usr/bin/x",
        "/workspace/x",
        "/proc/x",
        "/tmp",
        "relative",
        "/a/../b",
        "/",
        "/a/" + "x" * 256,
        "/a" * 2000,
    ],
)
def test_mounts_over_the_system_are_refused(sandbox: NamespaceSandbox, tmp_path: Path, target: str) -> None:
    with pytest.raises(UserInputError, match="cannot be a mount"):
        run(sandbox, "true", (Mount(source=tmp_path, target=target),))


def test_a_missing_mount_is_refused(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="does not exist"):
        run(sandbox, "true", (Mount(source=tmp_path / "missing", target="/inputs/x"),))


def test_a_proxy_that_is_no_socket_is_refused(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    workspace = sandbox.create()
    for name in ("missing", "file"):
        with pytest.raises(UserInputError, match=f"no unix socket at proxy {tmp_path}/{name}"):
            sandbox.run(workspace, Command(argv=("true",), proxy=tmp_path / name))
    workspace.discard()


def test_the_launchers_interpreter_cannot_be_started(sandbox: NamespaceSandbox) -> None:
    """While a process starts a program, /proc/self/exe is still its own, and process 1 runs a program of the host."""
    workspace = sandbox.create()
    make = "printf '#!/proc/self/exe -S\nprint(\"started\")\n' > script; chmod +x script; ln -s /proc/self/exe link"
    assert sandbox.run(workspace, Command(argv=("sh", "-c", make))).ok
    code = ("-c", "print('started')")
    for argv in (("./script",), ("./link", *code), ("/proc/self/exe", *code), ("/proc/1/exe", *code)):
        result = sandbox.run(workspace, Command(argv=argv, limits=Limits(cpu_s=1, wall_s=5)))
        assert (result.ok, result.stdout) == (False, b""), result
    workspace.discard()


def test_system_calls_that_open_doors_are_refused(sandbox: NamespaceSandbox) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*a); return ctypes.get_errno() if r < 0 else "done"
names = os.uname().machine == "x86_64"
print(libc.unshare(0x10000000), ctypes.get_errno(), libc.mount(b"x", b"/tmp", b"tmpfs", 0, None), ctypes.get_errno())
print(call(435, 0, 0), call(425, 8, 0), call(428, -100, b"/", 1), libc.ptrace(16, 1, 0, 0))
"""
    result = run(sandbox, f"{PYTHON} -c '{code}'")
    assert result.stdout.decode().split() == ["-1", "1", "-1", "1", "38", "1", "1", "-1"], result


def test_memory_of_the_kernel_cannot_be_asked_for(sandbox: NamespaceSandbox) -> None:
    """No swapping out, semaphores, attributes, queues or rare protocols; larger socket buffers in words only."""
    code = """
import ctypes, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
area = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE); area.madvise(mmap.MADV_WILLNEED)
try: area.madvise(21)
except OSError as error: print(error.errno)
print(libc.semget(0, 100, 0o1600), ctypes.get_errno())
number = 206 if os.uname().machine == "x86_64" else 0
print(libc.syscall(number, 1, ctypes.byref(ctypes.c_ulong(0))), ctypes.get_errno())
for target in (0, "/tmp", "."):
    try: os.setxattr(target, "user.x", b"x")
    except OSError as error: print(error.errno)
one = socket.socket(); before = one.getsockopt(1, 7), one.getsockopt(1, 8)
one.setsockopt(1, 7, 1 << 24); one.setsockopt(1, 8, 1 << 24); one.setsockopt(1, socket.SO_REUSEADDR, 1)
print((one.getsockopt(1, 7), one.getsockopt(1, 8)) == before, one.getsockopt(1, socket.SO_REUSEADDR))
try: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
except OSError as error: print(error.errno)
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 17); socket.socketpair()
"""
    result = run(sandbox, f"{PYTHON} -c '{code}'")
    assert result.stdout.decode().split() == ["22", "-1", "38", "-1", "38", "95", "95", "95", "True", "1", "93"], result


def test_shared_memory_that_no_process_holds_cannot_be_made(sandbox: NamespaceSandbox) -> None:
    """Unless a control group counts it. Files of /dev/shm are the way that is left; /dev/zero can only be read."""
    code = """
import mmap, multiprocessing, os
for flags in (mmap.MAP_SHARED, 3):
    try: mmap.mmap(-1, 4096, flags | mmap.MAP_ANONYMOUS); print("made")
    except OSError as error: print(error.errno)
try: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 4096)
except OSError as error: print(error.errno)
mmap.mmap(-1, 4096, mmap.MAP_PRIVATE); print(os.read(os.open("/dev/zero", os.O_RDONLY), 3))
with multiprocessing.Pool(2) as pool: print(multiprocessing.Array("d", [1, 2])[1], pool.map(abs, [-1, 1]))
"""
    result = run(sandbox, f"{PYTHON} -c '{code}'")
    first = "made" if "memory" in sandbox.facts().cgroups else "1"
    assert result.stdout.decode().splitlines() == [first, first, "19", r"b'\x00\x00\x00'", "2.0 [1, 1]"], result


def test_files_of_the_host_cannot_be_watched_or_leased(sandbox: NamespaceSandbox) -> None:
    code = """
import ctypes, fcntl, os
print(ctypes.CDLL(None).inotify_init(), ctypes.CDLL(None).inotify_init1(0))
folder = os.open("/usr/bin", os.O_RDONLY)
for command in (fcntl.F_NOTIFY, fcntl.F_SETLEASE):
    try: fcntl.fcntl(folder, command, 1)
    except OSError as error: print(error.errno)
"""
    result = run(sandbox, f"{PYTHON} -c '{code}'")
    assert result.stdout.decode().split() == ["-1", "-1", "22", "22"], result


def test_disk_space_is_taken_by_writing_only(sandbox: NamespaceSandbox) -> None:
    """What is set aside in an instant cannot be counted in time; the C library writes instead."""
    code = """
import ctypes, os
file = os.open("file", os.O_CREAT | os.O_RDWR)
print(ctypes.CDLL(None).fallocate(file, 0, 0, 4096)); os.posix_fallocate(file, 0, 1 << 20)
print(os.fstat(file).st_size, os.fstat(file).st_blocks >= 2048)
"""
    result = run(sandbox, f"{PYTHON} -c '{code}'")
    assert result.stdout.decode().split() == ["-1", "1048576", "True"], result


def test_a_file_that_is_no_program_is_said_as_a_shell_would(sandbox: NamespaceSandbox) -> None:
    workspace = sandbox.create()
    assert sandbox.run(workspace, Command(argv=("sh", "-c", "echo x > file"))).ok
    assert sandbox.run(workspace, Command(argv=("./file",))).exit_code == 126
    assert sandbox.run(workspace, Command(argv=("./none",))).exit_code == 127
    workspace.discard()


def test_relative_paths_mean_what_they_mean_outside(
    sandbox: NamespaceSandbox, sandbox_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.txt").write_text("data")
    monkeypatch.chdir(tmp_path)
    mounts = (Mount(source=Path("data.txt"), target="/inputs/x"), Mount(source=Path("data.txt")))
    assert run(sandbox, f"cat /inputs/x {tmp_path}/data.txt", mounts).stdout == b"datadata"
    monkeypatch.chdir(sandbox_root)
    own = NamespaceSandbox(Path("relative"))
    monkeypatch.chdir(tmp_path)
    assert run(own, "cat", ()).ok
    own.close()
    assert list((sandbox_root / "relative").iterdir()) == []


def test_a_mount_inside_another_is_the_callers_mistake(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    mounts = (Mount(source=tmp_path, target="/inputs/a"), Mount(source=tmp_path, target="/inputs/a/b"))
    with pytest.raises(UserInputError, match="nothing can be mounted at /inputs/a/b"):
        run(sandbox, "true", mounts)


@pytest.mark.parametrize("attempt", range(3))
def test_closing_ends_what_runs_and_leaves_nothing(sandbox_root: Path, sandbox: NamespaceSandbox, attempt: int) -> None:
    root = sandbox_root / f"closing-{attempt}"
    own = NamespaceSandbox(root)
    workspace = own.create()
    busy = "for i in 1 2 3 4 5 6; do (while :; do : > $i; rm $i; done) & done; sleep 60"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, own, busy, wall_s=60)
        time.sleep(0.3)
        own.close()
        assert isinstance(running.exception(), UserInputError)
        assert "was closed" in str(running.exception())
    assert list(root.iterdir()) == []
    own.close()
    with pytest.raises(UserInputError, match="was closed"):
        own.create()
    workspace.discard()
    with pytest.raises(UserInputError, match="was closed"):
        own.run(workspace, Command(argv=("true",)))


def test_nothing_is_left_running(sandbox: NamespaceSandbox) -> None:
    result = run(
        sandbox, "setsid sh -c 'trap \"\" TERM HUP; sleep 4711' </dev/null >/dev/null 2>&1 & sleep 0.1; echo over"
    )
    assert result.stdout == b"over\n"
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 4711" not in running


def test_processes_are_bounded(sandbox: NamespaceSandbox) -> None:
    script = "i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done 2>/dev/null; ls /proc | grep -c '^[0-9]'"
    result = run(sandbox, script, processes=20, wall_s=10)
    assert b"fork" in result.stderr or int(result.stdout or 0) <= 24, result
    assert run(sandbox, "echo alone", processes=1, open_files=8).stdout == b"alone\n"


_ONE = "held = [bytearray(b'x') * (8 << 20) for _ in range(200)]"
_SHARED = """
import mmap
held = [mmap.mmap(-1, 8 << 20) for _ in range(200)]
for area in held: area.write(b'x' * (8 << 20))
"""
_MANY = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b'x') * (60 << 20); time.sleep(9)
time.sleep(9)
"""


@pytest.mark.parametrize("code", [_ONE, _SHARED, _MANY], ids=["one process", "shared memory", "many processes"])
def test_memory_is_bounded(sandbox: NamespaceSandbox, code: str) -> None:
    workspace = sandbox.create()
    limits = Limits(memory_bytes=128 << 20, wall_s=15)
    result = sandbox.run(workspace, Command(argv=(PYTHON, "-S", "-c", code), limits=limits))
    refused = b"MemoryError" in result.stderr or b"PermissionError" in result.stderr
    assert result.outcome == Outcome.MEMORY or refused, result
    assert result.peak_memory_bytes < 512 << 20
    workspace.discard()


@pytest.mark.parametrize(
    "script",
    [
        "for i in 1 2 3 4 5 6 7 8; do head -c 30M /dev/urandom > f$i; done; sleep 5",
        "i=0; while [ $i -lt 9000 ]; do : > f$i; i=$((i+1)); done; sleep 5",
        "exec 3> f; rm f; exec 4> g; rm g; head -c 40M /dev/urandom >&3; head -c 40M /dev/urandom >&4; sleep 5",
    ],
    ids=["bytes", "files", "deleted files"],
)
def test_disk_is_bounded(sandbox: NamespaceSandbox, script: str) -> None:
    result = run(sandbox, script, disk_bytes=50 << 20, file_bytes=45 << 20, files=3000, wall_s=30)
    assert result.outcome == Outcome.DISK, result


def test_little_free_disk_space_ends_commands(sandbox_root: Path, sandbox: NamespaceSandbox) -> None:
    with pytest.raises(EnvironmentFault, match="free"):
        NamespaceSandbox(sandbox_root / "full", min_free_bytes=1 << 60)
    assert list((sandbox_root / "full").iterdir()) == []


def test_many_snapshots_are_flattened(sandbox: NamespaceSandbox) -> None:
    workspace = sandbox.create()
    snapshots = []
    for number in range(MAX_LAYERS + 3):
        assert sandbox.run(workspace, Command(argv=("sh", "-c", f"echo {number} > f{number}; rm -f f{number - 5}"))).ok
        snapshots.append(workspace.snapshot())
    listed = sandbox.run(workspace, Command(argv=("ls",))).stdout.split()
    assert len(listed) == 5
    assert len(workspace.diff()) == 5
    for snapshot in snapshots:
        snapshot.discard()
    workspace.discard()


def test_a_dead_launcher_is_said_and_ends_everything(sandbox_root: Path, sandbox: NamespaceSandbox) -> None:
    own = NamespaceSandbox(sandbox_root / "dying")
    workspace = own.create()
    os.kill(own.launcher_pid, signal.SIGKILL)
    time.sleep(0.2)
    with pytest.raises(EnvironmentFault, match="launcher"):
        own.run(workspace, Command(argv=("true",)))
    own.close()
    assert list((sandbox_root / "dying").iterdir()) == []


def test_a_killed_supervisor_is_said_and_the_sandbox_goes_on(sandbox_root: Path, sandbox: NamespaceSandbox) -> None:
    own = NamespaceSandbox(sandbox_root / "killing")
    workspace = own.create()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(own.run, workspace, Command(argv=("sleep", "30"), limits=Limits(wall_s=60)))
        time.sleep(0.5)
        launcher = own.launcher_pid
        for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        error = running.exception()
    assert isinstance(error, EnvironmentFault)
    assert error.message.startswith("the process that ran the command was killed")
    assert error.remedy.startswith("run it again")
    assert own.run(workspace, Command(argv=("echo", "again"))).stdout == b"again\n"
    own.close()


def test_the_launcher_needs_only_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import agents.sandbox.launcher.zygote"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_many_commands_at_a_time_and_after_each_other(sandbox: NamespaceSandbox) -> None:
    """More commands than there are supervisors, from more threads, each with its own answer."""

    def one(number: int) -> bytes:
        workspace = sandbox.create()
        result = sandbox.run(workspace, Command(argv=("sh", "-c", "cat; sleep 0.02"), stdin=b"%d" % number))
        workspace.discard()
        return result.stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(60))) == [b"%d" % number for number in range(60)]
