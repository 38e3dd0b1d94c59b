"""Real sandboxes on the real kernel; where it refuses, the reason is the skip's text."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.sandbox import NamespaceSandbox, Sandbox
from agents.sandbox.subprocess_unsafe import UnsafeSubprocess
from agents.sandbox.trees import remove
from contracts.errors import EnvironmentFault


@pytest.fixture(scope="session")
def sandbox_root() -> Iterator[Path]:
    """A folder on a real disk: /tmp may be in memory, where an overlay may lack user attributes."""
    folder = Path(tempfile.mkdtemp(prefix="lt", dir="/var/tmp"))
    yield folder
    remove(folder)


@pytest.fixture(scope="session")
def sandbox(sandbox_root: Path) -> Iterator[NamespaceSandbox]:
    try:
        opened = NamespaceSandbox(sandbox_root / "isolated")
    except EnvironmentFault as fault:
        pytest.skip(f"this kernel does not allow the sandbox: {fault}")
    yield opened
    opened.close()
    assert list((sandbox_root / "isolated").iterdir()) == []


@pytest.fixture(params=["namespaces", "subprocess_unsafe"])
def either(request: pytest.FixtureRequest, sandbox_root: Path) -> Iterator[Sandbox]:
    """Each implementation in turn: a new one is added here."""
    if request.param == "namespaces":
        yield request.getfixturevalue("sandbox")
        return
    opened = UnsafeSubprocess(sandbox_root / "unsafe", allowed_by="the test")
    yield opened
    opened.close()


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
