"""The pages of a really running Lathe in headless Chromium: first paint with many runs, zoom, map of layers.

API and page are processes as `lathe up` starts them, over a real database; each figure is the median of `--rounds`,
and the worst round is told. A cold round has a new browser profile without a cache; the first one also meets a page
process that served nobody yet. What is drawn is checked before its time counts:

first_paint_s   from the address of Today to its health sentence, cold, 1,000 runs
runs_s          the same for the list of runs, to the first row of its table
today_s         the same for Today, to everything: sentence, curve, findings, budget
zoom_s          from the end of a box drawn on a series of 100,000 steps to the curve of those steps only
heatmap_s       from choosing the map of 48 layers x 20,000 steps to its picture, in which the one bad layer stands out
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.place import ROOT, Place, end, place, work_folder
from context_store import Store, open_store
from context_store.records import NewRun, Project
from contracts.enums import Role, RunRole
from contracts.events import Event, Finished, Metrics, SegmentStarted, encode, segment_folder
from control_plane.services.ports import LOOPBACK, choose_port
from kernels.measure import refuse_a_busy_machine

GOALS = {"first_paint_s": 3.0, "runs_s": 3.0, "zoom_s": 1.0, "heatmap_s": 2.0}
LONG, DEEP = "run-long", "run-deep"
SHORT_STEPS = 20
LONG_STEPS, DEEP_STEPS, LAYERS, BAD_LAYER, BAD_FROM = 100_000, 20_000, 48, 31, 14_000
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
_READY_S = 120.0
# Traces of the first plot, as JavaScript sees them.
_TRACE = "document.querySelector('.js-plotly-plot')?.data?.[0]"
_ZOOMED = f"(window) => {{ const t = {_TRACE}; return t && t.x.length > 100 && t.x[0] >= window[0] && "
_ZOOMED += "t.x[t.x.length - 1] <= window[1]; }"
_MAPPED = f"(rows) => {{ const t = {_TRACE}; return t && t.type === 'heatmap' && t.z.length === rows; }}"


def main() -> None:
    options = parse()
    if not options.any_load:
        refuse_a_busy_machine()
    with work_folder(options.folder) as folder, place(folder) as where:
        with open_store(where.url) as store:
            fill(store, where.home / "runs", num_runs=options.runs)
        figures = measure(where, rounds=options.rounds)
    figures = {"runs": options.runs, "rounds": options.rounds, "load": os.getloadavg()[0], **figures}
    for name, goal in GOALS.items():
        told = "reached" if figures[name] <= goal else "MISSED"
        sys.stdout.write(f"{name:16} {figures[name]:.2f}  worst {figures[name + '_worst']:.2f}  goal {goal}  {told}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="keep the filled store here and use it again")
    parser.add_argument("--any-load", action="store_true", help="also on a busy machine")
    return parser.parse_args()


def fill(store: Store, folder: Path, *, num_runs: int) -> None:
    """Does nothing for runs that are there already."""
    store.projects.put(Project(id="bench", path="/nowhere"))
    known = {run.id for run in store.runs.list(limit=num_runs + 10)}
    for number in range(num_runs):
        _train(store, folder, f"run-{number:04d}", known, _short(number), SHORT_STEPS)
    _train(store, folder, LONG, known, _long(), LONG_STEPS)
    _train(store, folder, DEEP, known, _deep(), DEEP_STEPS)


def _train(store: Store, folder: Path, run_id: str, known: set[str], steps: Iterator[Metrics], last: int) -> None:
    if run_id in known:
        return
    log = segment_folder(folder / run_id, 0)
    log.mkdir(parents=True)
    start = SegmentStarted(
        run_id=run_id, segment=0, start_step=0, code_version="a" * 40, seed=1, dp_size=1, start_checkpoint="",
        config={"optim.lr": 0.001}, environment={}, wall_time=time.time(),
    )  # fmt: skip
    ended = Finished(step=last, reason="completed")
    events: Iterator[Event] = iter((start, *steps, ended))
    with (log / "events.log").open("wb") as out:
        out.writelines(encode(event) for event in events)
    role, place_ = RunRole.TRAINING, str(folder / run_id)
    store.runs.create(NewRun(id=run_id, project_id="bench", name=f"pretrain {run_id}", role=role, folder=place_))
    store.ingest.ship(run_id, folder / run_id)
    store.series.seal(run_id)


def _short(number: int) -> Iterator[Metrics]:
    return (
        Metrics(step=step, values={"lm_loss": 3.0 - step / 50 + number / 1e4}) for step in range(1, SHORT_STEPS + 1)
    )


def _long() -> Iterator[Metrics]:
    noise = np.random.default_rng(7).normal(0.0, 0.05, LONG_STEPS)
    for step in range(1, LONG_STEPS + 1):
        yield Metrics(step=step, values={"lm_loss": 2.0 + 8.0 / math.sqrt(step) + float(noise[step - 1])})


def _deep() -> Iterator[Metrics]:
    noise = np.random.default_rng(8).normal(0.3, 0.02, (DEEP_STEPS, LAYERS))
    noise[BAD_FROM:, BAD_LAYER] += 1.5
    names = [f"max_vio/layers.{layer}" for layer in range(LAYERS)]
    for step, row in enumerate(noise.tolist(), start=1):
        yield Metrics(step=step, values=dict(zip(names, row, strict=True)))


def measure(where: Place, *, rounds: int) -> dict[str, Any]:
    """Median and worst of each figure."""
    from playwright.sync_api import sync_playwright

    with running(where) as url, sync_playwright() as browsers:
        chromium = browsers.chromium.launch(executable_path=_chromium(), headless=True, args=_FLAGS)
        token = where.secrets[Role.RESEARCHER]
        kinds: dict[str, Callable[[Any], float]] = {
            "first_paint_s": lambda page: first_paint(page, f"{url}/?token={token}", ".lt-health h1"),
            "runs_s": lambda page: first_paint(page, f"{url}/runs?token={token}", ".lt-table tbody tr"),
            "today_s": lambda page: first_paint(page, f"{url}/?token={token}", ".js-plotly-plot .lines, .lt-side"),
            "zoom_s": lambda page: zoom(page, f"{url}/run?run={LONG}&token={token}"),
            "heatmap_s": lambda page: heatmap(page, f"{url}/run?run={DEEP}&token={token}"),
        }
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, kind in kinds.items():
                found[name].append(_in_new_profile(chromium, kind))
        chromium.close()
    medians = {name: statistics.median(times) for name, times in found.items()}
    return medians | {f"{name}_worst": max(times) for name, times in found.items()}


def _in_new_profile(chromium: Any, kind: Callable[[Any], float]) -> float:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(_READY_S * 1000)
    try:
        return kind(page)
    finally:
        context.close()


def first_paint(page: Any, address: str, wanted: str) -> float:
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    for selector in wanted.split(", "):
        page.locator(selector).first.wait_for()
    return time.perf_counter() - began


def zoom(page: Any, address: str) -> float:
    page.goto(address)
    page.locator(".js-plotly-plot .lines").first.wait_for()
    page.wait_for_load_state("networkidle")
    box = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.40, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.50, middle + 10, steps=4)
    began = time.perf_counter()
    page.mouse.up()
    page.wait_for_function(_ZOOMED, arg=[LONG_STEPS * 0.35, LONG_STEPS * 0.55], polling="raf")
    return time.perf_counter() - began


def heatmap(page: Any, address: str) -> float:
    page.goto(address)
    page.locator(".js-plotly-plot .lines").first.wait_for()
    page.wait_for_load_state("networkidle")
    began = time.perf_counter()
    page.get_by_text("Map of layers").first.click()
    page.wait_for_function(_MAPPED, arg=LAYERS, polling="raf")
    took = time.perf_counter() - began
    worst = page.evaluate(f"{_TRACE}.z.map(row => Math.max(...row.slice(-50)))")
    if int(np.argmax(worst)) != BAD_LAYER:
        raise SystemExit(f"the map does not show that layer {BAD_LAYER} is the bad one")
    return took


@contextmanager
def running(where: Place) -> Iterator[str]:
    """The page's address, while API and page run."""
    api, port = where.start_api(), choose_port(0, what="page", variable="LATHE_UI_PORT")
    page = None
    try:
        where.wait_for_api()
        page = _start_page(where, port)
        _wait_for(f"http://{LOOPBACK}:{port}/_stcore/health")
        yield f"http://{LOOPBACK}:{port}"
    finally:
        for process in (page, api):
            if process is not None:
                end(process)


def _start_page(where: Place, port: int) -> subprocess.Popen[bytes]:
    """It reaches Lathe by HTTP only."""
    command = [sys.executable, "-m", "streamlit", "run", "ui/app.py", "--server.address", LOOPBACK]
    environment = {**os.environ, "LATHE_API_URL": where.api.removesuffix("/api/v1")}
    with (where.home / "logs" / "page.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--server.port", str(port)], cwd=ROOT, env=environment, stdout=log, stderr=log
        )


def _wait_for(address: str) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    deadline = time.monotonic() + _READY_S
    while True:
        try:
            with urlopen(address, timeout=2):  # noqa: S310 (loopback)
                return
        except (URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("this needs chromium: apt-get install chromium")
    return found


if __name__ == "__main__":
    main()
