"""Export: read back by pandas in a process that knows nothing of Lathe, bit for bit."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training_log import Training, make_run, started, steps

from context_store.export import LEFT_OUT, export
from context_store.models import Base
from context_store.records import NegativeResult
from contracts.enums import Role
from contracts.errors import UserInputError
from contracts.events import Finished, Metrics
from contracts.evidence import EvidenceRef


def quiet(stage: str, done: int, total: int) -> None:
    assert done <= total


@pytest.fixture
def exported(training: Training, tmp_path: Path) -> Path:
    training.log(*steps(1, 200), Finished(step=200, reason="stopped"))
    training.log(started(segment=1, start_step=150), segment=1)
    odd = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2]
    names = ("loss", "load/layers.3/experts.7")
    later = [Metrics(step=step, values=dict.fromkeys(names, value)) for step, value in enumerate(odd, start=151)]
    training.log(*later, segment=1)
    training.ship()
    make_run(training.store, "strange/../run|#1")
    training.store.tokens.create("secret", Role.ADMIN)
    training.store.negatives.add(
        NegativeResult(
            claim="a | claim", intervention="tried", context={"a": 1.5}, expected="", observed="seen",
            reason_class="other", reason="because", evidence=(EvidenceRef.parse("run:run-1"),), reopen_if="",
            investigation_id=None, actor="me", project_id="p",
        )
    )  # fmt: skip
    counts = export(training.store.url, tmp_path / "export", now=1e9, tell=quiet)
    assert (counts["points"], counts["run"], counts["segment"]) == (212, 2, 2)
    return tmp_path / "export"


READ = """
import json, sys, pandas as pd
points = pd.read_parquet("points/run-1.parquet")
loss = points[points.series == "loss"]
series = pd.read_parquet("tables/series.parquet").set_index("name")
config = pd.read_parquet("tables/config_value.parquet")
print(json.dumps({
    "steps": loss.step.tolist(), "segments": loss.segment.tolist(), "canonical": loss.canonical.tolist(),
    "bits": loss.value.to_numpy().view("uint64").tolist(), "layer": int(series.layer["load/layers.3/experts.7"]),
    "lr": config[config.key == "optim.router.lr"].value.tolist(),
    "began": str(pd.read_parquet("tables/segment.parquet").started_at[0]),
    "lathe": [m for m in sys.modules if m.startswith(("context_store", "contracts", "sqlalchemy"))],
}))
"""


def test_it_is_exact_without_lathe(exported: Path, training: Training) -> None:
    done = subprocess.run([sys.executable, "-I", "-c", READ], cwd=exported, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["lathe"] == []
    full = training.store.series.read("run-1", "loss", view="full")
    order = np.lexsort((full.steps, full.segments))
    assert found["steps"] == full.steps[order].tolist()
    assert found["segments"] == full.segments[order].tolist()
    assert found["bits"] == full.values[order].view(np.uint64).tolist()
    assert found["canonical"] == [True] * 150 + [False] * 50 + [True] * 6
    assert (found["layer"], found["lr"]) == (3, ["0.01", "0.01"])
    assert found["began"] == "1970-01-12 13:46:40+00:00"


def test_pages_are_for_people_and_links_lead_somewhere(exported: Path) -> None:
    readme = (exported / "README.md").read_text()
    assert "2001-09-09 01:46:40 UTC" in readme
    assert "| points | 212 |" in readme
    assert "resumed" in (exported / "runs" / "run-1.md").read_text()
    assert "| optim.router.lr | 0.01 |" in (exported / "runs" / "run-1.md").read_text()
    assert "a | claim" in (exported / "negative_results.md").read_text()
    assert {path.name for path in (exported / "runs").iterdir()} == {"run-1.md", "strange%2F..%2Frun%7C%231.md"}
    assert "(runs/strange%252F..%252Frun%257C%25231.md)" in readme


def test_every_table_is_there_or_left_out_on_purpose(exported: Path) -> None:
    """Also: no secret and no hash of one."""
    written = {path.stem for path in (exported / "tables").iterdir()}
    assert written == set(Base.metadata.tables) - LEFT_OUT
    assert not any(b"secret_sha256" in path.read_bytes() for path in exported.rglob("*") if path.is_file())


def test_it_is_whole_or_not_there(training: Training, tmp_path: Path) -> None:
    training.log(*steps(1, 10))
    training.ship()

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "points":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(training.store.url, tmp_path / "export", now=1.0, tell=interrupt)
    assert list(tmp_path.glob("*export*")) == []
    export(training.store.url, tmp_path / "export", now=1.0, tell=quiet)
    with pytest.raises(UserInputError, match="is there already"):
        export(training.store.url, tmp_path / "export", now=1.0, tell=quiet)
