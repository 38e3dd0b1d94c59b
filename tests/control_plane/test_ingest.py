"""Logs of trainings elsewhere over HTTP: exact, exactly once, checked at the door."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from typing import Any

import numpy as np
import pytest
import zstandard
from fastapi.testclient import TestClient

from context_store import Store
from contracts.enums import Role, RunState, TimelineKind
from contracts.events import Effective, Finished, Metrics, SegmentStarted, encode
from control_plane.api.app import create_app
from control_plane.api.guards import MAX_INGEST_BYTES
from control_plane.api.routes.ingest import MAX_PIECE_BYTES

PROBLEM = "application/problem+json"
STREAM = {"id": "s0", "run_id": "r1", "project_id": "p", "start": "launch-1", "wall_time": 1e9}


class Sender:
    """A researcher's client with the log of stream `s0`."""

    def __init__(self, store: Store) -> None:
        self.http = TestClient(create_app(store), base_url="http://127.0.0.1", raise_server_exceptions=False)
        self.http.headers["Authorization"] = f"Bearer {store.tokens.create('r', Role.RESEARCHER)}"

    def open(self, **more: Any) -> dict[str, Any]:
        answer = self.http.post("/api/v1/ingest/streams", json=STREAM | more)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def send(self, offset: int, data: bytes, stream: str = "s0", **headers: str) -> Any:
        return self.http.post(f"/api/v1/ingest/streams/{stream}?offset={offset}", content=data, headers=headers)


@pytest.fixture
def sender(store: Store) -> Sender:
    return Sender(store)


def line(body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def note(**more: Any) -> bytes:
    fields = {"kind": "note", "step": 2, "what": "data", "title": "new mixture", "detail": {"web": 0.5}}
    return line(fields | {"wall_time": 1e9} | more)


def loss(store: Store, run: str = "r1") -> list[tuple[int, int, float]]:
    data = store.series.read(run, "loss", view="full")
    return list(zip(data.steps.tolist(), data.segments.tolist(), data.values.tolist(), strict=True))


def test_values_arrive_exactly(sender: Sender, store: Store) -> None:
    """Shows R801-2.3: every float64, NaN and both infinities, under names of the whole grammar."""
    values = {"loss": math.nan, "grad_norm/layers.3": math.inf, "a": -math.inf, "b": -0.0, "c": 0.1 + 0.2, "d": 5e-324}
    sender.open(config={"optim.lr": 1e-4, "note": "x"}, name="first", environment={"python": "3.9"})
    answer = sender.send(0, encode(Metrics(step=1, values=values)))
    assert answer.status_code == 200, answer.text
    found = store.series.matrix("r1", list(values)).values[:, 0]
    np.testing.assert_array_equal(found, list(values.values()))
    assert math.copysign(1, found[3]) == -1
    assert store.runs.declared("r1", 0) == {"optim.lr": 1e-4, "note": "x"}
    assert store.runs.get("r1").state == RunState.RUNNING


def test_anything_sent_again_changes_nothing(sender: Sender, store: Store) -> None:
    """Also an old piece that comes late, after a newer one replaced its values."""
    sender.open()
    first = encode(Metrics(step=1, values={"loss": 1.0})) + note()
    second = encode(Metrics(step=1, values={"loss": 2.0})) + encode(Metrics(step=2, values={"loss": 3.0}))
    assert sender.send(0, first).json() == {"offset": len(first)}
    both = len(first) + len(second)
    assert sender.send(0, first + second).json() == {"offset": both}, "what is known is skipped"
    for _ in range(3):
        assert sender.send(0, first).json() == {"offset": both}
        assert sender.send(len(first), second).json() == {"offset": both}
    assert sender.open() == {"run": "r1", "segment": 0, "offset": both}
    assert loss(store) == [(1, 0, 1.0), (1, 0, 2.0), (2, 0, 3.0)]
    assert store.series.read("r1", "loss").values.tolist() == [2.0, 3.0], "the newer piece counts"
    (event,) = store.timeline.list("r1", kinds=[TimelineKind.DATA])
    assert (event.title, event.step, event.detail) == ("new mixture", 2, {"web": 0.5})


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_pieces_may_be_compressed(sender: Sender, store: Store, encoding: str) -> None:
    sender.open()
    data = b"".join(encode(Metrics(step=step, values={"loss": step / 7})) for step in range(1, 50))
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "identity": bytes}[encoding](data)
    assert sender.send(0, packed, **{"Content-Encoding": encoding}).json() == {"offset": len(data)}
    assert [value for _, _, value in loss(store)] == [step / 7 for step in range(1, 50)]


def test_ranks_share_a_segment_and_another_start_is_the_next_one(sender: Sender, store: Store) -> None:
    assert sender.open(id="a", rank=1, world_size=2, environment={"host": "one"})["segment"] == 0
    assert sender.open(id="b", rank=0, world_size=2, environment={"host": "zero"})["segment"] == 0
    assert sender.open(id="c", start="launch-2", start_step=5)["segment"] == 1
    assert [s.environment["host"] for s in store.runs.segments("r1")[:1]] == ["zero"]
    sender.send(0, encode(Finished(step=1, reason="failed")), stream="a")
    assert store.runs.segments("r1")[0].end_reason == "", "rank 0 says how it ended"
    for step in range(1, 9):
        sender.send(10**6 * step, encode(Metrics(step=step, values={"loss": 1.0})), stream="b")
    sender.send(0, encode(Metrics(step=6, values={"loss": 2.0})), stream="c")
    canonical = store.series.read("r1", "loss")
    assert canonical.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert canonical.segments.tolist() == [0, 0, 0, 0, 0, 1]


