"""SIGKILL at random moments: the run ends with the same decisions and the same hashes, and nothing of it is left.

Shows RM2-7.31.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from loops.evolve.archive import Archive
from loops.evolve.evaluation import Evaluator
from loops.evolve.journal import FolderJournal

PROGRAM = Path(__file__).parent / "evolving.py"
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_decides_the_same(place: Path, quick: Evaluator) -> None:
    folders = {name: place / name for name in ("undisturbed", "killed")}
    for folder in folders.values():
        folder.mkdir(mode=0o755)
    assert _started(folders["undisturbed"], place).wait() == 0
    chance, kills, status = random.Random(1), 0, -1
    while status != 0:
        process = _started(folders["killed"], place)
        try:
            status = process.wait(timeout=None if kills >= 12 else chance.uniform(1.0, 9.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert kills > 0
    journals = [FolderJournal(folder / "journal.jsonl") for folder in folders.values()]
    for kind in ("root", "fix", "proposal", "block", "decision", "memory"):
        assert journals[0].list(kind) == journals[1].list(kind)
    refs = [Archive(folder / "archive.git", "killed").refs() for folder in folders.values()]
    assert refs[0] == refs[1]
    assert list((folders["killed"] / "sandbox").iterdir()) == []


def _started(folder: Path, place: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(PROGRAM), str(folder), str(place / "suite")], cwd=ROOT)
