"""The sandbox under attack, and what it costs.

Runs every attack of `benchmarks/sandbox_attacks/attacks`, and those of --attacks DIR, in the isolated implementation,
with a judge outside (benchmarks/sandbox_attacks/world.py). Before that, as a positive control, it runs the attacks that
are harmless without a sandbox in the unsafe implementation: the judge must see each of them escape, or its silence
means nothing. Then: forks (a new overlay layer and /bin/true) for each second from two threads, the start of Python,
how long after the deadline a command is really gone, and what is left after many forks. Shows RM2-7.15, and on one
machine the escape tests of RC2-10.1, RC2-10.3's starts for each second, RC2-10.5 for files, and RC2-10.7.

An attack from outside is a .py or .sh file; what it may know is in benchmarks/sandbox_attacks/kit.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.sandbox import Command, Limits, NamespaceSandbox, Sandbox, Workspace
from agents.sandbox.subprocess_unsafe import UnsafeSubprocess
from benchmarks.sandbox_attacks import host
from benchmarks.sandbox_attacks.runner import OWN_ATTACKS, Attack, Range, read_attacks
from benchmarks.sandbox_attacks.world import World

BENCHMARK_UID = 800_000 + os.getpid() % 100_000  # nobody's: every process of it is a sandbox of this run
NUM_THREADS = 2
DEADLINE_S = 0.5
_BUSY = "trap '' TERM INT HUP XCPU; for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; while :; do :; done"
_ASLEEP = "sleep 60 & setsid sleep 60 & sleep 60"


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


@contextmanager
def attack_range(work: Path, make: Callable[[Path], Sandbox]) -> Iterator[Range]:
    """A sandbox made by `make` and a fresh world around it, both gone afterwards."""
    folder = work / "world"
    folder.mkdir()
    base = work / "base"
    (base / "data").mkdir(parents=True)
    (base / "notes.txt").write_text("notes\n")
    (base / "data" / "numbers.txt").write_text("1 2 3\n")
    world = World(folder, BENCHMARK_UID if os.geteuid() == 0 else os.geteuid())
    sandbox = make(work / "store")
    try:
        sibling = sandbox.create(world.sibling)
        found = list((work / "store").glob("owner-*/*/fs/sibling-secret"))
        yield Range(
            sandbox=sandbox, world=world, base=base, store=work / "store", sibling=sibling, sibling_file=str(found[0])
        )
    finally:
        sandbox.close()
        world.close()
        for path in (folder, base, work / "store"):
            shutil.rmtree(path)


def isolated(root: Path) -> NamespaceSandbox:
    return NamespaceSandbox(root, uid=BENCHMARK_UID)


def run_attacks(work: Path, make: Callable[[Path], Sandbox], attacks: Sequence[Attack]) -> list[dict[str, Any]]:
    rows = []
    with attack_range(work, make) as place:
        for attack in attacks:
            rows.append(place.attack(attack))
            say(f"{rows[-1]['outcome']:9} {rows[-1]['attack']} {'; '.join(rows[-1]['witness'])}")
    return rows


def fork_and_run(sandbox: Sandbox, origin: Workspace) -> None:
    workspace = origin.fork()
    result = sandbox.run(workspace, Command(argv=("/bin/true",)))
    workspace.discard()
    if not result.ok:
        raise SystemExit(f"/bin/true ended with {result}")


def forks_per_s(sandbox: Sandbox, num_forks: int, num_threads: int) -> float:
    """Each thread forks a workspace of its own again and again: two forks of one at a time exclude each other."""
    origins = [sandbox.create() for _ in range(num_threads)]

    def repeat(origin: Workspace) -> None:
        for _ in range(num_forks // num_threads):
            fork_and_run(sandbox, origin)

    started = time.monotonic()
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(repeat, origins))
    rate = num_forks / (time.monotonic() - started)
    for origin in origins:
        origin.discard()
    return rate


def python_start_s(sandbox: Sandbox, rounds: int = 15) -> float:
    """Median of a whole command that starts the system's Python and ends."""
    workspace = sandbox.create()
    walls = []
    for _ in range(rounds):
        started = time.monotonic()
        sandbox.run(workspace, Command(argv=("/usr/bin/python3", "-I", "-S", "-c", "pass")))
        walls.append(time.monotonic() - started)
    workspace.discard()
    return statistics.median(walls)


