"""A real sandbox on a real disk; where the kernel refuses it, the reason is the skip's text."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from small_runs import evolution_in, small_plan

from agents.sandbox import NamespaceSandbox, Sandbox
from agents.sandbox.trees import remove
from contracts.errors import EnvironmentFault
from loops.evolve.evaluation import Evaluator
from loops.evolve.plan import Plan
from loops.evolve.tasks import STARTER, read_suite


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that the sandbox's user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="lt", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    remove(folder)


@pytest.fixture(scope="session")
def isolated(place: Path) -> Iterator[Sandbox]:
    try:
        sandbox = NamespaceSandbox(place / "sandbox")
    except EnvironmentFault as fault:
        pytest.skip(f"this kernel does not allow the sandbox: {fault}")
    with closing(sandbox):
        yield sandbox


@pytest.fixture(scope="session")
def quick(isolated: Sandbox, place: Path) -> Evaluator:
    """A few tasks that take little: commands that fail at first, and one repair."""
    folder = place / "suite"
    splits = {
        "fix": ["sh_poll", "sh_errors", "fix_flatten"], "gate": ["sh_queue", "sh_lock", "sh_names"],
        "sealed": ["sh_total", "sh_often"], "canary": ["ml_scrambled"],
    }  # fmt: skip
    for names in splits.values():
        for name in names:
            shutil.copytree(STARTER / name, folder / name)
    (folder / "splits.json").write_text(json.dumps(splits))
    return Evaluator(sandbox=isolated, suite=read_suite(folder))


@pytest.fixture(scope="session")
def evaluator(isolated: Sandbox) -> Evaluator:
    return Evaluator(sandbox=isolated, suite=read_suite())


@pytest.fixture(scope="module")
def finished(place: Path, quick: Evaluator) -> tuple[Path, Plan]:
    """A run that went through without a stop."""
    plan, folder = small_plan(quick), place / "whole"
    run = evolution_in(folder, plan, quick)
    while run.step():
        pass
    return folder, plan
