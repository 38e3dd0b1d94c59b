"""How fast foreign formats are read, against TensorBoard's own reader, and how much memory a 1 GB log takes.

`python -m benchmarks.importers --json`. Files are generated from a seed. Results are checked equal first; rounds are
interleaved; ratios are medians of paired rounds. Needs the extra `peer-tensorboard` (EventAccumulator) and wandb.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from context_store.importers import discover
from context_store.importers.crc32c import crc32c, masked
from context_store.importers.items import Columns

_TAGS, _STEPS = 50, 2000  # 100,000 points
_ROUNDS = 5
_GIGABYTE = 1_000_000_000
Series = dict[str, tuple[list[int], list[float]]]


# --- what the files hold


def write_events(folder: Path) -> Path:
    """An event file as torch's SummaryWriter writes it."""
    values = np.random.default_rng(0).normal(size=(_STEPS, _TAGS)).astype(np.float32)
    values[::97, 3], values[::101, 5] = np.nan, np.inf
    payloads = [b"\x09" + struct.pack("<d", 1.7e9) + _message(3, b"brain.Event:2")]
    for step in range(_STEPS):
        head = b"\x09" + struct.pack("<d", 1.7e9 + step) + (b"\x10" + _varint(step) if step else b"")
        for tag in range(_TAGS):
            name = f"grad_norm/layers.{tag}.mlp.down_proj".encode()
            value = _message(1, name) + b"\x15" + struct.pack("<f", values[step, tag])
            payloads.append(head + _message(5, _message(1, value)))
    path = folder / "events.out.tfevents.1700000000.host.1.0"
    path.write_bytes(_frames(payloads))
    return path


