"""Faults planted in trainings that nobody here wrote, diagnosed through the `command` backend.

`ring` is plain numpy; `huggingface` is a `transformers.Trainer` script (`--python` names an interpreter that has
transformers and accelerate). Each cell is a new project under git: a run is begun, then resumed with innocent commits
and one fault: code (labels moved), config (learning rate), data (the quality filter lets junk in, R801-3.18), resume
(the optimizer is not restored), environment (a file of the machine; no commit is to blame, so "cannot tell" is
right), or none. Where a cause is proven, the fix is approved and watched in the continuing run. Resumable with
--keep FOLDER. One JSON object as the last line. Shows R801-3.1, R801-3.4, R801-3.18, R801-3.20.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.place import work_folder
from contracts.enums import InvestigationState, ProposalState, Role, Verdict
from control_plane.backends.command_registry import Registry
from control_plane.cli.investigate import work_on
from control_plane.projects import connect_project, register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect, open_case

SOURCES = Path(__file__).parent / "foreign_projects"
RUN = "run"
Change = tuple[str, str, str, str]  # file, text, its replacement, subject of the commit


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """`stretches`: last steps of the first stretch and of the second. `faults`: one commit each. `needs`: modules."""

    stretches: tuple[int, int]
    innocent: tuple[Change, Change]
    faults: dict[str, Change]
    needs: tuple[str, ...] = ()


TRAINERS = {
    "ring": Trainer(
        stretches=(100, 160),
        innocent=(
            ("train.py", "WIDTH = 24", "WIDTH = 24  # hidden units", "a comment"),
            ("train.py", "1e-8", "1.02e-8", "adam: a rounder eps"),
        ),
        faults={
            "code": (
                "train.py", "    return points, labels", "    return points, np.roll(labels, 1)", "pages: other layout"
            ),
            "config": ("config.json", '"lr": 0.01', '"lr": 1.0', "config: learn faster"),
            "data": ("config.json", '"keep_above": 0.4', '"keep_above": 0.0', "config: more pages"),
            "resume": (
                "train.py",
                '    second = [saved[f"v{i}"] for i in range(3)]',
                "    second = [np.zeros_like(w) for w in weights]",
                "restore: less to read",
            ),
        },
    ),
    "huggingface": Trainer(
        stretches=(60, 100),
        innocent=(
            ("train.py", "LENGTH, VOCABULARY = 24, 32", "LENGTH, VOCABULARY = 24, 32  # tokens", "a comment"),
            ("config.json", '"lr": 0.01', '"lr": 0.0101', "config: a little faster"),
        ),
        faults={
            "code": ("train.py", '"labels": tokens}', '"labels": tokens.roll(3)}', "data: other labels"),
            "data": ("config.json", '"keep_above": 0.4', '"keep_above": 0.0', "config: more pages"),
            "config": ("config.json", '"smoothing": 0.0', '"smoothing": 0.6', "config: softer labels"),
            "resume": ("train.py", "restored = checkpoint", "restored = None", "resume: less to read"),
        },
        needs=("transformers", "accelerate"),
    ),
}  # fmt: skip
_SAID = {True: "yes", False: "NO", None: "-"}
KINDS = ("code", "config", "data", "resume", "environment", "healthy")


def git(folder: Path, *arguments: str) -> str:
    """Standard output of one git command."""
    command = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, change: Change) -> str:
    """Carry out one change and commit it."""
    name, old, new, subject = change
    text = (folder / name).read_text()
    if text.count(old) != 1:
        raise SystemExit(f"'{old}' stands {text.count(old)} times in {name}")
    (folder / name).write_text(text.replace(old, new))
    git(folder, "commit", "-q", "-a", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def lay_out(folder: Path, trainer: str, python: str) -> str:
    """The project under git, with the interpreter in its spec; the first commit."""
    shutil.copytree(SOURCES / trainer, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "lathe.toml"
    machine = folder.with_name("machine")  # outside the project: no commit tells of it
    machine.write_text("0")
    spec.write_text(spec.read_text().replace('"python"', f'"{python}"').replace('"machine"', f'"{machine}"'))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return git(folder, "rev-parse", "HEAD")


def connect(lathe: Lathe, folder: Path) -> None:
    """Register the spec as it stands in the project's folder."""
    registry = Registry(lathe.settings.backends_folder)
    registered = registry.read(folder / "lathe.toml")
    registry.make_present(registered)
    connect_project(lathe.store, folder, registered)


def train(lathe: Lathe, folder: Path, trainer: Trainer, kind: str) -> str:
    """Begin, break, go on; the faulty commit, "" when no commit is to blame."""
    first, last = trainer.stretches
    connect(lathe, folder)
    wish = TrainingRequest(
        run_id=RUN,
        project=register_project(lathe.store, folder),
        commit=git(folder, "rev-parse", "HEAD"),
        seed=1,
        max_step=first,
    )
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    commit(folder, trainer.innocent[0])
    faulty = commit(folder, trainer.faults[kind]) if kind in trainer.faults else ""
    head = commit(folder, trainer.innocent[1])
    if kind == "environment":
        folder.with_name("machine").write_text("0.6")
    register_project(lathe.store, folder)
    follow(lathe.backend, lathe.shipper, lathe.trainings.go_on(RUN, commit=head, max_step=last))
    return faulty


