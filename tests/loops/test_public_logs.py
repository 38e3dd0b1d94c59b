"""The judge of `benchmarks.public_logs`: what counts as found, missed and false."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.public_logs import LOGS, Log, Wanted, as_markdown, row_of
from contracts.enums import Verdict
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from loops.debug.finding import Finding
from loops.debug.measure import Probe, Reading


def finding(kind: str, onset: tuple[int, int], statement: str) -> Finding:
    probe = Probe(
        series=("loss",), reading=Reading.LOG_LEVEL, normal=(0.0,), anomalous=(1.0,), noise=(0.1,), since=1, until=9
    )
    return Finding(
        kind=kind, series=("loss",), layers=(), onset=onset, severity=0.5, statement=statement, evidence=(),
        probe=probe, specificity=1,
    )  # fmt: skip


def test_a_finding_fits_by_kind_steps_and_words() -> None:
    wanted = Wanted(kinds=("spike",), steps=(3845, 3860), words="recovers")
    assert wanted.fits(finding("spike", (3850, 3850), "jumps and recovers by step 3861"))
    assert not wanted.fits(finding("divergence", (3850, 3850), "jumps and recovers by step 3861"))
    assert not wanted.fits(finding("spike", (4260, 4260), "jumps and recovers by step 4271"))
    assert not wanted.fits(finding("spike", (3850, 3850), "jumps and does not come back"))


def test_each_file_is_judged_once() -> None:
    assert len({log.path for log in LOGS}) == len(LOGS)


@pytest.fixture
def lathe(tmp_path: Path, database_url: str) -> Lathe:
    settings = Settings(home=tmp_path / "home", database_url=database_url, backend="local", embedder="hashed")
    return Lathe.open(settings)


def test_a_spike_that_is_not_expected_is_a_false_alarm(lathe: Lathe, tmp_path: Path) -> None:
    """Shows R801-3.2: each file is imported as anybody would; what is found is judged, and no cause is named."""
    (tmp_path / "loss.txt").write_text("".join(f"{step} {loss(step):.4f}\n" for step in range(1, 201)))
    try:
        silent = row_of(lathe, tmp_path, Log(path="loss.txt", known="nothing wrong"))
        wanted = Wanted(kinds=("spike",), steps=(120, 124))
        found = row_of(lathe, tmp_path, Log(path="loss.txt", known="a spike at 120", wanted=(wanted,)))
    finally:
        lathe.close()
    assert (silent["right"], len(silent["false_alarms"])) == (False, 1)
    assert (found["right"], found["missed"]) == (True, 0)
    assert found["verdicts"] == [f"{Verdict.CANNOT_TELL} (observed)"]
    assert "| yes |" in as_markdown([found])


def loss(step: int) -> float:
    """It falls, with one burst of five steps."""
    return 2.0 + 3.0 * 0.98**step + (3.0 if 120 <= step <= 124 else 0.0) + 0.01 * (step % 3)
