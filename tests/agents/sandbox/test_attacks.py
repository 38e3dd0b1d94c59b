"""A few attacks of `benchmarks/sandbox_attacks`, and the judge's eyes: without isolation it sees each escape."""

import base64
import os
from pathlib import Path

import pytest

from agents.sandbox import NamespaceSandbox
from agents.sandbox.subprocess_unsafe import UnsafeSubprocess
from benchmarks.sandbox import isolated, run_attacks
from benchmarks.sandbox_attacks.host import Peak
from benchmarks.sandbox_attacks.runner import OWN_ATTACKS, read_attacks
from benchmarks.sandbox_attacks.world import Case, World

ATTACKS = {attack.path.stem: attack for attack in read_attacks([OWN_ATTACKS])}
QUICK = (
    "disk_preallocated", "evaluator_write", "file_read_direct", "file_overlay_attributes", "file_watch_host",
    "leave_daemon", "link_chain", "link_long_chain", "link_return", "memory_asynchronous_reads", "memory_dev_zero",
    "memory_semaphores", "memory_shared_forgotten", "memory_shared_unmapped", "memory_stdin_attributes", "net_tcp",
    "program_of_launcher", "proxy_overrides", "proxy_paths", "rights_user_namespace", "signal_outside",
)  # fmt: skip


@pytest.fixture
def work(sandbox_root: Path, sandbox: NamespaceSandbox) -> Path:
    sandbox_root.chmod(0o755)
    folder = sandbox_root / f"attacks-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o755)
    return folder


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 60
    assert sum(attack.control for attack in ATTACKS.values()) >= 10


def test_quick_attacks_are_contained(work: Path) -> None:
    """Shows RM2-7.15: edit the scorer, read what is hidden, reach the network, outlive the command."""
    rows = run_attacks(work, isolated, [ATTACKS[name] for name in QUICK])
    assert {row["attack"]: row["witness"] for row in rows if row["outcome"] != "contained"} == {}


def test_the_judge_sees_what_escapes_without_isolation(work: Path) -> None:
    harmless = [ATTACKS[name] for name in QUICK if ATTACKS[name].control]
    rows = run_attacks(work, lambda root: UnsafeSubprocess(root, allowed_by="the test"), harmless)
    assert [row["attack"] for row in rows if row["outcome"] == "contained"] == []


def test_the_judge_counts_and_reads(work: Path) -> None:
    """What no harmless attack can show: excess of each kind, and secrets in other clothes."""
    folder = work / "world"
    folder.mkdir()
    world = World(folder, os.geteuid())
    calm = Peak(processes=20, memory_bytes=100 << 20)
    wild = Peak(
        processes=500, memory_bytes=4 << 30, kernel_bytes=4 << 30, shared_bytes=4 << 30, disk_bytes=4 << 30,
        asynchronous_reads=1 << 14, outside_programs=1,
    )  # fmt: skip
    secret = world.secrets[0]
    try:
        for peak, texts, expected in (
            (calm, [b"nothing"], 0), (wild, [b"nothing"], 7), (calm, [secret.hex().encode()], 1),
            (calm, [b"x" + base64.b64encode(secret)], 1), (calm, [secret[::-1]], 1),
        ):  # fmt: skip
            seen = world.judge(Case(token="no-token", results=[], texts=texts, problems=[], peak=peak))
            assert len(seen) == expected, seen
    finally:
        world.close()
