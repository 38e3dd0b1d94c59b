"""A crash leaves nothing mounted and nothing running; what it leaves on disk a reaper removes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agents.sandbox import NamespaceSandbox

ROOT = Path(__file__).parents[3]
_OWNER = """
import sys
from pathlib import Path
from agents.sandbox import *
sandbox = NamespaceSandbox(Path(sys.argv[1]))
workspace = sandbox.create()
sandbox.run(workspace, Command(argv=("sh", "-c", "echo x > f; mkdir -p a/b; chmod 000 a")))
fork = workspace.fork()
print(sandbox.launcher_pid, flush=True)
sandbox.run(fork, Command(argv=("sh", "-c", "setsid sleep 4712 & sleep 4712"), limits=Limits(wall_s=100)))
"""


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def running(text: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return text in listed


def start_owner(root: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", _OWNER, str(root)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    launcher = int(owner.stdout.readline())
    wait_until(lambda: running("sleep 4712"))
    return owner, launcher


def test_after_sigkill_nothing_runs_or_is_mounted_and_the_reaper_cleans(
    sandbox: NamespaceSandbox, sandbox_root: Path
) -> None:
    root = sandbox_root / "killed"
    mounts = Path("/proc/self/mountinfo").read_text()
    owner, launcher = start_owner(root)
    living = NamespaceSandbox(root)
    workspace = living.create()
    assert living.reap().owners == 0  # both owners are alive
    owner.kill()
    owner.wait()
    wait_until(lambda: not running("sleep 4712"))
    wait_until(lambda: not os.path.exists(f"/proc/{launcher}"))
    assert Path("/proc/self/mountinfo").read_text() == mounts
    reaped = living.reap()
    assert (reaped.owners, reaped.folders > 2) == (1, True)
    assert [path.name for path in root.glob("*.lock")] == [f"{workspace.store.owner}.lock"]
    assert living.reap().owners == 0
    living.close()
    assert list(root.iterdir()) == []


def test_the_launcher_killed_alone_takes_its_sandboxes_with_it(sandbox: NamespaceSandbox, sandbox_root: Path) -> None:
    root = sandbox_root / "launcher"
    owner, launcher = start_owner(root)
    os.kill(launcher, signal.SIGKILL)
    wait_until(lambda: not running("sleep 4712"))
    owner.wait()
    wait_until(lambda: sandbox_reaps(root))
    assert list(root.iterdir()) == []


def sandbox_reaps(root: Path) -> bool:
    from agents.sandbox.workspaces import reap

    return reap(root).owners == 1
