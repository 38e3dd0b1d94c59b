"""One function a cell: it checks that all candidates hold the same, then lets them take turns.

Each returns the seconds of each candidate by round (a point for ingest, an operation for reads) and what else it found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.store_peers.lathe import Lathe
from benchmarks.store_peers.local_files import Trackio, WandbOffline
from benchmarks.store_peers.mlflow_store import MlflowStore
from benchmarks.store_peers.workload import Batch, Workload

Seconds = dict[str, list[float]]
BUCKETS = 320


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Steps and series at scale 1."""

    series: int = 1000
    live_steps: int = 300
    live_steps_mlflow: int = 6
    bulk_steps: int = 400
    bulk_points_mlflow: int = 20_000
    deep_points: int = 100_000
    scan_steps: int = 256
    runs: int = 500
    metrics: int = 50
    config: int = 30

    @classmethod
    def scaled(cls, scale: float) -> Sizes:
        return cls(
            series=max(20, round(cls.series * scale)),
            live_steps=max(20, round(cls.live_steps * scale)),
            live_steps_mlflow=max(2, round(cls.live_steps_mlflow * scale)),
            bulk_steps=max(20, round(cls.bulk_steps * scale)),
            bulk_points_mlflow=max(2000, round(cls.bulk_points_mlflow * scale)),
            deep_points=max(2000, round(cls.deep_points * scale)),
            scan_steps=max(20, round(cls.scan_steps * scale)),
            runs=max(10, round(cls.runs * scale)),
        )


@dataclass(frozen=True, kw_only=True)
class Bench:
    lathe: Lathe
    mlflow: MlflowStore
    trackio: Trackio
    wandb: WandbOffline
    workload: Workload
    sizes: Sizes
    rounds: int

    def turns(self, candidates: Mapping[str, Callable[[int], float]]) -> Seconds:
        """Every round runs all candidates, from a moving start; each returns its seconds."""
        names, seconds = list(candidates), {name: list[float]() for name in candidates}
        for number in range(self.rounds):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                seconds[name].append(candidates[name](number))
        return seconds


Cell = Callable[[Bench], tuple[Seconds, dict[str, float]]]


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def require_equal(what: str, *found: NDArray[np.float64]) -> None:
    """Bit for bit."""
    if any(one.shape != found[0].shape or one.tobytes() != found[0].tobytes() for one in found):
        raise AssertionError(f"{what}: the candidates do not hold the same")


