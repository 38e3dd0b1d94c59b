"""Kills the writer, the training, the shipper, the sealer and Postgres at random moments and looks for lost points.

    python tests/context_store/kill_storm.py --folder FOLDER [--kills 200] [--seed 1]

Resumable: the same folder goes on until so many kills are done, then everything is checked. Shows R801-2.1 (storage).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from training_log import append, counts, make_run, started

from context_store import EmbeddedPostgres, Store, migrate, open_store
from contracts.errors import DatabaseUnavailable
from contracts.events import Metrics, segment_folder

NAMES = tuple(f"grad_norm/layers.{layer}" for layer in range(40))
WORKERS = ("writer", "training", "shipper", "sealer")
VICTIMS = (*WORKERS, "postmaster", "backend")


def log_of(folder: Path) -> Path:
    return segment_folder(folder / "shipped", 0) / "events.log"


def values(step: int) -> dict[str, float]:
    return {name: math.sin(step * 1.37 + index) for index, name in enumerate(NAMES)}


def write(url: str, folder: Path) -> None:
    """Appends step by step to run `direct` and notes in a file what was acknowledged; goes back a little at a start."""
    acknowledged = folder / "acknowledged"
    first = max(1, last_acknowledged(folder) - 3)
    with opened(url, folder / "writer.ready") as store, acknowledged.open("a") as file:
        for step in itertools.count(first):
            patiently(partial(store.series.append, "direct", [(step, values(step))]))
            file.write(f"{step}\n")
            file.flush()


def train(url: str, folder: Path) -> None:
    """Writes the log of run `shipped`; after a kill it cuts the torn line off and goes on."""
    log = log_of(folder)
    content = log.read_bytes() if log.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if content != whole:
        log.write_bytes(whole)
    first = whole.count(b'"metrics"') + 1
    append(folder / "shipped", 0, started(run_id="shipped"))
    (folder / "training.ready").write_text(str(os.getpid()))
    for step in itertools.count(first):
        append(folder / "shipped", 0, Metrics(step=step, values=values(step)))
        time.sleep(0.002)


def ship(url: str, folder: Path) -> None:
    with opened(url, folder / "shipper.ready") as store:
        while True:
            patiently(lambda: store.ingest.ship("shipped", folder / "shipped"))


def seal(url: str, folder: Path) -> None:
    with opened(url, folder / "sealer.ready") as store:
        while True:
            patiently(lambda: store.series.seal_waiting(min_frames=20))


def opened(url: str, ready: Path) -> Store:
    stores: list[Store] = []
    patiently(lambda: stores.append(open_store(url)))
    ready.write_text(str(os.getpid()))
    return stores[0]


def patiently(action: Callable[[], object]) -> None:
    """Again until the database answers: a writer waits out its restart."""
    while True:
        try:
            action()
        except DatabaseUnavailable:
            time.sleep(0.05)
        else:
            return


def last_acknowledged(folder: Path) -> int:
    file = folder / "acknowledged"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return max((int(line) for line in lines), default=0)


@contextmanager
def workers(url: str, folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    running = {name: start(name, url, folder) for name in WORKERS}
    try:
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def start(name: str, url: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--worker", name, "--url", url, "--folder", str(folder)])


def wait_for_work(running: dict[str, subprocess.Popen[bytes]], folder: Path) -> None:
    """Until all workers are at it and the database acknowledged something new: nobody is killed while it starts."""
    before = last_acknowledged(folder)
    while last_acknowledged(folder) <= before or any(
        not (file := folder / f"{name}.ready").exists() or file.read_text() != str(process.pid)
        for name, process in running.items()
    ):
        time.sleep(0.02)


def kill_postgres(server: EmbeddedPostgres, choice: random.Random, whole: bool) -> None:
    """The postmaster with its children, or one child, after which the postmaster starts all of them anew."""
    pid = int((server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
    children = psutil.Process(pid).children()
    os.kill(pid if whole or not children else choice.choice(children).pid, signal.SIGKILL)
    if whole:
        server.start()


def storm(folder: Path, num_kills: int, seed: int) -> None:
    """Kill until `num_kills` are done, all starts counted."""
    done = folder / "kills"
    server = EmbeddedPostgres(folder / "pg")
    url = server.start()
    migrate(url)
    with open_store(url) as store:
        for run_id in ("direct", "shipped"):
            make_run(store, run_id)
    count = int(done.read_text()) if done.exists() else 0
    choice = random.Random(f"{seed}/{count}")
    with workers(url, folder) as running:
        while count < num_kills:
            wait_for_work(running, folder)
            time.sleep(choice.uniform(0.0, 0.4))
            victim = choice.choice(VICTIMS)
            if victim in running:
                running[victim].kill()
                running[victim].wait()
                running[victim] = start(victim, url, folder)
            else:
                try:
                    kill_postgres(server, choice, victim == "postmaster")
                except (ProcessLookupError, psutil.NoSuchProcess, FileNotFoundError):
                    continue  # it was just restarting
            count += 1
            done.write_text(str(count))
    server.start()


def check(folder: Path) -> dict[str, int]:
    """Raises AssertionError when a point is lost, changed or stored twice."""
    server = EmbeddedPostgres(folder / "pg")
    with open_store(server.start()) as store:
        patiently(lambda: store.ingest.ship("shipped", folder / "shipped"))
        logged = log_of(folder).read_bytes().rpartition(b"\n")[0].count(b'"metrics"')
        stored = {"direct": last_acknowledged(folder), "shipped": logged}
        total = sum(_check_run(store, run_id, at_least) for run_id, at_least in stored.items())
        for run_id in stored:
            store.series.seal(run_id)
        assert counts(store) == (0, total), "points are stored twice"
    server.stop()
    return {"acknowledged": stored["direct"], "logged": logged, "points": total}


def _check_run(store: Store, run_id: str, at_least: int) -> int:
    """A kill between commit and acknowledgement may leave one step more."""
    matrix = store.series.matrix(run_id, NAMES)
    num_steps = len(matrix.steps)
    assert at_least <= num_steps <= at_least + 1, (run_id, at_least, num_steps)
    assert matrix.steps.tolist() == list(range(1, num_steps + 1))
    expected = np.array([list(values(step).values()) for step in range(1, num_steps + 1)]).T
    assert matrix.values.tobytes() == np.ascontiguousarray(expected).tobytes()
    for name in NAMES:
        assert len(store.series.read(run_id, name, view="full").steps) == num_steps, "a point is there twice"
    return num_steps * len(NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task = {"writer": write, "training": train, "shipper": ship, "sealer": seal}[options.worker]
        task(options.url, options.folder)
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        storm(options.folder, options.kills, options.seed)
        sys.stdout.write(f"{options.kills} kills, nothing lost, nothing doubled: {check(options.folder)}\n")


if __name__ == "__main__":
    main()
