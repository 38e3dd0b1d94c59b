"""How much earlier a stored diagnosis raises the same fault in another run, and whether a look-alike misleads it.

On the demo's project a run is broken by a faulty commit, diagnosed and proven by re-runs. Then a second run with
another seed gets the same commit: both views of it, with and without memory, are cut at each step, and the lead is the
distance of the first steps at which they speak. A third run shows the same symptom by another cause (a field given at
the resume, on code without the commit): memory has to stay silent there, and the diagnosis has to name that cause.
Resumable with --keep FOLDER. One JSON object as the last line. Shows R801-2.11.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.place import work_folder
from context_store import Store
from context_store.records import Project
from contracts.enums import InvestigationState
from contracts.events import Scalar
from control_plane.cli.investigate import work_on
from control_plane.demo.faults import find_fault
from control_plane.demo.history import History, lay_out
from control_plane.demo.pair import LAST_STEP, RESUMES
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect, open_case
from loops.debug.detectors import DETECTORS
from loops.debug.recognised import recognise
from loops.debug.view import RunView, view_run

# fault -> fields that, given at a resume, show the same symptom without the commit
LOOK_ALIKES: dict[str, dict[str, Scalar]] = {
    "over_balance": {"moe.balance.coef": 1.0},
    "router_muon": {"optim.router.lr": 0.1},
    "leftover_pages": {"data.mixture.encodings": 3.0},
}


def cut(view: RunView, last: int) -> RunView:
    """The run as it was when `last` was its newest step."""
    keep = view.steps <= last
    segments = tuple(replace(s, last_step=min(s.last_step, last)) for s in view.segments if s.start_step < last)
    return replace(
        view,
        steps=view.steps[keep],
        values={name: values[keep] for name, values in view.values.items()},
        present={name: flags[keep] for name, flags in view.present.items()},
        segments=segments,
        redone=(),
    )


def first_steps(store: Store, view: RunView, since: int) -> dict[str, int | None]:
    """The first step at which memory, and at which the detectors alone, say that something is wrong."""
    found: dict[str, int | None] = {"memory": None, "detectors": None}
    for last in range(since + 1, int(view.steps[-1]) + 1):
        part = cut(view, last)
        if found["memory"] is None and recognise(store, part):
            found["memory"] = last
        if any(finding.standalone for detector in DETECTORS for finding in detector(part)):
            return {**found, "detectors": last}
    return found


def train(
    lathe: Lathe, project: Project, history: History, run_id: str, *, seed: int, head: str, fields: Mapping[str, Scalar]
) -> None:
    """The demo's main run: begun, resumed, resumed with the last code and `fields`; goes on with what is there."""
    known = {run.id: run.last_step for run in lathe.store.runs.list(limit=1000)}
    if run_id not in known:
        wish = TrainingRequest(run_id=run_id, project=project, commit=history.early, seed=seed, max_step=RESUMES[0])
        follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    for commit, start, end, given in (
        (history.middle, RESUMES[0], RESUMES[1], {}),
        (head, RESUMES[1], LAST_STEP, dict(fields)),
    ):
        if known.get(run_id, 0) <= start:
            launch = lathe.trainings.go_on(run_id, commit=commit, max_step=end, overrides=given)
            follow(lathe.backend, lathe.shipper, launch)


def diagnose(lathe: Lathe, run_id: str) -> dict[str, Any]:
    """Verdict, causes and re-runs of the run's case."""
    case_id = open_case(lathe.store, run_id, detect(lathe.store, run_id), time.time())
    if case_id is None:
        return {"verdict": "nothing_found", "causes": [], "reruns": 0}
    case = lathe.store.knowledge.investigation(case_id)
    if case.verdict is None and case.state is not InvestigationState.CLOSED:
        case = work_on(lathe, case_id)
    verdict = lathe.store.knowledge.verdicts(case_id)[0]
    return {"verdict": str(verdict.verdict), "causes": list(verdict.suspect_keys), "reruns": verdict.num_reruns}


def measure(folder: Path, fault: str) -> dict[str, Any]:
    """The three runs of one fault."""
    settings = Settings(home=folder / "home", backend="local", num_cpus=2, fresh_seeds=0)
    with Lathe.open(settings) as lathe:
        history = lay_out(folder / "project", find_fault(fault), 1)
        project = register_project(lathe.store, history.project)
        train(lathe, project, history, "first", seed=1, head=history.head, fields={})
        first = diagnose(lathe, "first")
        train(lathe, project, history, "second", seed=2, head=history.head, fields={})
        steps = first_steps(lathe.store, view_run(lathe.store, "second"), RESUMES[1])
        train(lathe, project, history, "alike", seed=3, head=history.middle, fields=LOOK_ALIKES[fault])
        alike = view_run(lathe.store, "alike")
        misled = [last for last in range(RESUMES[1] + 1, LAST_STEP + 1) if recognise(lathe.store, cut(alike, last))]
        third = diagnose(lathe, "alike")
    early, late = steps["memory"], steps["detectors"]
    return {
        "fault": fault,
        "first": first,
        "cause_found": first["causes"] == [f"commit:{commit}" for commit in history.faulty],
        "raised_with_memory": early,
        "raised_without": late,
        "lead_steps": late - early if early is not None and late is not None else None,
        "look_alike_recognised_at": misled,
        "look_alike": third,
        "look_alike_right": third["causes"] == [f"launch:{key}" for key in LOOK_ALIKES[fault]],
    }


def kept(folder: Path, fault: str) -> dict[str, Any]:
    """As `measure`, or what an earlier attempt measured."""
    record = folder / "row.json"
    if not record.exists():
        row = measure(folder, fault)
        record.write_text(json.dumps(row))
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """The table for docs/results.md."""
    lines = ["| fault | raised with memory | without | lead | look-alike: recognised | its cause |", "|" + "---|" * 6]
    for row in rows:
        misled = "misled" if row["look_alike_recognised_at"] else "silent"
        cause = f"{row['look_alike']['verdict']}, {'right' if row['look_alike_right'] else 'not named'}"
        raised = [f"step {row[key]}" for key in ("raised_with_memory", "raised_without")]
        lines.append("| " + " | ".join([row["fault"], *raised, f"{row['lead_steps']} steps", misled, cause]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--faults", nargs="+", default=list(LOOK_ALIKES), choices=list(LOOK_ALIKES))
    parser.add_argument("--keep", type=Path, help="keep everything here and go on with it")
    options = parser.parse_args()
    with work_folder(options.keep) as folder:
        rows = []
        for fault in options.faults:
            rows.append(kept(folder.absolute() / fault, fault))
            sys.stderr.write(f"{fault}: lead {rows[-1]['lead_steps']} steps\n")
    sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        misled = sum(bool(row["look_alike_recognised_at"]) for row in rows)
        told = {"rows": rows, "leads": [row["lead_steps"] for row in rows], "misled": misled, "of": len(rows)}
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
