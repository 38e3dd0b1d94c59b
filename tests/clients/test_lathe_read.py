"""lathe_read against a real API process: exact, read-only, with errors a person can act on."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import lathe_read
import numpy as np
import pytest
from elsewhere import CLIENTS, ApiProcess

from context_store import Store
from context_store.records import NewStream
from contracts.events import Effective, Event, Finished, Metrics, encode


@pytest.fixture
def lathe(api: ApiProcess, store: Store) -> lathe_read.Lathe:
    """Run `a` with two segments of a statistic over layers, and run `b` with another configuration."""
    for number, first in enumerate((1, 4)):
        _open(store, f"a{number}", "a", number, first - 1, {"lr": 0.1 * (number + 1), "same": "x"})
        others = {"max_vio/layers.0": 0.0, "max_vio/layers.1": math.inf}
        lines: list[Event] = [
            Metrics(step=step, values={"loss": step / 7 + number, **others}) for step in range(first, first + 6)
        ]
        lines += [Effective(step=first, values={"lr": 0.3}), Finished(step=9, reason="completed")]
        store.streams.append(f"a{number}", 0, b"".join(map(encode, lines)))
    _open(store, "b0", "b", 0, 0, {"lr": 0.1, "data.mixture.web": 0.5})
    store.streams.append("b0", 0, encode(Metrics(step=1, values={"max_vio/layers.2/experts.7@rank=3": math.nan})))
    api.start()
    return lathe_read.connect(api.url, api.token)


def _open(store: Store, stream: str, run: str, start: int, step: int, config: dict[str, float | str]) -> None:
    new = NewStream(
        id=stream, run_id=run, project_id="p", name=run, start=str(start), start_step=step, config=config, wall_time=1.0
    )
    store.streams.open(new)


def test_numbers_are_exact(lathe: lathe_read.Lathe) -> None:
    """Shows R801-2.2: per-layer statistics, by layer, in one request."""
    history = lathe.history("a", "loss")
    assert history["step"].tolist() == list(range(1, 10))
    assert history["value"].tolist() == [step / 7 + (step > 3) for step in range(1, 10)]
    assert history["segment"].tolist() == [0] * 3 + [1] * 6
    assert len(lathe.history("a", "loss", view="full")) == 12
    assert lathe.history("a", "loss", lo=2, hi=3)["step"].tolist() == [2, 3]
    layers = lathe.layers("a", "max_vio", lo=8)
    assert layers.columns.get_level_values("layer").tolist() == [0, 1]
    assert layers.index.tolist() == [8, 9]
    assert layers.to_numpy().tolist() == [[0.0, math.inf]] * 2
    columns = lathe.layers("b", "max_vio").columns.tolist()
    assert columns == [(2, 7, 3, "max_vio/layers.2/experts.7@rank=3")]
    assert lathe.layers("a", "max_vio", layer=1).columns.get_level_values("name").tolist() == ["max_vio/layers.1"]
    matrix = lathe.matrix("a", ["loss", "unknown"])
    np.testing.assert_array_equal(matrix["loss"], history["value"])
    assert matrix["unknown"].isna().all()
    assert lathe.downsampled("a", "max_vio/layers.1", buckets=2)["value"].tolist() == [math.inf] * 9


def test_around_changes_and_where_it_went_wrong(lathe: lathe_read.Lathe) -> None:
    found = lathe.around("a", ["loss", "max_vio/layers.0"], [4, 9], before=1, after=1)
    assert found.index.tolist() == [-1, 0, 1]
    assert found[("loss", 4)].tolist() == [3 / 7, 4 / 7 + 1, 5 / 7 + 1]
    assert found[("loss", 9)].isna().tolist() == [False, False, True]
    (row,) = lathe.first_non_finite("a").to_dict("records")
    assert row == {"name": "max_vio/layers.1", "layer": 1, "step": 1, "segment": 0, "value": math.inf}
    assert math.isnan(lathe.first_non_finite("b")["value"][0])
    table = lathe.table(metrics=["loss"], keys=["lr"]).set_index("id")
    assert table.loc["a", ["loss", "lr", "state"]].tolist() == [9 / 7 + 1, 0.2, "completed"]


def test_runs_config_timeline_and_differences(lathe: lathe_read.Lathe) -> None:
    assert set(lathe.runs().index) == {"a", "b"}
    assert len(lathe.runs(limit=1)) == 1
    assert lathe.runs(role="diagnostic").empty
    assert lathe.run("a")["run"]["state"] == "completed"
    assert lathe.names("a", "max_vio") == ["max_vio/layers.0", "max_vio/layers.1"]
    assert lathe.config("a", segment=0).loc["lr"].tolist() == [0.1, 0.3]
    assert {"config", "resume"} <= set(lathe.timeline("a")["kind"])
    rows = lathe.diff("a#0", "a").to_numpy().tolist()
    assert rows == [["config", "lr", 0.1, 0.2]]
    sections = lathe.diff("a", "b").set_index("key")["section"].to_dict()
    assert sections == {"lr": "config", "same": "config", "data.mixture.web": "mixture"}
    assert lathe.investigations().empty
    assert lathe.negatives("anything").empty


def test_errors_say_what_to_do(lathe: lathe_read.Lathe, api: ApiProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lathe_read.LatheReadError, match="no run 'nothing'; `lathe runs` lists"):
        lathe.history("nothing", "loss")
    with pytest.raises(lathe_read.LatheReadError, match="has no segment 7; choose one of: 0, 1"):
        lathe.config("a", segment=7)
    with pytest.raises(lathe_read.LatheReadError, match="no valid token"):
        lathe_read.connect(api.url, "wrong").runs()
    api.kill()
    with pytest.raises(lathe_read.LatheReadError, match="start it with `lathe up`"):
        lathe.runs()
    for variable in ("LATHE_API_URL", "LATHE_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LATHE_HOME", "/nowhere")
    with pytest.raises(lathe_read.LatheReadError, match="LATHE_API_URL"):
        lathe_read.connect()


def test_it_needs_nothing_of_lathe(lathe: lathe_read.Lathe, api: ApiProcess, tmp_path: Path) -> None:
    code = f"import sys, lathe_read; print(len(lathe_read.connect({api.url!r}, {api.token!r}).runs()))\n"
    code += "print([m for m in ('contracts', 'context_store', 'sqlalchemy') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    environment = {"PYTHONPATH": str(CLIENTS[1]), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["2", "[]"]
