"""A project whose training is the small stand-in, and a Lathe on a fresh database without Ray."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from case import train_bad_run
from small_project import SmallProject, make_project

from agents.sandbox import NamespaceSandbox
from contracts.errors import EnvironmentFault
from control_plane.logging import configure_logging
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from loops.evolve.tasks import STARTER

_STORE_BYTES = 80 * 1024 * 1024  # of Ray's object store, about the least it takes


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    configure_logging("error", as_json=False)


@pytest.fixture
def small_project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url, backend="local", num_cpus=2, cancel_grace_s=5)


@pytest.fixture
def lathe(settings: Settings) -> Iterator[Lathe]:
    with Lathe.open(settings) as opened:
        yield opened


@pytest.fixture
def bad_run(lathe: Lathe, small_project: SmallProject) -> SmallProject:
    train_bad_run(lathe, small_project)
    return small_project


@pytest.fixture
def cluster(cpus_of_a_node: int) -> Iterator[Any]:
    """A head that runs nothing, and two nodes, all on this machine."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": _STORE_BYTES})
    try:
        for _ in range(2):
            made.add_node(num_cpus=cpus_of_a_node, object_store_memory=_STORE_BYTES)
        yield made
    finally:
        made.shutdown()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Five tasks of ours that take little."""
    folder = tmp_path / "suite"
    splits = {"fix": ["fix_gcd", "sh_errors"], "gate": ["fix_flatten", "sh_poll"], "sealed": ["fix_power"]}
    for names in splits.values():
        for name in names:
            shutil.copytree(STARTER / name, folder / name)
    (folder / "splits.json").write_text(json.dumps(splits))
    return folder


@pytest.fixture
def _isolated(tmp_path: Path) -> None:
    """The sandbox's user may enter the test's folder; skips where the kernel refuses a sandbox."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    try:
        NamespaceSandbox(tmp_path / "probe").close()
    except EnvironmentFault as fault:
        pytest.skip(f"this kernel does not allow the sandbox: {fault}")
