"""The folder of a demo: one process at a time, atomic files, and never somebody else's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import UserInputError
from control_plane.demo.home import DemoHome, Progress, Truth

PROGRESS = Progress(fault="over_balance", seed=3)


def test_a_new_folder_has_no_progress(tmp_path: Path) -> None:
    home = DemoHome(tmp_path / "new")
    with home.locked():
        assert home.progress() is None


def test_progress_is_kept(tmp_path: Path) -> None:
    home = DemoHome(tmp_path)
    home.save(replace(PROGRESS, case_id="", spent_s=1.5))
    assert DemoHome(tmp_path).progress() == replace(PROGRESS, case_id="", spent_s=1.5)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with DemoHome(tmp_path).locked(), pytest.raises(UserInputError, match="another demo"), DemoHome(tmp_path).locked():
        pass


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(UserInputError, match=r"thesis\.tex"):
        DemoHome(tmp_path).progress()


def test_clearing_leaves_nothing_but_the_lock(tmp_path: Path) -> None:
    home = DemoHome(tmp_path)
    with home.locked():
        home.save(PROGRESS)
        (tmp_path / "runs" / "main").mkdir(parents=True)
        (tmp_path / "postgres-users.lock").touch()
        home.clear()
        assert [path.name for path in tmp_path.iterdir()] == ["demo.lock"]
        assert home.progress() is None


def test_the_truth_comes_back_as_it_was_hidden(tmp_path: Path) -> None:
    home = DemoHome(tmp_path)
    truth = Truth(fault="interaction", cause_kind="interaction", commits=("a", "b"))
    home.hide_truth(truth)
    assert home.open_truth() == truth
    assert not home.project.exists()