def live_ingest(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """A training's steps, one commit each. Seconds a point."""
    sizes = bench.sizes

    def run(name: str, num_steps: int, log: Callable[[str, Batch], float]) -> Callable[[int], float]:
        def turn(number: int) -> float:
            batch = bench.workload.batch(sizes.series, num_steps)
            return log(f"live-{name}-{number}", batch) / batch.num_points

        return turn

    def lathe(run_id: str, batch: Batch) -> float:
        bench.lathe.new_run(run_id)
        rows = batch.rows()
        seconds = timed(lambda: bench.lathe.live(run_id, rows))
        require_equal("live, lathe", bench.lathe.history(run_id, batch.names[-1]), batch.values[-1])
        return seconds

    def mlflow(run_id: str, batch: Batch) -> float:
        bench.mlflow.new_run(run_id)
        rows = batch.rows()
        seconds = timed(lambda: bench.mlflow.live(run_id, rows))
        require_equal("live, mlflow", bench.mlflow.history(run_id, batch.names[-1]), batch.values[-1])
        return seconds

    def trackio(run_id: str, batch: Batch) -> float:
        seconds = bench.trackio.live(run_id, batch.rows())
        require_equal("live, trackio", bench.trackio.history(run_id, batch.names[-1]), batch.values[-1])
        return seconds

    candidates = {
        "lathe": run("lathe", sizes.live_steps, lathe),
        "mlflow": run("mlflow", sizes.live_steps_mlflow, mlflow),
        "trackio": run("trackio", sizes.live_steps, trackio),
        "wandb_offline": run("wandb", sizes.live_steps, lambda run_id, b: bench.wandb.live(run_id, b.rows())),
    }
    return bench.turns(candidates), {}


def bulk(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """A finished run at once. Seconds a point."""
    sizes = bench.sizes

    def lathe(number: int) -> float:
        batch, run_id = bench.workload.batch(sizes.series, sizes.bulk_steps), f"bulk-{number}"
        bench.lathe.new_run(run_id)
        seconds = timed(lambda: bench.lathe.bulk(run_id, batch))
        require_equal("bulk, lathe", bench.lathe.history(run_id, batch.names[7]), batch.values[7])
        return seconds / batch.num_points

    def mlflow(number: int) -> float:
        steps = min(2000, sizes.bulk_points_mlflow)
        batch, run_id = bench.workload.batch(sizes.bulk_points_mlflow // steps, steps), f"bulk-{number}"
        bench.mlflow.new_run(run_id)
        seconds = timed(lambda: bench.mlflow.bulk(run_id, batch))
        require_equal("bulk, mlflow", bench.mlflow.history(run_id, batch.names[0]), batch.values[0])
        return seconds / batch.num_points

    def trackio(number: int) -> float:
        batch, run_id = bench.workload.batch(sizes.series, sizes.bulk_steps), f"bulk-{number}"
        rows = batch.rows()
        seconds = timed(lambda: bench.trackio.bulk(run_id, rows))
        require_equal("bulk, trackio", bench.trackio.history(run_id, batch.names[7]), batch.values[7])
        return seconds / batch.num_points

    return bench.turns({"lathe": lathe, "mlflow": mlflow, "trackio": trackio}), {}


def replay(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """One step of all series again, from the hot tail, and (our own figure) after sealing: no new row."""
    batch, run_id = bench.workload.batch(bench.sizes.series, 2), "replay"
    rows = batch.rows()
    bench.mlflow.new_run(run_id)
    bench.mlflow.live(run_id, rows)
    bench.lathe.new_run(run_id)
    for row in rows:
        bench.lathe.append(run_id, row)
    before = bench.lathe.num_rows()
    again = {"lathe": lambda _: timed(lambda: bench.lathe.append(run_id, rows[0]))}
    live = bench.turns(again | {"mlflow": lambda _: timed(lambda: bench.mlflow.live(run_id, rows[:1]))})
    if bench.lathe.num_rows() != before:
        raise AssertionError("a replay added rows")
    bench.lathe.store.series.seal(run_id)
    before = bench.lathe.num_rows()
    sealed = bench.turns(again)
    if bench.lathe.num_rows() != before:
        raise AssertionError("a replay of sealed points added rows")
    ratios = [theirs / ours for ours, theirs in zip(sealed["lathe"], live["mlflow"], strict=True)]
    return live, {"replay_new_rows": 0.0, "replay_of_sealed_x_mlflow": float(np.median(ratios))}


def history(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """Every point of one long series."""
    batch = deep_run(bench)
    name = batch.names[0]
    require_equal("history", bench.lathe.history("deep", name), bench.mlflow.history("deep", name), batch.values[0])
    candidates = {
        "lathe": lambda _: timed(lambda: bench.lathe.history("deep", name)),
        "mlflow": lambda _: timed(lambda: bench.mlflow.history("deep", name)),
    }
    return bench.turns(candidates), downsample_ratio(bench, batch)


def deep_run(bench: Bench) -> Batch:
    """One long series in both stores."""
    batch = bench.workload.batch(1, bench.sizes.deep_points)
    bench.lathe.new_run("deep")
    bench.lathe.bulk("deep", batch)
    bench.mlflow.new_run("deep")
    bench.mlflow.bulk("deep", batch)
    return batch


def downsample_ratio(bench: Bench, batch: Batch) -> dict[str, float]:
    """Both give points of the series with its ends; only ours must have the extremes."""
    name, values = batch.names[0], batch.values[0]
    last = int(batch.steps[-1])
    steps, kept = bench.lathe.downsample("deep", name, BUCKETS)
    their_steps, their_values = bench.mlflow.downsample("deep", name, BUCKETS, last)
    require_equal("downsample, lathe", kept, values[steps - 1])
    require_equal("downsample, mlflow", np.array(their_values), values[np.array(their_steps) - 1])
    if not (kept.min() == values.min() and kept.max() == values.max() and steps[-1] == their_steps[-1] == last):
        raise AssertionError("downsampling lost an extreme or an end")
    seconds = bench.turns(
        {
            "lathe": lambda _: timed(lambda: bench.lathe.downsample("deep", name, BUCKETS)),
            "mlflow": lambda _: timed(lambda: bench.mlflow.downsample("deep", name, BUCKETS, last)),
        }
    )
    ratios = [theirs / ours for ours, theirs in zip(seconds["lathe"], seconds["mlflow"], strict=True)]
    return {
        "downsample_x_mlflow": float(np.median(ratios)),
        "downsample_s": float(np.median(seconds["lathe"])),
        "downsample_s_mlflow": float(np.median(seconds["mlflow"])),
    }


def layer_scan(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """One statistic of all layers at all steps; in MLflow a call a series. Also: bytes a point."""
    batch = bench.workload.batch(bench.sizes.series, bench.sizes.scan_steps)
    found = bytes_a_point(bench, batch)
    require_equal("scan", bench.lathe.scan("scan", batch.names), bench.mlflow.scan("scan", batch.names), batch.values)
    candidates = {
        "lathe": lambda _: timed(lambda: bench.lathe.scan("scan", batch.names)),
        "mlflow": lambda _: timed(lambda: bench.mlflow.scan("scan", batch.names)),
    }
    return bench.turns(candidates), found


def bytes_a_point(bench: Bench, batch: Batch) -> dict[str, float]:
    """What the scan's run takes on disk with indexes, ours sealed, Postgres vacuumed. It is one more in each table."""
    before = bench.lathe.size_bytes(), bench.mlflow.size_bytes()
    bench.lathe.new_run("scan")
    bench.lathe.live("scan", batch.rows())
    bench.mlflow.new_run("scan")
    bench.mlflow.copy_in("scan", batch)
    bench.trackio.bulk("scan", batch.rows())
    ours = (bench.lathe.size_bytes() - before[0]) / batch.num_points
    mlflow = (bench.mlflow.size_bytes() - before[1]) / batch.num_points
    trackio = bench.trackio.size_bytes("scan") / batch.num_points
    return {
        "bytes_x_mlflow": ours / mlflow,
        "bytes_x_trackio": ours / trackio,
        "bytes_a_point": ours,
        "bytes_a_point_mlflow": mlflow,
        "bytes_a_point_trackio": trackio,
    }


def one_series(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """One series of the scan's run."""
    name = f"grad_norm/layers.{bench.sizes.series // 20}.m0"
    require_equal("one series", bench.lathe.history("scan", name), bench.trackio.history("scan", name))
    candidates = {
        "lathe": lambda _: timed(lambda: bench.lathe.history("scan", name)),
        "trackio": lambda _: timed(lambda: bench.trackio.history("scan", name)),
    }
    return bench.turns(candidates), {}


def list_runs(bench: Bench) -> tuple[Seconds, dict[str, float]]:
    """A page of runs with their latest values and configuration."""
    sizes = bench.sizes
    values = bench.workload.batch(sizes.runs, sizes.metrics + sizes.config).values
    for index, row in enumerate(values.tolist()):
        metrics = {f"metric_{i}": value for i, value in enumerate(row[: sizes.metrics])}
        config = {f"config_{i}": value for i, value in enumerate(row[sizes.metrics :])}
        bench.lathe.list_run(f"listed-{index}", metrics, config)
        bench.mlflow.list_run(f"listed-{index}", metrics, config)
    if bench.lathe.runs(sizes.runs) != bench.mlflow.runs(sizes.runs):
        raise AssertionError("the lists of runs differ")
    candidates = {
        "lathe": lambda _: timed(lambda: bench.lathe.runs(sizes.runs)),
        "mlflow": lambda _: timed(lambda: bench.mlflow.runs(sizes.runs)),
    }
    return bench.turns(candidates), {}


CELLS: dict[str, Cell] = {
    "live_ingest": live_ingest,
    "bulk": bulk,
    "replay": replay,
    "history": history,
    "layer_scan": layer_scan,
    "one_series": one_series,
    "list_runs": list_runs,
}
