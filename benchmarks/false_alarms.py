"""How often each detector speaks on healthy, really executed trainings; one JSON object as the last line.

Every run is a small real training of the demo's project with settings drawn at random (seed, sizes, learning rates,
mixture, balance, schedule), on its harmless history: begun at one commit, resumed at a later one, half of them on
another number of ranks. Nothing is planted, so every finding is a false alarm. `--settings FILE` gives other
overrides: a JSON list of objects. Resumable with --folder. Shows R801-3.2 (healthy runs stay silent).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.place import work_folder
from context_store.records import Project
from contracts.events import Scalar
from control_plane.demo.faults import HEALTHY
from control_plane.demo.history import History, lay_out
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect
from loops.debug.detectors import DETECTORS
from loops.debug.view import view_run

BY_NAME = {detector.__module__.rpartition(".")[2]: detector for detector in DETECTORS}
_RESUME, _STEPS = 80, 180
_AT_ONCE = 2


def drawn(number: int) -> dict[str, Scalar]:
    """Overrides that a careful person may choose."""
    rng = random.Random(number)
    rate = rng.choice((0.5, 0.7, 1.0, 1.4))
    experts = rng.choice((4, 8, 16))
    return {
        "model.num_layers": rng.choice((4, 6, 8)),
        "moe.num_experts": experts,
        "moe.top_k": rng.choice((1, 2)) if experts == 4 else 2,
        "moe.balance.coef": rng.choice((0.02, 0.05)),
        "optim.attention.lr": 3e-3 * rate,
        "optim.experts.lr": 3e-3 * rate,
        "optim.embedding.lr": 3e-3 * rate,
        "optim.router.optimizer": "adamw",
        "schedule.kind": rng.choice(("constant", "cosine", "linear")),
        "schedule.decay_steps": 1000,
        "data.batch_size": rng.choice((8, 16)),
        "data.mixture.library": rng.choice((0.2, 0.4, 0.6)),
        "parallel.dp_size": rng.choice((1, 2, 4)),
    }


def train(lathe: Lathe, project: Project, history: History, number: int, overrides: dict[str, Scalar]) -> str:
    """One run with a resume in the middle, from where an earlier attempt left it."""
    run_id = f"healthy-{number}"
    if any(run.id == run_id and run.last_step >= _STEPS for run in lathe.store.runs.list(limit=10_000)):
        return run_id
    request = TrainingRequest(
        run_id=run_id,
        project=project,
        commit=history.early,
        overrides=overrides,
        seed=number,
        max_step=_RESUME,
    )
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(request))
    other = {"parallel.dp_size": 4 if overrides.get("parallel.dp_size") == 2 else 2} if number % 2 else {}
    launch = lathe.trainings.go_on(run_id, commit=history.middle, max_step=_STEPS, overrides=other)
    outcome = follow(lathe.backend, lathe.shipper, launch)
    if outcome.reason != "completed":
        raise SystemExit(f"{run_id} did not end: {outcome.message}")
    return run_id


def rate(hits: int, total: int) -> dict[str, Any]:
    """Value, k/N and the upper 95 % bound (Clopper and Pearson 1934)."""
    upper = 1.0 if hits == total else float(stats.beta.ppf(0.95, hits + 1, total - hits))
    return {"rate": hits / total, "of": f"{hits}/{total}", "upper_95": upper}


def judged(lathe: Lathe, runs: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """Runs in which each detector speaks, those for which `detect` reports anything, and every statement of either.

    A fact that joins a case but never opens one counts for its detector, not for `detect`.
    """
    hits: Counter[str] = Counter()
    statements = []
    for run_id in runs:
        view = view_run(lathe.store, run_id)
        for name, detector in BY_NAME.items():
            found = detector(view)
            hits[name] += bool(found)
            statements += [f"{run_id}: {name}: {finding.statement}" for finding in found]
        hits["any"] += bool(detect(lathe.store, run_id))
    return hits, statements


def measure(folder: Path, settings: Sequence[dict[str, Scalar]]) -> dict[str, Any]:
    """Train everything, then let every detector look at every run."""
    with Lathe.open(Settings(home=folder / "home", backend="local")) as lathe:
        history = lay_out(folder / "project", HEALTHY, 1)
        project = register_project(lathe.store, history.project)
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            started = [pool.submit(train, lathe, project, history, n, each) for n, each in enumerate(settings)]
            runs = []
            for future in started:
                runs.append(future.result())
                sys.stderr.write(f"\r{len(runs)}/{len(settings)} trainings")
        sys.stderr.write("\n")
        hits, statements = judged(lathe, runs)
    return {
        "runs": len(runs),
        "detectors": len(DETECTORS),
        "false_alarms": rate(hits["any"], len(runs)),
        "by_detector": {name: rate(hits[name], len(runs)) for name in BY_NAME},
        "statements": statements,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--settings", type=Path, help="JSON list of override objects in place of drawn ones")
    parser.add_argument("--folder", type=Path, help="keep trainings here and go on with them")
    options = parser.parse_args()
    settings = json.loads(options.settings.read_text()) if options.settings else [drawn(n) for n in range(options.runs)]
    with work_folder(options.folder) as folder:
        found = measure(folder.absolute(), settings)
    for line in found["statements"]:
        sys.stdout.write(line + "\n")
    for name, found_rate in found["by_detector"].items():
        sys.stdout.write(f"| `{name}` | {found_rate['of']} | {100 * found_rate['upper_95']:.1f} % |\n")
    sys.stdout.write(f"false alarms {found['false_alarms']}\n")
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
