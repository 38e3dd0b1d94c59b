"""Deleting by chunk: dry runs, what may not go, and bounded memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import psycopg
import pytest
from training_log import Training, counts, make_run, steps

from context_store import Store
from context_store.records import Anomaly, Removal, SeriesMatrix
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

MEMORY = """
import sys, psutil
from context_store import open_store
with open_store(sys.argv[1]) as store:
    store.runs.get("run-1")
    before = psutil.Process().memory_info().rss
    for dry_run in (True, False):
        removal = store.retention.delete_run("run-1", dry_run=dry_run)
        print(removal.num_points, psutil.Process().memory_info().rss - before)
"""


def matrix(num_series: int, num_steps: int) -> SeriesMatrix:
    values = 3 + np.cumsum(np.random.default_rng(3).normal(size=(num_series, num_steps)), axis=1)
    names = tuple(f"grad_norm/layers.{index}" for index in range(num_series))
    present = np.ones(values.shape, dtype=np.bool_)
    return SeriesMatrix(names=names, steps=np.arange(1, num_steps + 1), values=values, present=present)


def test_a_deleted_run_is_gone_and_its_id_can_be_used_again(training: Training) -> None:
    store = training.store
    training.log(*steps(1, 300))
    training.ship()
    store.series.append("run-1", [(301, {"loss": 1.0})])
    dry = store.retention.delete_run("run-1", dry_run=True)
    assert (dry.run_id, dry.num_points) == ("run-1", 301)
    assert sum(counts(store)) == 301
    assert store.retention.delete_run("run-1") == dry
    assert counts(store) == (0, 0)
    with pytest.raises(NotFound):
        store.runs.get("run-1")
    with pytest.raises(NotFound):
        store.series.append("run-1", [(302, {"loss": 1.0})])
    make_run(store)
    store.series.append("run-1", [(1, {"loss": 2.0})])
    assert store.series.read("run-1", "loss").values.tolist() == [2.0]
    assert store.series.names("run-1") == ("loss",)


def test_a_run_that_knowledge_rests_on_stays(training: Training) -> None:
    training.ship()
    evidence = (EvidenceRef.parse("series:run-1/loss#1..2"),)
    training.store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind="spike", series=("loss",), onset=(1, 2), severity=1.0, statement="s",
            evidence=evidence, probe={},
        )
    )  # fmt: skip
    with pytest.raises(UserInputError, match="'anomaly' rest on run 'run-1'") as caught:
        training.store.retention.delete_run("run-1")
    assert "expire" in caught.value.remedy


def test_expiring_drops_whole_chunks_of_the_chosen_statistics(store: Store) -> None:
    make_run(store)
    store.series.write("run-1", matrix(2, 3000))
    store.series.append("run-1", [(step, {"loss": float(step)}) for step in range(1, 101)])
    dry = store.retention.expire("run-1", before_step=2500, statistics=["grad_norm"], dry_run=True)
    assert (dry.num_points, dry.num_chunks) == (4000, 4)
    assert sum(counts(store)) == 6100
    assert store.retention.expire("run-1", before_step=2500, statistics=["grad_norm"]) == dry
    assert store.series.read("run-1", "grad_norm/layers.0").steps.tolist() == list(range(2001, 3001))
    assert len(store.series.read("run-1", "loss").steps) == 100
    assert store.retention.expire("run-1").num_points == 2100
    assert store.series.latest(["run-1"], ["loss", "grad_norm/layers.1"]) == {"run-1": {}}
    assert store.retention.expire("run-1") == Removal(run_id="run-1", num_points=0, num_chunks=0, size_bytes=0)


def test_only_runs_that_ended_are_named_for_a_policy(training: Training) -> None:
    from contracts.events import Finished

    training.log(*steps(1, 3))
    training.ship()
    make_run(training.store, "run-2")
    assert training.store.retention.ended_before(2e10) == ()
    training.log(Finished(step=3, reason="completed"))
    training.ship()
    assert training.store.retention.ended_before(2e10) == ("run-1",)
    assert training.store.retention.ended_before(2e10, project_id="other") == ()
    assert training.store.retention.ended_before(1e6) == ()


@pytest.mark.parametrize("num_series", [5, pytest.param(5000, marks=pytest.mark.slow)])
def test_deleting_five_million_points_takes_little_memory(store: Store, num_series: int) -> None:
    """Shows mlflow#25615 (21.8 GiB for 6.5 million) not to be ours: less than 200 MB, deep or wide."""
    make_run(store)
    store.series.write("run-1", matrix(num_series, 5_000_000 // num_series))
    command = [sys.executable, "-c", MEMORY, store.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        num_points, growth = (int(word) for word in line.split())
        assert num_points == 5_000_000
        assert growth < 200e6
    with psycopg.connect(store.url) as connection:
        row = connection.execute("SELECT count(*) FROM series").fetchone()
    assert row == (0,)
