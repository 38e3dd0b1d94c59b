"""Event files: frames, all forms of a scalar, torn and damaged records, and what further files of a folder are."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
from import_writers import crc32c as plain_crc32c
from import_writers import message, read_all, text, tf_event, tf_file, tf_frame, tf_scalar, tf_tensor

from context_store.importers.crc32c import crc32c


def scalars(steps: range, wall: float, tags: tuple[str, ...] = ("train/loss", "train/grad_norm")) -> list[bytes]:
    return [tf_event(wall + s / 100, s, tf_scalar(tag, 5 - s / 100)) for s in steps for tag in tags]


def test_crc32c_is_that_of_the_standard() -> None:
    data = np.random.default_rng(1).integers(0, 256, 9000, dtype=np.uint8)
    starts = np.array([0, 3, 100, 17, 0, 1000, 5], np.int64)
    lengths = np.array([0, 1, 8, 1023, 1024, 1025, 8000], np.int64)
    expected = [plain_crc32c(data[s : s + n].tobytes()) for s, n in zip(starts, lengths, strict=True)]
    assert crc32c(data, starts, lengths).tolist() == expected
    check = np.frombuffer(b"123456789", np.uint8)
    assert crc32c(check, np.array([0]), np.array([9]))[0] == 0xE3069283


def test_every_form_of_a_scalar(tmp_path: Path) -> None:
    long_tag = "grad_norm/" + "layers.1." * 20 + "w"
    events = [
        tf_event(1.5, 0, tf_scalar("loss", math.nan)),
        tf_event(2.5, 300, tf_scalar("loss", math.inf)),
        tf_event(3.5, 2**40, tf_scalar("loss", -math.inf)),
        tf_event(3.6, 7, tf_tensor("eval/loss", 2.5)),
        tf_event(3.7, 8, tf_scalar(long_tag, 1.25)),
        tf_event(3.8, 9, message(5, b"".join(message(1, text(1, t) + b"\x15" + struct.pack("<f", 3.0)) for t in "ab"))),
        tf_event(3.9, 9, message(5, message(1, text(1, "picture") + message(4, b"\x08\x10" * 900)))),
    ]
    (run,) = read_all(tf_file(tmp_path / "run", 100, events)).runs
    found = {key: values for part in run.parts for key, values in part.points.items()}
    assert math.isnan(found["loss", 0][0])
    assert found["loss", 300] == [math.inf]
    assert found["loss", 2**40] == [-math.inf]
    assert found["eval/loss", 7] == [2.5]
    assert found[long_tag, 8] == [1.25]
    assert found["a", 9] == found["b", 9] == [3.0]


def test_hyperparameters_and_text_become_configuration(tmp_path: Path) -> None:
    pair = message(1, text(1, "lr") + message(2, b"\x11" + struct.pack("<d", 0.5)))
    plugin = message(9, message(1, text(1, "hparams") + message(2, message(3, pair))))
    tensor = b"\x08\x07" + message(2, message(2, b"\x08\x01")) + message(8, json.dumps({"seed": 3}).encode())
    args = message(1, text(1, "args/text_summary") + message(8, tensor) + message(9, message(1, text(1, "text"))))
    events = [
        tf_event(1.0, 0, message(5, message(1, text(1, "_hparams_/session_start_info") + plugin))),
        tf_event(1.0, 0, message(5, args)),
        *scalars(range(1, 5), 2.0),
    ]
    (run,) = read_all(tf_file(tmp_path / "run", 100, events)).runs
    assert run.parts[0].found.config == {"lr": 0.5, "seed": 3}
    assert run.parts[0].found.seed == 3


def test_a_restart_keeps_the_overlap(tmp_path: Path) -> None:
    tf_file(tmp_path / "run", 100, scalars(range(0, 351, 10), 100.0))
    tf_file(tmp_path / "run", 200, scalars(range(300, 601, 10), 200.0))
    (run,) = read_all(tmp_path).runs
    assert [part.found.start_step for part in run.parts] == [0, 299]
    assert [part.found.started_at for part in run.parts] == [100.0, 203.0]
    assert len(run.parts[0].series("train/loss")) == 36
    assert len(run.parts[1].series("train/loss")) == 31


def test_a_parallel_writer_and_a_later_evaluation_are_no_restarts(tmp_path: Path) -> None:
    tf_file(tmp_path / "run", 100, scalars(range(0, 100, 10), 100.0))
    tf_file(tmp_path / "run", 101, scalars(range(0, 100, 50), 100.5, ("system/gpu",)))
    tf_file(tmp_path / "run", 500, scalars(range(0, 100, 50), 500.0, ("eval/loss",)))
    (run,) = read_all(tmp_path).runs
    (part,) = run.parts
    assert len(part.series("train/loss")) == 10
    assert len(part.series("eval/loss")) == len(part.series("system/gpu")) == 2


def test_a_run_that_begins_again_is_another_run(tmp_path: Path) -> None:
    tf_file(tmp_path / "run", 100, scalars(range(0, 100, 10), 100.0))
    tf_file(tmp_path / "run", 200, scalars(range(0, 50, 10), 200.0))
    runs = read_all(tmp_path).runs
    assert [run.found.name for run in runs] == ["run", "run-2"]


def test_a_clock_that_goes_back_inside_a_file(tmp_path: Path) -> None:
    events = scalars(range(0, 60, 10), 100.0) + scalars(range(40, 90, 10), 200.0)
    (run,) = read_all(tf_file(tmp_path / "run", 100, events)).runs
    assert [part.found.start_step for part in run.parts] == [0, 39]
    assert sorted(run.parts[1].series("train/grad_norm")) == [40, 50, 60, 70, 80]


def test_keras_folders_are_one_run(tmp_path: Path) -> None:
    tf_file(tmp_path / "run" / "train", 100, scalars(range(5), 100.0, ("epoch_loss",)))
    tf_file(tmp_path / "run" / "validation", 100, scalars(range(5), 100.1, ("epoch_loss",)))
    (run,) = read_all(tmp_path).runs
    assert len(run.parts[0].series("train/epoch_loss")) == len(run.parts[0].series("eval/epoch_loss")) == 5


def test_a_torn_end_and_damaged_records(tmp_path: Path) -> None:
    path = tf_file(tmp_path / "run", 100, scalars(range(20), 100.0, ("loss",)))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    content = read_all(path)
    assert len(content.runs[0].parts[0].series("loss")) == 19
    assert "torn" in content.problems[0].what
    frame = len(tf_frame(scalars(range(1, 2), 100.0, ("loss",))[0]))
    damaged = bytearray(whole)
    damaged[-3 * frame + 20] ^= 1  # a payload
    path.write_bytes(damaged)
    content = read_all(path)
    assert sorted(set(range(20)) - set(content.runs[0].parts[0].series("loss"))) == [17]
    assert content.problems[0].position == f"byte {len(whole) - 3 * frame}"
    damaged[-5 * frame] ^= 1  # a length: what follows is found again
    path.write_bytes(damaged)
    content = read_all(path)
    assert sorted(set(range(20)) - set(content.runs[0].parts[0].series("loss"))) == [15, 17]
    assert any(problem.position == f"byte {len(whole) - 5 * frame}" for problem in content.problems)


def test_an_empty_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.a").write_bytes(b"")
    assert read_all(tmp_path).runs == []