def diagnose(lathe: Lathe) -> str:
    """Detect and diagnose, and approve what is proposed; the case, "" when nothing was found."""
    case_id = open_case(lathe.store, RUN, detect(lathe.store, RUN), time.time())
    if case_id is None:
        return ""
    work_on(lathe, case_id)
    for proposal in lathe.store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id):
        lathe.store.proposals.approve(proposal.id, "benchmark", Role.REVIEWER, "", time.time(), proposal.bound_hash)
    return case_id


def conclude(lathe: Lathe, case_id: str, faulty: str) -> dict[str, Any]:
    """Let the approved fix go into the run and see whether it holds; what the case says in the end."""
    if not case_id:
        return {"verdict": "nothing_found", "kind": "none", "exact": faulty == "", "reruns": 0, "fix": "-"}
    case = lathe.store.knowledge.investigation(case_id)
    if case.state is not InvestigationState.CLOSED:
        case = work_on(lathe, case_id)
    verdict = lathe.store.knowledge.verdicts(case_id)[0]
    proven = verdict.verdict is Verdict.PROVEN
    held = "held" if "The fix holds" in case.statement else "not held" if proven else "-"
    return {
        "symptom": lathe.store.knowledge.anomalies(investigation_id=case_id)[0].statement,
        "verdict": str(verdict.verdict),
        "scope": str(verdict.scope),
        "kind": str(case.cause_kind),
        "exact": verdict.suspect_keys == ((f"commit:{faulty}",) if faulty else ()),
        "reruns": verdict.num_reruns,
        "fix": held,
        "statement": case.statement,
    }


def is_right(kind: str, row: dict[str, Any]) -> bool:
    """A commit that is to blame is proven and its fix holds; where none is, nothing is blamed."""
    if kind == "healthy":
        return bool(row["verdict"] == "nothing_found")
    if kind == "environment":
        return bool(row["verdict"] == "cannot_tell")
    return bool(row["verdict"] == "proven" and row["exact"] and row["fix"] == "held")


def can_run(trainer: str, python: str) -> bool:
    """Whether the interpreter has what the trainer needs."""
    needs = TRAINERS[trainer].needs
    return (
        not needs or subprocess.run([python, "-c", f"import {', '.join(needs)}"], capture_output=True).returncode == 0
    )


def run_cell(folder: Path, trainer: str, kind: str, python: str) -> dict[str, Any]:
    """One fault on one trainer, from where an earlier attempt left it; `right` is None when it cannot be run here."""
    record = folder / "row.json"
    if record.exists():
        kept: dict[str, Any] = json.loads(record.read_text())
        return kept
    if not can_run(trainer, python):
        blank = dict.fromkeys(("kind", "exact", "reruns", "fix", "seconds"), "-")
        return {"trainer": trainer, "planted": kind, "verdict": "not run", **blank, "right": None}
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    settings = Settings(home=folder / "home", backend="local", num_cpus=2, fresh_seeds=0, embedder="hashed")
    lay_out(folder / "project", trainer, python)
    with Lathe.open(settings) as lathe:
        faulty = train(lathe, folder / "project", TRAINERS[trainer], kind)
        case_id = diagnose(lathe)
    with Lathe.open(settings) as lathe:  # as a person who approves comes later, in a process of their own
        row = conclude(lathe, case_id, faulty)
    row = {"trainer": trainer, "planted": kind, **row, "seconds": round(time.monotonic() - began, 1)}
    row["right"] = is_right(kind, row)
    record.write_text(json.dumps(row))
    return row


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """The table for docs/results.md."""
    lines = ["| trainer | planted | verdict | kind | exact | re-runs | fix | seconds | right |", "|" + "---|" * 9]
    for row in rows:
        cells = [row[key] for key in ("trainer", "planted", "verdict", "kind", "exact", "reruns", "fix", "seconds")]
        lines.append(f"| {' | '.join(map(str, cells))} | {_SAID[row['right']]} |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--trainers", nargs="+", default=["ring"], choices=list(TRAINERS))
    parser.add_argument("--faults", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the trainings")
    parser.add_argument("--keep", type=Path, help="keep everything here and go on with it")
    options = parser.parse_args()
    with work_folder(options.keep) as folder:
        cells = [(trainer, kind) for trainer in options.trainers for kind in options.faults]
        rows = [run_cell(folder.absolute() / f"{t}-{kind}", t, kind, options.python) for t, kind in cells]
    sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        judged = [row["right"] for row in rows if row["right"] is not None]
        told = {"right": sum(judged), "of": len(judged), "not_run": len(rows) - len(judged), "rows": rows}
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
