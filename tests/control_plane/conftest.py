"""A project whose training is the small stand-in, and a Lathe on a fresh database without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from case import train_bad_run
from small_project import SmallProject, make_project

from control_plane.logging import configure_logging
from control_plane.settings import Settings
from control_plane.wiring import Lathe


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
