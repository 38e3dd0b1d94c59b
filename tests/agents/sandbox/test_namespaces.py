"""What the isolated implementation keeps apart (RM2-7.15, RC2-10.1 on one machine)."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
    assert (values["NoNewPrivs"], values["Seccomp"], values["Groups"].strip()) == ("1", "2", values["Groups"].strip())
    assert text.endswith("1000\nsandbox\n")


@pytest.mark.usefixtures("as_root")
def test_as_root_the_code_runs_as_another_user(sandbox: NamespaceSandbox) -> None:
    """Design section 10: as root it drops to another uid. Seen from outside, while it runs."""
    workspace = sandbox.create()
    command = Command(argv=("sh", "-c", "touch mine; sleep 5"), limits=Limits(wall_s=1))
    sandbox.run(workspace, command)
    owners = {path.stat().st_uid for path in Path("/var/tmp").glob("lt*/isolated/owner-*/*/fs/mine")}
    assert owners == {sandbox.facts().uid}
    assert sandbox.facts().uid != 0
    workspace.discard()


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
    "target", ["/etc/passwd", "/usr/bin/x", "/workspace/x", "/proc/x", "/tmp", "relative", "/a/../b", "/"]
)
def test_mounts_over_the_system_are_refused(sandbox: NamespaceSandbox, tmp_path: Path, target: str) -> None:
    with pytest.raises(UserInputError, match="cannot be a mount"):
        run(sandbox, "true", (Mount(source=tmp_path, target=target),))


def test_a_missing_mount_is_refused(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="does not exist"):
        run(sandbox, "true", (Mount(source=tmp_path / "missing", target="/inputs/x"),))


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
    assert result.outcome == Outcome.MEMORY or b"MemoryError" in result.stderr, result
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


def test_root_is_never_the_user_of_the_code(as_root: None, sandbox_root: Path) -> None:
    with pytest.raises(UserInputError, match="user id 0"):
        NamespaceSandbox(sandbox_root / "root", uid=0)


@pytest.fixture
def ordinary(as_root: None, sandbox: NamespaceSandbox) -> Iterator[Path]:
    """A folder of an ordinary user, and a system Python that this user can start."""
    if not os.path.exists(PYTHON):
        pytest.skip(f"{PYTHON} is needed to run as another user")
    with tempfile.TemporaryDirectory(prefix="lt", dir="/var/tmp") as folder:
        os.chown(folder, 4242, 4242)
        yield Path(folder)


def as_ordinary(folder: Path, script: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", *prefix, PYTHON, "-B", "-c", script]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    )


_ORDINARY = """
import json
from pathlib import Path
from agents.sandbox import *
sandbox = NamespaceSandbox(Path("store"))
workspace = sandbox.create()
limits = Limits(processes=20, wall_s=5, disk_bytes=20 << 20, memory_bytes=128 << 20)
def run(script): return sandbox.run(workspace, Command(argv=("sh", "-c", script), limits=limits))
first = run("echo x > f; id -u; mkdir closed; echo y > closed/z; chmod 000 closed; ls /root /home")
bomb = run("i=0; while [ $i -lt 60 ]; do sleep 9 & i=$((i+1)); done; echo all")
disk = run("for i in 1 2 3; do head -c 15M /dev/urandom > f$i; done; sleep 4")
changed = [c.path for c in workspace.diff()]
print(json.dumps([sandbox.facts().uid, first.stdout.decode(), changed, bomb.stdout.decode(), disk.outcome]))
sandbox.close()
print(list(Path("store").iterdir()))
"""


def test_an_ordinary_user_has_the_same_sandbox(ordinary: Path) -> None:
    done = as_ordinary(ordinary, _ORDINARY)
    assert done.returncode == 0, done.stderr
    uid, first, changed, bomb, disk = json.loads(done.stdout.splitlines()[0])
    assert (uid, first, bomb, disk) == (4242, "1000\n", "", "disk")
    assert "f" in changed
    assert done.stdout.splitlines()[1] == "[]"


def test_a_kernel_that_refuses_is_named_with_the_remedy(ordinary: Path) -> None:
    script = """
from pathlib import Path
from agents.sandbox import NamespaceSandbox
from contracts.errors import EnvironmentFault
try: NamespaceSandbox(Path("store"))
except EnvironmentFault as fault: print(fault)
print(list(Path("store").iterdir()))
"""
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = as_ordinary(ordinary, script, "unshare", "-U", "--map-user=4242", "--keep-caps", "sh", "-c", forbid, "sh")
    assert "step 'namespaces' failed" in done.stdout, done.stderr
    assert "user.max_user_namespaces" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_launcher_needs_only_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import agents.sandbox.launcher.zygote"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_many_commands_at_a_time_and_after_each_other(sandbox: NamespaceSandbox) -> None:
    """More commands than there are supervisors, from more threads, each with its own answer."""

    def one(number: int) -> bytes:
        workspace = sandbox.create()
        result = sandbox.run(workspace, Command(argv=("cat",), stdin=b"%d" % number))
        workspace.discard()
        return result.stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(60))) == [b"%d" % number for number in range(60)]
