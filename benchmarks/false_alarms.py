"""How often each detector speaks on healthy, really executed trainings; one JSON object as the last line.

Every run is a small real training of the demo's project with settings drawn at random (seed, sizes, learning rates,
mixture, balance, schedule), of one of six kinds in turn: resumed at a later harmless commit, never resumed, killed
between two checkpoints and resumed (steps done again), evaluated at each checkpoint, forked without a change, and over
four real processes. Nothing is planted, so every finding is a false alarm. Beside it stands in how many of these runs
the detector could have spoken: its fault is written into the very logs, and it has to say so; a rate over the others
says nothing. `silence` is asked before each step whether the run is dead, with steps as long as a large training's
(10 s in the middle); `recognised` remembers a made-up diagnosis of a harmless commit that is in force in each resumed
run. `--settings FILE` gives other overrides: a JSON list of objects. Resumable with --folder. Shows R801-3.2 (healthy
runs stay silent).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.false_alarm_parts.memory import remember
from benchmarks.false_alarm_parts.plants import PLANTS, changed, excerpt
from benchmarks.false_alarm_parts.trainings import KINDS, drawn, train
from benchmarks.place import work_folder
from contracts.events import Scalar
from control_plane.demo.faults import HEALTHY
from control_plane.demo.history import lay_out
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from loops.debug import Pause, detect
from loops.debug.detectors import DETECTORS
from loops.debug.recognised import recognise
from loops.debug.silence import silence
from loops.debug.view import RunView, view_run

BY_NAME = {detector.__module__.rpartition(".")[2]: detector for detector in DETECTORS}
BESIDE = ("silence", "recognised")  # no functions of a run alone
_STEP_S, _MIN_TIMES, _HANG_S = 10.0, 10, 7200.0


def rate(hits: int, total: int) -> dict[str, Any]:
    """Value, k/N and the upper 95 % bound (Clopper and Pearson 1934); without runs nothing is known."""
    upper = 1.0 if hits == total else float(stats.beta.ppf(0.95, hits + 1, total - hits))
    return {"rate": hits / total if total else None, "of": f"{hits}/{total}", "upper_95": upper}


def said(name: str, view: RunView) -> list[str]:
    """Statements of one detector on a run; of `few_points` on its last lines."""
    return [found.statement for found in BY_NAME[name](excerpt(view) if name == "few_points" else view)]


def could_speak(name: str, view: RunView) -> bool:
    """Whether the detector finds its fault in this run's own logs."""
    view = excerpt(view) if name == "few_points" else view
    return bool(BY_NAME[name](PLANTS[name](view)))


def thought_dead(view: RunView, *, hangs: bool = False) -> list[str]:
    """What `silence` says while a healthy run, as slow as a large one, works on its next step; `hangs`: on its last."""
    _, times = view.series("step_time_s")
    scale = _STEP_S / float(np.median(times)) if times.size else 1.0
    slow = changed(view, {"step_time_s": lambda row: row * scale})
    if hangs:
        found = silence(slow, Pause(quiet_s=_HANG_S, alive=True))
        return [found.statement] if found else []
    told = []
    for at in range(_MIN_TIMES, times.size):
        so_far = {"step_time_s": slow.values["step_time_s"][:at]}
        known = replace(slow, steps=slow.steps[:at], values=so_far, present={n: view.present[n][:at] for n in so_far})
        found = silence(known, Pause(quiet_s=float(scale * times[at]), alive=True))
        told += [found.statement] if found else []
    return told


def judged(lathe: Lathe, runs: Sequence[str], commit: str) -> tuple[Counter[str], Counter[str], list[str]]:
    """By detector: runs in which it could speak and speaks, those in which it could; and every statement.

    A fact that joins a case but never opens one counts for its detector, not for `any`, which is what `detect` says.
    """
    hits, able, statements = Counter[str](), Counter[str](), []
    hits["any"] = sum(bool(detect(lathe.store, run_id)) for run_id in runs)
    planted = remember(lathe.store, runs, commit)
    for run_id in runs:
        view = view_run(lathe.store, run_id)
        told = {name: said(name, view) for name in BY_NAME}
        told["silence"] = thought_dead(view)
        told["recognised"] = [f.statement for f in recognise(lathe.store, view)]
        can = {name for name in BY_NAME if could_speak(name, view)}
        can |= {"silence"} if thought_dead(view, hangs=True) else set()
        can |= {"recognised"} if recognise(lathe.store, planted(view)) else set()
        for name, sentences in told.items():
            able[name] += name in can or bool(sentences)
            hits[name] += bool(sentences)
            statements += [f"{run_id}: {name}: {sentence}" for sentence in sentences]
    return hits, able, statements


def measure(folder: Path, settings: Sequence[dict[str, Scalar]]) -> dict[str, Any]:
    """Train everything, then let every detector look at every run."""
    with Lathe.open(Settings(home=folder / "home", backend="local")) as lathe:
        history = lay_out(folder / "project", HEALTHY, 1)
        project = register_project(lathe.store, history.project)
        runs = []
        for number, each in enumerate(settings):
            runs.append(train(lathe, project, history, number, each))
            sys.stderr.write(f"\r{len(runs)}/{len(settings)} trainings")
        sys.stderr.write("\n")
        hits, able, statements = judged(lathe, runs, history.middle)
    return {
        "runs": len(runs),
        "kinds": [kind.name for kind in KINDS],
        "detectors": len(DETECTORS),
        "false_alarms": rate(hits["any"], len(runs)),
        "by_detector": {name: rate(hits[name], able[name]) for name in (*BY_NAME, *BESIDE)},
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
    sys.stdout.write("| detector | spoke, of the runs in which it could | 95 % bound |\n|---|---|---|\n")
    for name, found_rate in found["by_detector"].items():
        sys.stdout.write(f"| `{name}` | {found_rate['of']} | {100 * found_rate['upper_95']:.1f} % |\n")
    sys.stdout.write(f"false alarms {found['false_alarms']}\n")
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