def _frames(payloads: list[bytes]) -> bytes:
    data = b"".join(payloads)
    lengths = np.array([len(each) for each in payloads], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    raw = np.frombuffer(data, np.uint8)
    heads = lengths.astype("<u8").tobytes()
    eights = np.arange(0, len(heads), 8, dtype=np.int64)
    head_crcs = masked(crc32c(np.frombuffer(heads, np.uint8), eights, np.full(len(eights), 8, np.int64)))
    crcs = masked(crc32c(raw, starts, lengths))
    return b"".join(
        heads[8 * i : 8 * i + 8] + struct.pack("<I", head_crcs[i]) + payload + struct.pack("<I", crcs[i])
        for i, payload in enumerate(payloads)
    )


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _message(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def write_wandb(folder: Path) -> Path:
    """An offline run written by wandb itself."""
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    code = f"""
import wandb
run = wandb.init(project="bench", settings=wandb.Settings(x_disable_stats=True, disable_git=True))
for step in range({_STEPS}):
    run.log({{f"grad_norm/layers.{{i}}": step / (i + 1) for i in range({_TAGS})}})
run.finish()
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder


def write_states(folder: Path) -> Path:
    """Checkpoints of one run: each repeats the history before it."""
    rows = [
        {"step": s, "loss": 5 / s, "grad_norm": 1.0 + 1 / s, "learning_rate": 1e-4, "epoch": s / 1e4}
        for s in range(1, 20_001)
    ]
    for step in (10_000, 20_000):
        (folder / f"checkpoint-{step}").mkdir()
        state = {"global_step": step, "max_steps": 20_000, "log_history": rows[:step]}
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
    return folder


def write_log(folder: Path, size: int) -> Path:
    """A Megatron log of that many bytes."""
    path = folder / "big.log"
    line = " iteration {:8d}/ 9000000 | consumed samples: {:12d} | elapsed time per iteration (ms): 812.5"
    line += " | learning rate: {:.3E} | global batch size:  2048 | lm loss: {:.6E} | loss scale: 1.0"
    line += " | grad norm: {:.3f} | num zeros: 0.0 |\n"
    with path.open("w") as file:
        step = written = 0
        while written < size:
            step += 1
            written += file.write(line.format(step, step * 2048, 1e-4, 2 + 1 / step, 1 + 1 / step))
    return path


# --- reading


def read(path: Path) -> Series:
    """Everything, by the names of the source."""
    found: Series = {}
    for each in discover(str(path))[0]:
        for item in each.format.read(each.source):
            for name, (steps, values) in item.columns.items() if isinstance(item, Columns) else ():
                column = found.setdefault(name, ([], []))
                column[0].extend(steps.tolist())
                column[1].extend(values.tolist())
    return found


def drain(path: Path) -> int:
    """Read everything and keep nothing; returns the number of points."""
    items = (item for each in discover(str(path))[0] for item in each.format.read(each.source))
    return sum(item.num_points for item in items if isinstance(item, Columns))


def read_by_tensorboard(path: Path) -> Series:
    try:
        from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise SystemExit("the peer is missing: pip install '.[peer-tensorboard]', then run this again") from None
    accumulator = event_accumulator.EventAccumulator(str(path), size_guidance={"scalars": 0})
    accumulator.Reload()
    found: Series = {}
    for tag in accumulator.Tags()["scalars"]:
        events = accumulator.Scalars(tag)
        found[tag] = ([event.step for event in events], [event.value for event in events])
    return found


def tfevents_ratio(folder: Path) -> dict[str, float]:
    path = write_events(folder)
    ours, theirs = read(path), read_by_tensorboard(path)
    if ours.keys() != theirs.keys() or not all(_equal(ours[name], theirs[name]) for name in ours):
        raise SystemExit("the readers disagree: nothing was measured")
    pairs = [(_seconds(lambda: drain(path)), _seconds(lambda: read_by_tensorboard(path))) for _ in range(_ROUNDS)]
    points = _TAGS * _STEPS
    return {
        "tfevents_x_eventaccumulator": statistics.median(b / a for a, b in pairs),
        "tfevents_points_per_s": points / statistics.median(a for a, _ in pairs),
        "eventaccumulator_points_per_s": points / statistics.median(b for _, b in pairs),
    }


def _equal(a: tuple[list[int], list[float]], b: tuple[list[int], list[float]]) -> bool:
    return a[0] == b[0] and bool(np.array_equal(np.array(a[1]), np.array(b[1]), equal_nan=True))


def points_per_s(path: Path) -> float:
    points = drain(path)
    return points / statistics.median(_seconds(lambda: drain(path)) for _ in range(_ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def memory_of_a_big_log(folder: Path, size: int) -> dict[str, float]:
    """Peak memory of a fresh process that reads the log, above that of one that only imports the reader."""
    path = write_log(folder, size)
    code = "import sys; from benchmarks.importers import peak; peak(sys.argv[1])"
    runs = [
        subprocess.run([sys.executable, "-c", code, each], capture_output=True, check=True) for each in ("", str(path))
    ]
    empty, full = (json.loads(run.stdout) for run in runs)
    return {
        "log_bytes": path.stat().st_size,
        "log_points": full["points"],
        "log_seconds": full["seconds"],
        "log_peak_mb": full["peak_mb"],
        "log_peak_mb_above_start": full["peak_mb"] - empty["peak_mb"],
    }


def peak(path: str) -> None:
    """Run in a process of its own."""
    began = time.perf_counter()
    points = drain(Path(path)) if path else 0
    status = Path("/proc/self/status").read_text()  # unlike ru_maxrss, without what the parent had before exec
    peak_mb = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]
    found = {"points": points, "seconds": time.perf_counter() - began, "peak_mb": peak_mb}
    sys.stdout.write(json.dumps(found))


def parts(log_bytes: int) -> Iterator[tuple[str, Callable[[Path], dict[str, float]]]]:
    yield "tfevents", tfevents_ratio
    yield "wandb", lambda folder: {"wandb_points_per_s": points_per_s(write_wandb(folder))}
    yield "hf", lambda folder: {"hf_points_per_s": points_per_s(write_states(folder))}
    yield "memory", lambda folder: memory_of_a_big_log(folder, log_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only the last line: one JSON object")
    parser.add_argument("--only", choices=["tfevents", "wandb", "hf", "memory"])
    parser.add_argument("--log-bytes", type=int, default=_GIGABYTE)
    arguments = parser.parse_args()
    results: dict[str, float] = {}
    for name, measure in parts(arguments.log_bytes):
        if arguments.only in (None, name):
            folder = Path(tempfile.mkdtemp(prefix="lathe-importers"))
            try:
                results |= measure(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            if not arguments.json:
                sys.stdout.write(f"{name}: {results}\n")
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
