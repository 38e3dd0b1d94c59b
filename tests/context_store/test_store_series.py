"""Exact, idempotent series in any order, over both tiers. Shows R801-2.3 (storage side)."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from conftest import Training
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from training_log import started, steps

from context_store import Store, points
from context_store.chunks import decode, encode, header
from context_store.database import Database
from context_store.downsampling import keep_shape
from context_store.points import Points
from contracts.events import Metrics

ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_BEEF))[0]


def counts(store: Store) -> tuple[int, int]:
    """Stored rows of the two tiers."""
    with psycopg.connect(store.url) as connection:
        tail = connection.execute("SELECT count(*) FROM point").fetchone()
        sealed = connection.execute("SELECT coalesce(sum(n), 0) FROM chunk").fetchone()
    assert tail is not None
    assert sealed is not None
    return int(tail[0]), int(sealed[0])


def test_non_finite_values_and_all_bits_survive_both_tiers(training: Training) -> None:
    values = [1.0, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2]
    training.log(*(Metrics(step=i + 1, values={"loss": value}) for i, value in enumerate(values)))
    training.ship()
    for _ in range(2):
        read = training.store.series.read("run-1", "loss")
        assert read.values.tobytes() == np.array(values).tobytes()
        assert read.steps.tolist() == list(range(1, 9))
        training.store.series.seal("run-1")
    assert counts(training.store) == (0, 8)


@given(st.lists(st.floats(), min_size=1, max_size=50), st.integers(-(2**62), 2**62))
def test_chunk_payload_keeps_every_bit(values: list[float], first: int) -> None:
    array = np.array([*values, ODD_NAN])
    numbers = np.arange(len(array), dtype=np.int64) * 3 + first
    back_steps, back_values = decode(encode(numbers, array))
    assert back_values.tobytes() == array.tobytes()
    assert back_steps.tolist() == numbers.tolist()


def test_chunk_header_is_the_rollup_of_finite_values() -> None:
    head = header(np.array([3, 5, 9]), np.array([math.nan, 2.0, -math.inf]))
    assert (head.step_lo, head.step_hi, head.n, head.min, head.max, head.sum) == (3, 9, 3, 2.0, 2.0, 2.0)
    assert (head.nan_count, head.pos_inf_count, head.neg_inf_count) == (1, 0, 1)
    nothing_finite = header(np.array([1]), np.array([math.inf]))
    assert nothing_finite.min is nothing_finite.max is nothing_finite.sum is None


@pytest.mark.parametrize("num_steps", [20, 300])
def test_replay_of_the_same_points_changes_nothing(training: Training, num_steps: int) -> None:
    """20 points take the row path, 300 the direct chunk path."""
    training.log(*steps(1, num_steps))
    training.ship()
    before = counts(training.store)
    with psycopg.connect(training.store.url) as connection:
        connection.execute("DELETE FROM shipment")
    assert training.ship() == num_steps + 1
    read = training.store.series.read("run-1", "loss", view="full")
    assert read.values.tolist() == [float(step) for step in range(1, num_steps + 1)]
    training.store.series.seal("run-1")
    assert counts(training.store) == (0, num_steps)
    assert sum(before) == num_steps


def test_steps_in_any_order_and_repeated_ones(training: Training) -> None:
    order = [5, 3, 9, 1, 3, 7]
    training.log(*(Metrics(step=step, values={"loss": step + i / 10}) for i, step in enumerate(order)))
    training.ship()
    read = training.store.series.read("run-1", "loss")
    assert read.steps.tolist() == [1, 3, 5, 7, 9]
    assert read.values.tolist() == [1.3, 3.4, 5.0, 7.5, 9.2]


def test_late_points_between_sealed_ones_are_kept(training: Training) -> None:
    training.log(*(Metrics(step=step, values={"loss": float(step)}) for step in range(2, 3001, 2)))
    training.ship()
    training.store.series.seal("run-1")
    training.log(Metrics(step=7, values={"loss": 7.5}), Metrics(step=10, values={"loss": -10.0}))
    training.ship()
    for _ in range(2):
        read = training.store.series.read("run-1", "loss", lo=6, hi=10)
        assert list(zip(read.steps.tolist(), read.values.tolist(), strict=True)) == [
            (6, 6.0),
            (7, 7.5),
            (8, 8.0),
            (10, -10.0),
        ]
        training.store.series.seal("run-1")
    assert counts(training.store) == (0, 1501)


def test_a_resume_supersedes_but_does_not_erase(training: Training) -> None:
    training.log(*steps(1, 10))
    training.log(started(segment=1, start_step=6), segment=1)
    training.ship()
    store = training.store
    assert store.series.read("run-1", "loss").steps.tolist() == list(range(1, 11)), "a resume without steps hides none"
    training.log(*(Metrics(step=step, values={"loss": -1.0}) for step in (7, 8)), segment=1)
    training.ship()
    for _ in range(2):
        canonical = store.series.read("run-1", "loss")
        assert canonical.steps.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert canonical.segments.tolist() == [0] * 6 + [1] * 2
        full = store.series.read("run-1", "loss", view="full")
        assert full.steps.tolist() == [1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 10]
        assert full.values[full.segments == 0].tolist() == [float(step) for step in range(1, 11)]
        assert store.series.matrix("run-1", ["loss"]).values[0].tolist() == canonical.values.tolist()
        assert store.series.latest(["run-1"], ["loss"]) == {"run-1": {"loss": -1.0}}
        store.series.seal("run-1")
    assert store.runs.get("run-1").last_step == 8


def test_matrix_tells_missing_from_not_a_number(training: Training) -> None:
    training.log(
        Metrics(step=1, values={"a": 1.0, "b": math.nan}),
        Metrics(step=2, values={"a": 2.0}),
        Metrics(step=4, values={"b": 4.0}),
    )
    training.ship()
    matrix = training.store.series.matrix("run-1", ["b", "a", "unknown"])
    assert matrix.steps.tolist() == [1, 2, 4]
    assert matrix.present.tolist() == [[True, False, True], [True, True, False], [False, False, False]]
    np.testing.assert_array_equal(matrix.values[:2], [[math.nan, math.nan, 4.0], [1.0, 2.0, math.nan]])


def test_names_are_parsed_and_ordered_by_layer_and_expert(training: Training) -> None:
    names = ["loss", "max_vio/layers.10", "max_vio/layers.2", "max_vio", "lr/group.router"]
    names += ["expert_load/layers.1/experts.10", "expert_load/layers.1/experts.9"]
    training.log(Metrics(step=1, values=dict.fromkeys(names, 0.0)))
    training.ship()
    series = training.store.series
    assert series.names("run-1", statistic="max_vio") == ("max_vio", "max_vio/layers.2", "max_vio/layers.10")
    assert series.names("run-1", prefix="expert_load/layers.1/") == (
        "expert_load/layers.1/experts.9",
        "expert_load/layers.1/experts.10",
    )
    assert set(series.names("run-1")) == set(names)


def test_downsampling_keeps_a_one_step_spike_and_every_non_finite_point(training: Training) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=5000)
    values[3217] = 50.0
    for index, odd in ((11, math.nan), (12, math.nan), (2500, math.inf), (2501, -math.inf)):
        values[index] = odd
    training.log(*(Metrics(step=i + 1, values={"loss": float(value)}) for i, value in enumerate(values)))
    training.ship()
    small = training.store.series.downsample("run-1", "loss", buckets=50)
    assert len(small.steps) <= 4 * 50 + 4
    assert {12, 13, 2501, 2502, 3218, 1, 5000} <= set(small.steps.tolist())
    np.testing.assert_array_equal(small.values, values[small.steps - 1])
    again = training.store.series.downsample("run-1", "loss", buckets=50)
    assert again.steps.tolist() == small.steps.tolist()
    zoomed = training.store.series.downsample("run-1", "loss", buckets=50, lo=3200, hi=3300)
    assert zoomed.steps.tolist() == list(range(3200, 3301))


@given(st.lists(st.one_of(st.floats(), st.integers(-5, 5).map(float)), min_size=1, max_size=300), st.integers(1, 20))
def test_downsampling_keeps_extremes_of_every_bucket(values: list[float], buckets: int) -> None:
    numbers, array = np.arange(len(values), dtype=np.int64) * 7, np.array(values)
    kept = keep_shape(numbers, array, buckets)
    assert set(np.flatnonzero(~np.isfinite(array))) <= set(kept.tolist())
    assert {0, len(values) - 1} <= set(kept.tolist())
    finite = array[np.isfinite(array)]
    if len(finite):
        kept_values = array[kept]
        assert kept_values[np.isfinite(kept_values)].max() == finite.max()
        assert kept_values[np.isfinite(kept_values)].min() == finite.min()


def test_unknown_names_and_empty_runs_read_as_empty(training: Training) -> None:
    series = training.store.series
    training.ship()
    assert series.read("run-1", "loss").steps.tolist() == []
    assert series.matrix("run-1", ["loss"]).values.shape == (1, 0)
    assert series.downsample("run-1", "loss", buckets=10).values.tolist() == []
    assert series.latest(["run-1", "other"], ["loss"]) == {"run-1": {}, "other": {}}
    assert series.seal("run-1") == 0


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, clock=lambda: 0.0)
    yield opened
    opened.close()


def keys_of(batch: Points) -> list[tuple[int, int, int]]:
    return list(zip(batch.series.tolist(), batch.segments.tolist(), batch.steps.tolist(), strict=True))


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_loads_and_seals_keeps_what_a_dictionary_keeps(database: Database, data: st.DataObject) -> None:
    """Random loads (small: rows, large: chunks; overlapping, repeated, two segments) and seals in between."""
    expected: dict[tuple[int, int, int], float] = {}
    actions = data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 300), st.integers(1, 150)), max_size=8))
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM point"))
        connection.execute(sa.text("DELETE FROM chunk"))
    for number, (segment, first, length) in enumerate(actions):
        numbers: NDArray[np.int64] = np.arange(length, dtype=np.int64) * data.draw(st.integers(1, 3)) + first
        batch = Points(
            series=np.repeat(np.array([1, 2], dtype=np.int32), length),
            segments=np.full(2 * length, segment, np.int32),
            steps=np.tile(numbers, 2),
            values=np.tile(numbers, 2).astype(np.float64) + number / 100,
        )
        expected.update(zip(keys_of(batch), batch.values.tolist(), strict=True))
        with database.begin() as connection:
            points.write(connection, batch)
        if data.draw(st.booleans()):
            with database.begin() as connection:
                points.seal(connection, [1, 2])
    with database.begin() as connection:
        found = points.read(connection, [1, 2], None, None).newest()
        points.seal(connection, [1, 2])
        sealed = points.read(connection, [1, 2], None, None)
        chunk_spans = sa.text("SELECT series_id, segment, step_lo, step_hi FROM chunk ORDER BY 1, 2, 3")
        spans = connection.execute(chunk_spans).all()
    for read in (found, sealed.newest()):
        assert dict(zip(keys_of(read), read.values.tolist(), strict=True)) == expected
    assert len(sealed) == len(expected), "after sealing nothing is stored twice"
    overlaps = [a for a, b in itertools.pairwise(spans) if tuple(a[:2]) == tuple(b[:2]) and a.step_hi >= b.step_lo]
    assert overlaps == []
