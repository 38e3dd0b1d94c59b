"""A training of some lines for benchmarks about the machinery: it becomes `trainer/child.py` of a project.

It reads `recipe.py` and `notes.py` of the project, logs series whose values follow from (seed, step, code), saves a
checkpoint every 10 steps, goes on in its segment after a crash, and knows all wishes of contracts.backend.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import runpy
import signal
import sys
import time
from pathlib import Path

from contracts.backend import CHECKPOINT_GRANTED, CHECKPOINT_WISH, PAUSE_GRANTED, PAUSE_WISH, Launch
from contracts.events import (
    CheckpointSaved,
    CodeExecuted,
    DataRead,
    Event,
    Finished,
    Metrics,
    SegmentStarted,
    encode,
    read_events,
    segment_folder,
)

MODULES = ("recipe.py", "notes.py")
LAYERS = 4
STOPPED: list[int] = []


def main(launch: Launch) -> None:
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(1))
    code = {name: runpy.run_path(name) for name in MODULES}
    config = {"num_steps": 60, "step_s": 0.002, "scale": code["recipe.py"]["SCALE"], **launch.overrides}
    folder = segment_folder(launch.folder, launch.segment)
    log = folder / "events.log"
    cut_torn_tail(log)
    found = [read.event for read in read_events(log)] if log.exists() else []
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start = int(Path(launch.start_checkpoint).name.removeprefix("step-")) if launch.start_checkpoint else 0
    step = max([start, *(event.step for event in found if isinstance(event, CheckpointSaved))])
    if not found:
        write(file, started(launch, start, config))
        write(file, executed(start))
    end = launch.max_step or int(config["num_steps"])
    while step < end and not STOPPED:
        step += 1
        write(file, Metrics(step=step, values=values(launch.seed or 0, step, start, float(config["scale"]))))
        write(file, DataRead(step=step, sample_hash=f"{step:08x}", position=step * 8))
        if step % 10 == 0 or (folder / CHECKPOINT_WISH).exists() or (folder / PAUSE_WISH).exists():
            write(file, checkpoint(launch, step))
        fulfil_wishes(folder)
        time.sleep(float(config["step_s"]))
    if STOPPED:
        write(file, checkpoint(launch, step))
    write(file, Finished(step=step, reason="stopped" if STOPPED else "completed"))


def write(file: int, event: Event) -> None:
    os.write(file, encode(event))


def cut_torn_tail(log: Path) -> None:
    if log.exists():
        content = log.read_bytes()
        os.truncate(log, content.rfind(b"\n") + 1)


def started(launch: Launch, start: int, config: dict[str, object]) -> SegmentStarted:
    return SegmentStarted(
        run_id=launch.run_id, segment=launch.segment, start_step=start, code_version=launch.code_version,
        seed=launch.seed or 0, dp_size=1, start_checkpoint=launch.start_checkpoint, config=config,  # type: ignore[arg-type]
        environment={"python": "3"}, wall_time=0.0,
    )  # fmt: skip


def executed(start: int) -> CodeExecuted:
    texts = {name: Path(name).read_bytes() for name in MODULES}
    hashes = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    lines = {name: list(range(1, text.count(b"\n") + 1)) for name, text in texts.items()}
    return CodeExecuted(step=start + 2, modules=hashes, lines=lines)


def values(seed: int, step: int, start: int, scale: float) -> dict[str, float]:
    """The balance losses and the loss follow `scale`; all of them scatter with seed, step and code."""
    noise = random.Random(f"{seed}/{step}/{scale}")
    layers = {f"balance_loss/layers.{layer}": scale * (1.0 + 0.02 * noise.gauss(0, 1)) for layer in range(LAYERS)}
    lm_loss = 2.0 + 3.0 * math.exp(-step / 30.0) + 0.5 * (scale - 1.0) + 0.02 * noise.gauss(0, 1)
    balance = sum(layers.values()) / LAYERS
    return {
        **layers,
        "balance_loss": balance,
        "lm_loss": lm_loss,
        "loss": lm_loss + 0.1 * balance,
        "grad_norm": (1.0 + 0.3 * (scale - 1.0)) * math.exp(0.1 * noise.gauss(0, 1)),
    }


def checkpoint(launch: Launch, step: int) -> CheckpointSaved:
    folder = launch.folder / "checkpoints" / f"step-{step:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    content = f"weights after {step} steps".encode()
    (folder / "state").write_bytes(content)
    return CheckpointSaved(
        step=step, path=str(folder), sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
    )


def fulfil_wishes(folder: Path) -> None:
    if (folder / CHECKPOINT_WISH).exists():
        (folder / CHECKPOINT_WISH).replace(folder / CHECKPOINT_GRANTED)
    while (folder / PAUSE_WISH).exists() and not STOPPED:
        (folder / PAUSE_GRANTED).touch()
        time.sleep(0.02)
    (folder / PAUSE_GRANTED).unlink(missing_ok=True)


if __name__ == "__main__":
    main(Launch.from_json(Path(sys.argv[1]).read_text()))
