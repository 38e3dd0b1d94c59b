"""Whose rights the code has: another user's when root runs the sandbox, the caller's own when an ordinary user does."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.sandbox import Command, Limits, NamespaceSandbox
from contracts.errors import UserInputError

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"


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


def as_root_with(folder: Path, script: str, *prefix: str) -> str:
    """What a script of another process of root prints, which sets itself up by `prefix` first."""
    command = [*prefix, sys.executable, "-B", "-c", _IMPORTS + script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout


_IMPORTS = """
import subprocess, sys, threading, time
from pathlib import Path
from agents.sandbox import *
folder = Path(sys.argv[1]); data = folder / "data"
sandbox = NamespaceSandbox(folder / "store")
workspace = sandbox.create()
def run(script):
    command = Command(argv=("sh", "-c", script), mounts=(Mount(source=data, target="/inputs/data"),))
    return sandbox.run(workspace, command).stdout.decode()
"""


@pytest.fixture
def data_folder(as_root: None, sandbox_root: Path) -> Iterator[Path]:
    """A folder with an empty folder "data" that may be mounted."""
    with tempfile.TemporaryDirectory(prefix="lt", dir="/var/tmp") as folder:
        (Path(folder) / "data").mkdir(mode=0o755)
        yield Path(folder)


def test_groups_of_the_caller_open_nothing(data_folder: Path) -> None:
    """Root's further groups must not follow the code into the sandbox, where they could not be given up."""
    secret = data_folder / "data" / "secret"
    secret.write_text("secret")
    os.chown(secret, 0, 4243)
    secret.chmod(0o640)
    script = "print(run('cat /inputs/data/secret; grep Groups: /proc/self/status')); sandbox.close()"
    assert as_root_with(data_folder, script, "setpriv", "--groups=4243").split() == ["Groups:"]


def test_what_is_mounted_outside_later_stays_outside(data_folder: Path) -> None:
    script = """
data.joinpath("later").mkdir()
def mount_later():
    time.sleep(0.3); subprocess.run(["mount", "-t", "tmpfs", "x", data / "later"]); (data / "later" / "secret").touch()
thread = threading.Thread(target=mount_later); thread.start()
print(run("sleep 1; ls /inputs/data/later")); thread.join(); print(*(data / "later").iterdir()); sandbox.close()
"""
    said = as_root_with(data_folder, script, "unshare", "--mount", "--propagation=shared").split()
    assert said == [f"{data_folder}/data/later/secret"]


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
fork = workspace.fork()
script = "mkdir d; : > d/x; chmod 444 d; chmod 0 .; sleep 4"
closed = sandbox.run(fork, Command(argv=("sh", "-c", script), limits=limits))
changed = [c.path for c in workspace.diff()]
said = [first.stdout.decode(), changed, bomb.stdout.decode(), disk.outcome, closed.outcome]
print(json.dumps([sandbox.facts().uid, *said]))
sandbox.close()
print(list(Path("store").iterdir()))
"""


def test_an_ordinary_user_has_the_same_sandbox(ordinary: Path) -> None:
    done = as_ordinary(ordinary, _ORDINARY)
    assert done.returncode == 0, done.stderr
    uid, first, changed, bomb, disk, closed = json.loads(done.stdout.splitlines()[0])
    assert (uid, first, bomb, disk, closed) == (4242, "1000\n", "", "disk", "disk")
    assert "f" in changed
    assert done.stdout.splitlines()[1] == "[]"


def test_what_an_ordinary_user_may_not_read_is_said_not_dropped(ordinary: Path) -> None:
    script = """
import os
from pathlib import Path
from agents.sandbox.trees import copy_tree
from contracts.errors import UserInputError
for name in ("file", "folder"):
    source, target = Path(name + "-source"), Path(name + "-target")
    source.mkdir(); target.mkdir()
    (source / "file").touch(); (source / "folder").mkdir(); (source / name).chmod(0)
    try: copy_tree([source], target, os.geteuid())
    except UserInputError as error: print(error.message)
"""
    said = as_ordinary(ordinary, script).stdout.splitlines()
    assert said == [f"{name} cannot be read, so not copied" for name in ("file", "folder")]


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