def kill_s(sandbox: Sandbox, rounds: int = 5) -> float:
    """The longest time from the deadline until `run` has returned and every process is gone."""
    longest = 0.0
    for script in (_BUSY, _ASLEEP):
        for _ in range(rounds):
            workspace = sandbox.create()
            started = time.monotonic()
            sandbox.run(workspace, Command(argv=("/bin/sh", "-c", script), limits=Limits(wall_s=DEADLINE_S)))
            longest = max(longest, time.monotonic() - started - DEADLINE_S)
            workspace.discard()
    return longest


def holdings(sandbox: NamespaceSandbox, root: Path) -> dict[str, int]:
    """What a sandbox without commands holds: each forgotten piece makes one of these grow."""
    uid = sandbox.facts().uid
    time.sleep(1.0)  # the kernel ends what was killed
    return {
        "processes": len(host.inner_processes(uid)),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "layers": len(list(root.glob("owner-*/*/fs"))),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "groups": sum(_is_of_dead_supervisor(path.name) for path in Path("/sys/fs/cgroup").glob("**/lathe-*/*")),
    }


def _is_of_dead_supervisor(group: str) -> bool:
    return group.isdigit() and not os.path.exists(f"/proc/{group}")


def leaks(root: Path, num_forks: int) -> tuple[int, dict[str, int], float]:
    """Pieces left after many forks and the closing of the sandbox, by kind, and the forks for each second meanwhile."""
    sandbox = isolated(root)
    before = holdings(sandbox, root)
    rate = forks_per_s(sandbox, num_forks, NUM_THREADS)
    after = holdings(sandbox, root)
    sandbox.close()
    left = {name: max(0, after[name] - before[name]) for name in before}
    left["files after closing"] = len(list(root.rglob("*")))
    return sum(left.values()), left, rate


def measure(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    attacks = read_attacks([OWN_ATTACKS, *options.attacks])
    if options.only:
        attacks = [attack for attack in attacks if options.only in attack.path.name]
    say("positive control, without isolation:")
    harmless = [attack for attack in attacks if attack.control]
    control = run_attacks(work, lambda root: UnsafeSubprocess(root, allowed_by="the benchmark"), harmless)
    say("isolated:")
    rows = run_attacks(work, isolated, attacks)
    sandbox = isolated(work / "speed")
    found = {
        "forks_per_s_one_thread": forks_per_s(sandbox, 100, 1),
        "forks_per_s": forks_per_s(sandbox, 400, NUM_THREADS),
    }
    found |= {"python_start_s": python_start_s(sandbox), "kill_s": kill_s(sandbox)}
    facts = sandbox.facts()
    sandbox.close()
    num_leaks, left, rate = leaks(work / "leaks", options.forks)
    return {
        "escapes": sum(row["outcome"] == "escaped" for row in rows),
        "attempts": len(rows),
        "control_escapes": sum(row["outcome"] == "escaped" for row in control),
        "control_attempts": len(control),
        **{name: round(value, 4) for name, value in found.items()},
        "leaks": num_leaks, "leaks_by_kind": left, "leak_forks": options.forks, "leak_forks_per_s": round(rate, 1),
        "uid": facts.uid, "as_root": os.geteuid() == 0, "cgroups": facts.cgroups, "load_before": options.load,
        "attacks": rows, "control": control,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--attacks", type=Path, action="append", default=[], help="a folder with more attacks")
    parser.add_argument("--only", default="", help="only attacks with this in their name")
    parser.add_argument("--forks", type=int, default=10_000, help="forks for the leak count")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where a temporary folder is made")  # noqa: S108
    options = parser.parse_args()
    options.load = os.getloadavg()[0]
    work = Path(tempfile.mkdtemp(prefix="lt", dir=options.work))
    work.chmod(0o755)
    try:
        found = measure(work, options)
    finally:
        shutil.rmtree(work)
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
    if found["escapes"] or found["control_escapes"] < found["control_attempts"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
