"""Fixtures of the trainer's tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_training import PROJECT, SMALL, Trainings

from trainer.corpus import Corpus, load_corpus
from trainer.session import make_deterministic


@pytest.fixture(autouse=True, scope="session")
def _deterministic() -> None:
    make_deterministic(1)


@pytest.fixture(autouse=True)
def _forget_the_recipe() -> Iterator[None]:
    """A training in this process leaves its project on the import path."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("recipe", None)


@pytest.fixture
def trainings(tmp_path: Path) -> Trainings:
    """A run folder and a project with the small recipe."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "recipe.py").write_text(PROJECT.format(small=SMALL))
    return Trainings(run_folder=tmp_path / "run", project=project)


@pytest.fixture
def new_trainings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Trainings]:
    """Makes one more run folder at each call."""

    def make() -> Trainings:
        folder = tmp_path_factory.mktemp("run")
        return Trainings(run_folder=folder / "run", project=folder)

    return make


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return load_corpus(40_000)
