"""Which project files were imported, and which of their lines ran."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from trainer.executed import ExecutionRecord
from trainer.project import load_recipe

RECIPE = """import math  # line 1

from rarely import unused
from trainer import (
    Recipe,
)


def never():
    return math.pi


def recipe():
    if unused is None:
        return never()
    values = dict(
        a=1,
        b=2,
    )
    assert values
    return Recipe()
"""


@pytest.fixture
def project(tmp_path: Path):
    (tmp_path / "recipe.py").write_text(RECIPE)
    (tmp_path / "rarely.py").write_text("def unused():\n    return 1\n")
    (tmp_path / "not_imported.py").write_text("X = 1\n")
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in ("recipe", "rarely"):
        sys.modules.pop(name, None)


def test_only_what_ran_is_recorded(project: Path) -> None:
    """Whole statements of project files; a body that never ran and files of others are absent."""
    record = ExecutionRecord(project)
    record.start()
    load_recipe(project, "recipe:recipe")
    record.stop()
    assert record.lines() == {
        "rarely.py": [1],
        "recipe.py": [1, 3, 4, 5, 6, 9, 13, 14, 16, 17, 18, 19, 20, 21],
    }
    assert record.modules() == {
        name: hashlib.sha256((project / name).read_bytes()).hexdigest() for name in ("rarely.py", "recipe.py")
    }


def test_installed_packages_inside_the_project_are_not_its_own(project: Path) -> None:
    folder = project / ".venv" / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "foreign.py").write_text("X = 1\n")
    sys.path.insert(0, str(folder))
    record = ExecutionRecord(project)
    record.start()
    __import__("foreign")
    record.stop()
    sys.modules.pop("foreign")
    assert record.lines() == {}
    assert record.modules() == {}
