"""A training of fifty lines for tests that are about the machinery: standard library only, same run folder.

Copied into a project as `trainer/child.py`, which shadows Lathe's trainer there. It counts steps, saves a checkpoint
every 10 steps, goes on in its segment after a crash and stops on SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import signal
import sys
import time
from pathlib import Path

from contracts.backend import CHECKPOINT_GRANTED, CHECKPOINT_WISH, PAUSE_GRANTED, PAUSE_WISH, Launch
from contracts.events import (
    CheckpointSaved,
    DataRead,
    Event,
    Finished,
    Metrics,
    SegmentStarted,
    encode,
    read_events,
    segment_folder,
)

STOPPED: list[int] = []


def main(launch: Launch) -> None:
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(1))
    recipe = runpy.run_path("recipe.py")
    config = {"num_steps": 30, "step_s": 0.002, "slope": recipe["SLOPE"], **launch.overrides}
    log = segment_folder(launch.folder, launch.segment) / "events.log"
    fresh = not log.exists()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(event: Event) -> None:
        os.write(file, encode(event))

    start = int(Path(launch.start_checkpoint).name.removeprefix("step-")) if launch.start_checkpoint else 0
    saved = [read.event.step for read in read_events(log) if isinstance(read.event, CheckpointSaved)]
    step = max([start, *saved])
    if fresh:
        write(
            SegmentStarted(
                run_id=launch.run_id, segment=launch.segment, start_step=start, code_version=launch.code_version,
                seed=launch.seed or 0, dp_size=1, start_checkpoint=launch.start_checkpoint, config=config,
                environment={"python": "3"}, wall_time=0.0,
            )
        )  # fmt: skip
    end = launch.max_step or int(config["num_steps"])
    while step < end and not STOPPED:
        step += 1
        write(Metrics(step=step, values={"loss": 4.0 + float(config["slope"]) * step}))
        write(DataRead(step=step, sample_hash=f"{step:08x}", position=step * 8))
        wishes = log.parent
        wanted = (wishes / CHECKPOINT_WISH).exists() or (wishes / PAUSE_WISH).exists()
        if step % 10 == 0 or wanted:
            write(checkpoint(launch, step))
        if (wishes / CHECKPOINT_WISH).exists():
            (wishes / CHECKPOINT_WISH).replace(wishes / CHECKPOINT_GRANTED)
        while (wishes / PAUSE_WISH).exists() and not STOPPED:
            (wishes / PAUSE_GRANTED).touch()
            time.sleep(0.02)
        (wishes / PAUSE_GRANTED).unlink(missing_ok=True)
        burn_until = time.process_time() + float(config.get("burn_s", 0.0))
        while time.process_time() < burn_until:
            pass
        pause_until = time.monotonic() + float(config["step_s"])
        while config.get("busy") and time.monotonic() < pause_until:
            pass
        time.sleep(max(0.0, pause_until - time.monotonic()))
    if STOPPED:
        write(checkpoint(launch, step))
    if config.get("die_at") == step:
        os.kill(os.getpid(), signal.SIGKILL)
    write(Finished(step=step, reason="stopped" if STOPPED else "completed"))


def checkpoint(launch: Launch, step: int) -> CheckpointSaved:
    folder = launch.folder / "checkpoints" / f"step-{step:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    content = f"weights after {step} steps".encode()
    (folder / "state").write_bytes(content)
    return CheckpointSaved(
        step=step, path=str(folder), sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
    )


if __name__ == "__main__":
    main(Launch.from_json(Path(sys.argv[1]).read_text()))
