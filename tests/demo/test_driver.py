"""What the command does before any training: names, refusals, fresh starts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import UserInputError
from control_plane.demo.attempt import begin, demo_settings
from control_plane.demo.faults import find_fault
from control_plane.demo.home import DemoHome, Progress
from control_plane.demo.screen import Screen
from control_plane.demo.stages import Choice

CHOICE = Choice(fault=find_fault("layer_skip"), seed=2, yes=True, with_page=False)


@pytest.fixture
def home(tmp_path: Path) -> DemoHome:
    return DemoHome(tmp_path)


def _lathe(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "control_plane.cli.main", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_list_faults_prints_one_name_a_line() -> None:
    done = _lathe("--list-faults")
    assert done.stdout.split("\n") == [
        "over_balance", "layer_skip", "router_muon", "leftover_pages", "norm_decay", "loader_order", "interaction", "",
    ]  # fmt: skip


def test_bad_options_end_in_a_message_with_the_remedy() -> None:
    unknown, both = _lathe("--fault", "gremlins"), _lathe("--healthy", "--fault", "layer_skip")
    assert (unknown.returncode, both.returncode) == (2, 2)
    assert "remedy: choose one of: over_balance" in unknown.stderr
    assert "remedy: leave out one of them" in both.stderr


def test_a_demo_has_its_own_home_database_and_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATHE_HOME", str(tmp_path))
    monkeypatch.setenv("LATHE_MODEL", "openai/anything")
    monkeypatch.setenv("LATHE_DATABASE_URL", "postgresql://elsewhere/lathe")
    settings = demo_settings(CHOICE, None)
    assert settings.home == tmp_path / "demo" / "layer_skip-2"
    assert (settings.database_url, settings.model) == ("", "")
    assert demo_settings(CHOICE, tmp_path / "here").home == tmp_path / "here"


def test_a_half_done_demo_goes_on(home: DemoHome) -> None:
    settings = demo_settings(CHOICE, home.folder)
    first = begin(home, CHOICE, settings, Screen())
    home.save(replace(first, case_id="case-1", spent_s=3.0))
    assert begin(home, CHOICE, settings, Screen()) == Progress(
        fault="layer_skip", seed=2, case_id="case-1", spent_s=3.0
    )


def test_a_finished_demo_starts_afresh(home: DemoHome) -> None:
    home.save(Progress(fault="layer_skip", seed=2, case_id="case-1", spent_s=60.0, finished=True))
    (home.folder / "runs").mkdir()
    settings = demo_settings(CHOICE, home.folder)
    assert begin(home, CHOICE, settings, Screen()) == Progress(fault="layer_skip", seed=2)
    assert not (home.folder / "runs").exists()


def test_another_half_done_demo_is_not_thrown_away(home: DemoHome) -> None:
    home.save(Progress(fault="over_balance", seed=2))
    with pytest.raises(UserInputError, match="--fault over_balance --seed 2"):
        begin(home, CHOICE, demo_settings(CHOICE, home.folder), Screen())
    assert begin(home, replace(CHOICE, fault=find_fault("over_balance")), demo_settings(CHOICE, home.folder), Screen())
