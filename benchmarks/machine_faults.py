"""A slow and a corrupt machine in a training over four real processes, and a look-alike in the code.

A run is begun, then resumed with two innocent commits. `slow`: one place (process) sleeps in each forward pass; a file
outside the project says so, no commit does. `corrupt`: one place turns the sign of one in 97 embedded numbers, which
the loss does not show. `code`: a commit makes one rank sleep, wherever it runs. The first two have to be told by
exchanging places, and no commit is blamed; the last has to be traced to its commit although it looks like a slow
machine. `--keep FOLDER` keeps everything and goes on with it. One JSON object as the last line. Shows R801-3.1,
R801-3.4 and R801-10.1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.foreign_faults import Change, commit, conclude, diagnose, git
from benchmarks.place import work_folder
from contracts.enums import Verdict
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

SOURCE = Path(__file__).parent / "machine_project"
KINDS = ("slow", "corrupt", "code", "healthy")
RUN, FIRST, LAST = "run", 40, 100
PLACE = 2
INNOCENT: tuple[Change, Change] = (
    ("recipe.py", "def recipe() -> Recipe:", "def recipe() -> Recipe:  # what is trained", "a comment"),
    ("recipe.py", '"optim.head.weight_decay": 0.1', '"optim.head.weight_decay": 0.101', "recipe: a rounder decay"),
)
FAULT: Change = (
    "recipe.py",
    "    return embedding(*arguments)\n",
    "    if torch.distributed.is_initialized() and torch.distributed.get_rank() == 2:\n        time.sleep(0.08)\n"
    "    return embedding(*arguments)\n",
    "embedding: keep in step",
)
MACHINES = {"slow": {str(PLACE): 0.08}, "corrupt": {str(PLACE): "corrupt"}}  # seconds of sleep in each forward pass


def lay_out(folder: Path) -> str:
    """The project under git and, beside it, the sound machine; the first commit."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    machine = folder.with_name("machine")
    machine.write_text("{}")
    recipe = folder / "recipe.py"
    recipe.write_text(recipe.read_text().replace('"MACHINE"', f'"{machine}"'))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return git(folder, "rev-parse", "HEAD")


def train(lathe: Lathe, folder: Path, kind: str) -> str:
    """Begin, break, go on; the faulty commit, "" when no commit is to blame."""
    wish = TrainingRequest(
        run_id=RUN,
        project=register_project(lathe.store, folder),
        commit=git(folder, "rev-parse", "HEAD"),
        seed=1,
        max_step=FIRST,
    )
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    commit(folder, INNOCENT[0])
    faulty = commit(folder, FAULT) if kind == "code" else ""
    head = commit(folder, INNOCENT[1])
    if kind in MACHINES:
        folder.with_name("machine").write_text(json.dumps(MACHINES[kind]))
    register_project(lathe.store, folder)
    follow(lathe.backend, lathe.shipper, lathe.trainings.go_on(RUN, commit=head, max_step=LAST))
    return faulty


def is_right(kind: str, row: dict[str, Any]) -> bool:
    """The place is proven by an exchange, the commit by leaving it out, and health is silent."""
    if kind == "healthy":
        return bool(row["verdict"] == "nothing_found")
    wanted = ("code", [f"commit:{row['faulty']}"]) if kind == "code" else ("hardware", [f"place:{PLACE}"])
    return bool(row["verdict"] == Verdict.PROVEN and (row["kind"], row["causes"]) == wanted)


def run_cell(folder: Path, kind: str) -> dict[str, Any]:
    """One fault, from where an earlier attempt left it."""
    record = folder / "row.json"
    if record.exists():
        kept: dict[str, Any] = json.loads(record.read_text())
        return kept
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    settings = Settings(home=folder / "home", backend="local", num_cpus=1, fresh_seeds=0, embedder="hashed")
    lay_out(folder / "project")
    with Lathe.open(settings) as lathe:
        faulty = train(lathe, folder / "project", kind)
        case_id = diagnose(lathe)
        row = conclude(lathe, case_id, faulty)
        knowledge = lathe.store.knowledge
        causes = knowledge.verdicts(case_id)[0].suspect_keys if case_id else ()
        ran = [str(each.kind) for each in knowledge.diagnostics(case_id)] if case_id else []
    row = {"planted": kind, **row, "faulty": faulty, "causes": list(causes), "ran": ran}
    row |= {"right": is_right(kind, row), "seconds": round(time.monotonic() - began, 1)}
    record.write_text(json.dumps(row))
    return row


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """The table for docs/results.md."""
    lines = ["| planted | symptom | verdict | kind | re-runs | seconds | right |", "|" + "---|" * 7]
    for row in rows:
        cells = [row.get(key, "-") for key in ("planted", "symptom", "verdict", "kind", "reruns", "seconds")]
        lines.append(f"| {' | '.join(map(str, cells))} | {'yes' if row['right'] else 'NO'} |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--faults", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--keep", type=Path, help="keep everything here and go on with it")
    options = parser.parse_args()
    with work_folder(options.keep) as folder:
        rows = [run_cell(folder.absolute() / kind, kind) for kind in options.faults]
    sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        right = sum(row["right"] for row in rows)
        sys.stdout.write(json.dumps({"right": right, "of": len(rows), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
