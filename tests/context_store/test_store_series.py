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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_log import Training, counts, make_run, started, steps

from context_store import Store, points
from context_store.arrays import Points
from context_store.chunks import decode, encode, headers
from context_store.database import Database
from context_store.downsampling import keep_shape
from context_store.frames import SeriesSet, packed_values
from contracts.events import Metrics

ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_BEEF))[0]


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


@given(st.lists(st.tuples(st.integers(0, 2**40), st.floats()), min_size=1, max_size=50), st.integers(-(2**62), 2**62))
def test_chunk_payload_keeps_every_bit(logged: list[tuple[int, float]], first: int) -> None:
    """Of one stride and of any steps, also equal ones."""
    values = np.array([*(value for _, value in logged), ODD_NAN])
    strided = np.arange(len(values), dtype=np.int64) * 3 + first
    irregular = np.sort(np.array([0, *(step for step, _ in logged)], dtype=np.int64)) + first
    payloads = [payload for steps in (strided, irregular) for payload in encode(steps[None], values[None])]
    lengths, back_steps, back_values = decode(payloads)
    assert lengths.tolist() == [len(values)] * 2
    assert back_values.tobytes() == values.tobytes() * 2
    assert back_steps.tolist() == [*strided.tolist(), *irregular.tolist()]


def test_chunk_header_is_the_rollup_of_finite_values() -> None:
    steps, values = np.array([[3, 5, 9], [1, 2, 4]]), np.array([[math.nan, 2.0, -math.inf], [math.inf] * 3])
    head, nothing_finite = headers(steps, values)
    assert (head.step_lo, head.step_hi, head.n, head.min, head.max, head.sum) == (3, 9, 3, 2.0, 2.0, 2.0)
    assert (head.nan_count, head.pos_inf_count, head.neg_inf_count) == (1, 0, 1)
    assert nothing_finite.min is nothing_finite.max is nothing_finite.sum is None


@pytest.mark.parametrize("num_steps", [20, 300])
def test_replay_of_the_same_points_adds_no_row(training: Training, num_steps: int) -> None:
    """20 steps stay in the tail, 300 are sealed at once; and again once the tail is sealed."""
    training.log(*steps(1, num_steps))
    training.ship()
    for _ in range(2):
        before = counts(training.store)
        assert sum(before) == num_steps
        with psycopg.connect(training.store.url) as connection:
            connection.execute("DELETE FROM shipment")
        assert training.ship() == num_steps + 1
        assert counts(training.store) == before
        training.store.series.seal("run-1")
    read = training.store.series.read("run-1", "loss", view="full")
    assert read.values.tolist() == [float(step) for step in range(1, num_steps + 1)]


def test_steps_in_any_order_and_repeated_ones(training: Training) -> None:
    """The canonical view has the value that came last; the full view has every different one."""
    order = [5, 3, 9, 1, 3, 7]
    training.log(*(Metrics(step=step, values={"loss": step + i / 10}) for i, step in enumerate(order)))
    training.ship()
    for _ in range(2):
        read = training.store.series.read("run-1", "loss")
        assert read.steps.tolist() == [1, 3, 5, 7, 9]
        assert read.values.tolist() == [1.3, 3.4, 5.0, 7.5, 9.2]
        full = training.store.series.read("run-1", "loss", view="full")
        assert full.steps.tolist() == [1, 3, 3, 5, 7, 9]
        assert full.values.tolist() == [1.3, 3.1, 3.4, 5.0, 7.5, 9.2]
        assert training.store.series.matrix("run-1", ["loss"]).values.tolist() == [read.values.tolist()]
        training.store.series.seal("run-1")


def test_one_step_may_have_more_values_than_a_chunk_has_points(store: Store) -> None:
    make_run(store)
    for start in (0, 1500):
        store.series.append("run-1", [(0, {"loss": float(value)}) for value in range(start, start + 1500)])
    full = store.series.read("run-1", "loss", view="full")
    assert full.values.tolist() == [float(value) for value in range(3000)]
    assert store.series.read("run-1", "loss").values.tolist() == [2999.0]


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
    assert counts(training.store) == (0, 1502), "both values of step 10 are kept"


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


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_loads_and_seals_keeps_what_a_dictionary_keeps(
    training: Training, database: Database, data: st.DataObject
) -> None:
    """Random loads (small: tail, large: chunks; overlapping, repeated, two segments, three sets) and seals between."""
    expected: dict[tuple[int, int, int], dict[float, None]] = {}
    action = st.tuples(st.integers(0, 1), st.integers(0, 900), st.integers(1, 400), st.integers(1, 3))
    actions = data.draw(st.lists(action, max_size=8))
    with database.begin() as connection:
        for table in ("frame", "chunk", "latest", "tail"):
            connection.execute(sa.text(f"DELETE FROM {table}"))
    for action, (segment, first, length, stride) in enumerate(actions):
        numbers = np.arange(length, dtype=np.int64) * stride + first
        frames = [
            EVERY[action % 3].frame(step, packed_values([step + action / 100 + one for one in EVERY[action % 3].ids]))
            for step in data.draw(st.permutations(numbers.tolist()) if length < 50 else st.just(numbers.tolist()))
        ]
        with database.begin() as connection:
            points.append(connection, 1, segment, frames)
            if data.draw(st.booleans()):
                points.seal(connection, 1)
        for frame in frames:
            for one, value in zip(frame.series.ids.tolist(), frame.array().tolist(), strict=True):
                expected.setdefault((one, segment, frame.step), {})[value] = None
    wanted = [(*key, value) for key in sorted(expected) for value in expected[key]]
    with database.begin() as connection:
        found = points.read(connection, "run-1", [1, 2, 3])
        points.seal(connection, 1)
        sealed = points.read(connection, "run-1", [1, 2, 3])
        spans = connection.execute(
            sa.text("SELECT series_id, segment, step_lo, step_hi, n FROM chunk ORDER BY 1, 2, 3")
        ).all()
    assert rows_of(found) == rows_of(sealed) == wanted
    assert sum(span.n for span in spans) == len(wanted), "after sealing nothing is stored twice"
    overlaps = [a for a, b in itertools.pairwise(spans) if tuple(a[:2]) == tuple(b[:2]) and a.step_hi >= b.step_lo]
    assert overlaps == []


EVERY = (SeriesSet.of([1, 2]), SeriesSet.of([3, 1]), SeriesSet.of([2]))


def rows_of(batch: Points) -> list[tuple[int, int, int, float]]:
    columns = (batch.series, batch.segments, batch.steps, batch.values)
    return list(zip(*(column.tolist() for column in columns), strict=True))
