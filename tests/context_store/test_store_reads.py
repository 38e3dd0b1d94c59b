"""Reads over many series, and the two ways points come in without a run folder. Shows R801-2.2, R801-2.3 (storage)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from training_log import Training, counts, make_run, scalars, started, steps

from context_store import Store
from context_store.records import SeriesMatrix
from contracts.errors import NotFound, UserInputError
from contracts.events import Metrics

SEALED = pytest.mark.parametrize("sealed", [False, True], ids=["tail", "sealed"])


def put(store: Store, sealed: bool, *logged: tuple[int, dict[str, float]], segment: int = 0) -> None:
    store.series.append("run-1", logged, segment=segment)
    if sealed:
        store.series.seal("run-1")


@SEALED
def test_a_statistic_across_layers_experts_and_ranks_is_one_read(store: Store, sealed: bool) -> None:
    make_run(store)
    names = [f"load/layers.{layer}/experts.{expert}" for layer in (10, 2) for expert in (1, 0)]
    names += ["load@rank=1", "load", "loads/layers.2"]
    logged = [(step, {name: step + index / 10 for index, name in enumerate(names)}) for step in range(1, 6)]
    put(store, sealed, *logged)
    found = store.series.across("run-1", "load", 2, 4)
    assert found.names == ("load", "load@rank=1", *(f"load/layers.{i}/experts.{j}" for i in (2, 10) for j in (0, 1)))
    assert found.layers == (None, None, 2, 2, 10, 10)
    assert (found.experts[2:], found.ranks[:2]) == ((0, 1, 0, 1), (None, 1))
    assert found.steps.tolist() == [2, 3, 4]
    for row, name in zip(found.values, found.names, strict=True):
        assert row.tolist() == [step + names.index(name) / 10 for step in (2, 3, 4)]
    one = store.series.across("run-1", "load", layer=2, expert=1)
    assert one.names == ("load/layers.2/experts.1",)
    assert one.values.shape == (1, 5)
    nothing = store.series.across("run-1", "no such statistic")
    assert (nothing.names, nothing.values.shape) == ((), (0, 0))


@SEALED
def test_the_first_non_finite_step_of_each_layer(store: Store, sealed: bool) -> None:
    make_run(store)
    for step in range(1, 10):
        odd = {"z/layers.3": math.nan if step >= 6 else 1.0, "z/layers.1": -math.inf if step == 7 else 1.0}
        put(store, sealed, (step, {**odd, "z/layers.2": 1.0, "loss": math.nan}))
    found = store.series.first_non_finite("run-1", "z")
    assert [(one.layer, one.step) for one in found] == [(3, 6), (1, 7)]
    assert math.isnan(found[0].value)
    assert found[1].value == -math.inf
    assert [one.name for one in store.series.first_non_finite("run-1")] == ["loss", "z/layers.3", "z/layers.1"]


def test_a_superseded_non_finite_point_does_not_count(training: Training) -> None:
    training.log(*steps(1, 5), Metrics(step=6, values={"loss": math.nan}))
    training.log(started(segment=1, start_step=4), *steps(5, 8), segment=1)
    training.ship()
    for _ in range(2):
        assert training.store.series.first_non_finite("run-1") == ()
        training.store.series.seal("run-1")


@SEALED
def test_windows_around_changes_are_aligned(store: Store, sealed: bool) -> None:
    make_run(store)
    put(store, sealed, *((step, {"loss": float(step), "lr": -float(step)}) for step in range(1, 21) if step != 12))
    found = store.series.around("run-1", ["lr", "loss"], [2, 11], before=2, after=1)
    assert found.offsets.tolist() == [-2, -1, 0, 1]
    assert found.values[1, 1].tolist()[:3] == [9.0, 10.0, 11.0]
    assert found.present.tolist() == [[[False, True, True, True]] * 2, [[True, True, True, False]] * 2]
    assert found.values[0, 0, 1:].tolist() == [-1.0, -2.0, -3.0]
    assert store.series.around("run-1", ["loss"], [], 1, 1).values.shape == (0, 1, 3)


def test_latest_values_come_from_whichever_tier_is_newer(store: Store) -> None:
    make_run(store)
    put(store, True, (1, {"a": 1.0, "b": 1.0}), (2, {"a": 2.0}))
    put(store, False, (3, {"b": 3.0}), (1, {"a": 0.5}))
    assert store.series.latest(["run-1"], ["a", "b"]) == {"run-1": {"a": 2.0, "b": 3.0}}
    store.series.append("run-1", [(1, {"b": 9.0})], segment=1)
    for _ in range(2):
        assert store.series.latest(["run-1"], ["a", "b"]) == {"run-1": {"a": 2.0, "b": 9.0}}
        store.series.seal("run-1")


def test_the_run_table_has_latest_values_and_declared_configuration(training: Training) -> None:
    store = training.store
    training.log(*steps(1, 3, {"loss": 3.0, "acc": math.nan}))
    training.log(started(segment=1, config=scalars(optim__lr=0.5, tag="ü")), *steps(4, 4), segment=1)
    training.ship()
    make_run(store, "run-2")
    newer, older = store.runs.table("p")
    assert (newer.run.id, older.run.id) == ("run-2", "run-1")
    assert (newer.latest, newer.config) == ({}, {})
    assert older.config == {"optim.lr": 0.5, "tag": "ü"}
    assert older.latest["loss"] == 4.0
    assert math.isnan(older.latest["acc"])
    (only,) = store.runs.table("p", metrics=["loss"], keys=["tag"], before="run-2")
    assert (dict(only.latest), dict(only.config)) == ({"loss": 4.0}, {"tag": "ü"})


def test_pandas_frames_hold_the_same(store: Store) -> None:
    make_run(store)
    put(store, False, (1, {"a": math.inf}), (2, {"a": 2.0, "b": 0.1}))
    frame = store.series.read("run-1", "a").frame()
    assert frame.to_dict("list") == {"step": [1, 2], "segment": [0, 0], "value": [math.inf, 2.0]}
    wide = store.series.matrix("run-1", ["b", "a"]).frame()
    assert wide.index.tolist() == [1, 2]
    assert wide["b"].isna().tolist() == [True, False]


def test_an_append_is_stored_once_and_whole_or_not_at_all(store: Store) -> None:
    make_run(store)
    rows = [(5, {"a": 1.0, "b": math.nan}), (3, {"b": 2.0}), (4, {})]
    assert store.series.append("run-1", rows) == 3
    assert store.series.append("run-1", rows) == 0
    assert store.runs.get("run-1").last_step == 5
    store.series.seal("run-1")
    assert store.series.append("run-1", rows) == 0
    assert counts(store) == (0, 3)
    bad: list[tuple[object, object]] = [(6, {"a": "high"}), (6, {"x" * 501: 1.0}), (6, {"a\0": 1.0}), (6, {"": 1.0})]
    for step, named in [*bad, (1.5, {"a": 1.0}), (6, {"a": 10**400})]:
        with pytest.raises(UserInputError) as caught:
            store.series.append("run-1", [(7, {"a": 7.0}), (step, named)])  # type: ignore[list-item]
        assert caught.value.remedy
    assert counts(store) == (0, 3)
    with pytest.raises(NotFound):
        store.series.append("nowhere", rows)


def test_whole_series_are_written_as_chunks_and_only_what_is_present(store: Store) -> None:
    make_run(store)
    rng = np.random.default_rng(5)
    values, present = rng.normal(size=(3, 2500)), rng.random((3, 2500)) < 0.9
    matrix = SeriesMatrix(names=("c", "a", "b"), steps=np.arange(2500) * 2, values=values, present=present)
    assert store.series.write("run-1", matrix) == present.sum()
    assert store.series.write("run-1", matrix) == 0
    assert counts(store) == (0, present.sum())
    for row, name in enumerate(matrix.names):
        read = store.series.read("run-1", name)
        assert read.steps.tolist() == matrix.steps[present[row]].tolist()
        assert read.values.tobytes() == values[row][present[row]].tobytes()
    with pytest.raises(UserInputError, match="twice"):
        store.series.write("run-1", SeriesMatrix(names=("a", "a"), steps=matrix.steps[:1], values=values[:2, :1],
                                                 present=present[:2, :1]))  # fmt: skip


def test_a_tail_does_not_grow_without_end(store: Store) -> None:
    make_run(store)
    for start in range(1, 1101, 100):
        store.series.append("run-1", [(step, {"loss": float(step)}) for step in range(start, start + 100)])
    tail, sealed = counts(store)
    assert tail < 1024
    assert tail + sealed == 1100
    assert store.series.seal_waiting(min_frames=10_000) == 0
    assert store.series.seal_waiting(min_frames=1) == tail
    assert store.series.read("run-1", "loss").steps.tolist() == list(range(1, 1101))


def test_a_late_point_costs_its_own_chunk_only(store: Store, chunk_starts: Callable[[], list[int]]) -> None:
    make_run(store)
    numbers = np.arange(10_240, dtype=np.int64) * 2
    one = np.ones((1, len(numbers)))
    matrix = SeriesMatrix(names=("loss",), steps=numbers, values=one, present=one > 0)
    store.series.write("run-1", matrix)
    before = chunk_starts()
    put(store, True, (3, {"loss": 5.0}), (30_000, {"loss": 6.0}))
    after = chunk_starts()
    assert len(before) == 10
    assert before[1:] == [start for start in after if start in before[1:]]
    read = store.series.read("run-1", "loss")
    assert read.steps.tolist() == sorted([*numbers.tolist(), 3, 30_000])


@pytest.fixture
def chunk_starts(store: Store) -> Callable[[], list[int]]:
    import psycopg

    def read() -> list[int]:
        with psycopg.connect(store.url) as connection:
            return [row[0] for row in connection.execute("SELECT step_lo FROM chunk ORDER BY 1")]

    return read