def test_the_end_of_rank_0_ends_the_run_and_seals_it(sender: Sender, store: Store) -> None:
    sender.open()
    data = encode(Effective(step=0, values={"lr": 0.5})) + encode(Metrics(step=1, values={"loss": 1.0}))
    sender.send(0, data + encode(Finished(step=1, reason="completed")))
    assert store.runs.get("r1").state == RunState.COMPLETED
    assert store.series.seal("r1") == 0, "sealed already"
    assert loss(store) == [(1, 0, 1.0)]
    assert store.runs.effective("r1", 0) == {"lr": 0.5}


@pytest.mark.parametrize(
    "bad",
    [
        b"torn",
        encode(Metrics(step=1, values={"loss": 1.0}))[:-1],
        encode(Metrics(step=1, values={"loss": 1.0})).replace(b"1.0", b"2.0"),
        line({"kind": "metrics", "step": 1, "values": {"loss": "high"}}),
        line({"kind": "metrics", "step": 1, "values": {"loss": None}}),
        line({"kind": "metrics", "step": 1.5, "values": {"loss": 1.0}}),
        line({"kind": "metrics", "step": 2**63, "values": {"loss": 1.0}}),
        line({"kind": "metrics", "step": 1, "values": {"loss": 10**400}}),
        line({"kind": "metrics", "step": 1, "values": {"x" * 501: 1.0}}),
        line({"kind": "metrics", "step": 1, "values": {"a\0b": 1.0}}),
        line({"kind": "metrics", "step": 1, "values": {"\ud800": 1.0}}),
        line({"kind": "metrics", "step": 1, "values": {}, "more": 1}),
        line({"kind": "effective", "step": 1, "values": {"a": {"b": 1}}}),
        line({"kind": "surprise", "step": 1}),
        line([1, 2]),
        note(what="approval"),
        note(title="a\0b"),
        encode(SegmentStarted(run_id="r1", segment=0, start_step=0, code_version="", seed=0, dp_size=1,
                              start_checkpoint="", config={}, environment={}, wall_time=0.0)),
    ],
)  # fmt: skip
def test_a_line_no_training_writes_is_refused_with_its_place(sender: Sender, store: Store, bad: bytes) -> None:
    """All or nothing: the good line before it is not kept either, so sending again without the bad one is exact."""
    sender.open()
    good = encode(Metrics(step=7, values={"loss": 1.0}))
    answer = sender.send(0, good + bad)
    assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM), answer.text
    assert f"stream s0 at byte {len(good)}" in answer.json()["detail"]
    assert loss(store) == []
    assert sender.send(0, good).json() == {"offset": len(good)}


def test_too_much_at_once_is_refused_before_it_is_unpacked(sender: Sender) -> None:
    sender.open()
    large = sender.send(0, b" " * (MAX_INGEST_BYTES + 1))
    bomb = sender.send(0, gzip.compress(b" " * (MAX_PIECE_BYTES * 8)), **{"Content-Encoding": "gzip"})
    for answer in (large, bomb):
        assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)
        assert str(MAX_PIECE_BYTES) in answer.json()["detail"]
        assert answer.json()["remedy"] == "send less at once"
    for encoding in ("gzip", "zstd", "br"):
        broken = sender.send(0, b"nonsense", **{"Content-Encoding": encoding})
        assert (broken.status_code, broken.headers["content-type"]) == (400, PROBLEM)


def test_only_researchers_write_and_only_what_is_theirs(sender: Sender, store: Store) -> None:
    viewer = {"Authorization": f"Bearer {store.tokens.create('v', Role.VIEWER)}"}
    assert sender.http.post("/api/v1/ingest/streams", json=STREAM, headers=viewer).status_code == 403
    sender.open()
    assert sender.http.post("/api/v1/ingest/streams/s0?offset=0", content=b"", headers=viewer).status_code == 403
    assert sender.send(0, b"", stream="unknown").status_code == 404
    for field, value in {"run_id": "../r", "rank": -1, "start_step": -1, "surprise": 1}.items():
        assert sender.http.post("/api/v1/ingest/streams", json=STREAM | {field: value}).status_code == 422
    stolen = sender.http.post("/api/v1/ingest/streams", json=STREAM | {"run_id": "other"})
    assert (stolen.status_code, "rank 0 of run r1" in stolen.json()["detail"]) == (400, True)


def test_a_run_that_lathe_trains_is_not_written_by_others(sender: Sender, store: Store) -> None:
    from context_store.records import NewRun, Project
    from contracts.enums import RunRole

    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id="ours", project_id="p", name="", role=RunRole.TRAINING, folder="/runs/ours"))
    answer = sender.http.post("/api/v1/ingest/streams", json=STREAM | {"run_id": "ours"})
    assert (answer.status_code, "trained by Lathe itself" in answer.json()["detail"]) == (400, True)
    assert store.projects.get("p").path == "/p", "a known project stays as it is"


def test_a_run_from_elsewhere_is_looked_at_like_any_other(sender: Sender, store: Store) -> None:
    sender.open()
    lines = [Metrics(step=step, values={"lm_loss": 4.0 - step / 500}) for step in range(1, 101)]
    sender.send(0, b"".join(map(encode, [*lines, Finished(step=100, reason="completed")])))
    answer = sender.http.post("/api/v1/investigations", json={"run_id": "r1"})
    assert answer.json() == {"investigation": None, "sentence": "nothing wrong found in run r1"}
