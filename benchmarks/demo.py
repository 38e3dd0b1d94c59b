"""The main job on every fault and several seeds: right verdicts, re-runs and wall time.

One cell is one real `lathe demo --fault F --seed N --yes --json` in a home of its own; it is judged by the truth file
that lies outside the training project. A finished cell is kept under --work and reused only while every source file of
this repository is unchanged (the verdict belongs to exactly this code). Shows R801-3.1, R801-3.4 and R801-3.5 at demo
size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = ("contracts", "context_store", "trainer", "agents", "loops", "control_plane")
HEALTHY = "healthy"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fault (or `healthy`) on one seed."""

    fault: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.fault}-{self.seed}"


def code_hash() -> str:
    """Content hash of every Python source a demo can execute."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def list_faults() -> list[str]:
    command = [sys.executable, "-m", "control_plane.cli.main", "demo", "--list-faults"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def run_cell(cell: Cell, work: Path, *, fresh: bool = False) -> dict[str, Any]:
    """The demo's JSON object for one cell. Raises CalledProcessError when the demo itself fails."""
    folder = work / cell.name
    record = folder / "outcome.json"
    version = code_hash()
    if not fresh and record.exists():
        kept: dict[str, Any] = json.loads(record.read_text())
        if kept["code"] == version:
            outcome: dict[str, Any] = kept["outcome"]
            return outcome
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    choice = ["--healthy"] if cell.fault == HEALTHY else ["--fault", cell.fault]
    options = [*choice, "--seed", str(cell.seed), "--yes", "--json", "--no-ui", "--home", str(folder / "home")]
    command = [sys.executable, "-m", "control_plane.cli.main", "demo", *options]
    with (folder / "progress.log").open("w") as progress:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=progress, text=True, check=True)
    outcome = json.loads(done.stdout.splitlines()[-1])
    record.write_text(json.dumps({"code": version, "outcome": outcome}, indent=1))
    shutil.rmtree(folder / "home", ignore_errors=True)
    return outcome


def is_right(cell: Cell, outcome: Mapping[str, Any]) -> bool:
    """Healthy: nothing found. A fault: proven, exactly the true commits, the true kind, and the fix verified."""
    if cell.fault == HEALTHY:
        return outcome["verdict"] == "nothing_found" and not outcome["culprit_commits"]
    return (
        outcome["verdict"] == "proven"
        and sorted(outcome["culprit_commits"]) == sorted(outcome["truth_commits"])
        and outcome["cause_kind"] == outcome["truth_cause_kind"]
        and outcome["verified"] is True
    )


def run_all(cells: Sequence[Cell], work: Path, *, fresh: bool) -> Iterator[dict[str, Any]]:
    for cell in cells:
        outcome = run_cell(cell, work, fresh=fresh)
        row = {"cell": cell.name, "right": is_right(cell, outcome), **outcome}
        line = f"{cell.name}: {'right' if row['right'] else 'WRONG'}, {row['verdict']}, {row['seconds']:.0f} s"
        sys.stderr.write(line + "\n")
        yield row


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| fault | seed | verdict | scope | cause kind | culprits exact | re-runs | fix verified | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        fault, _, seed = str(row["cell"]).rpartition("-")
        is_exact = sorted(row["culprit_commits"]) == sorted(row["truth_commits"])
        found, held = ("-" if fault == HEALTHY else "yes" if good else "no" for good in (is_exact, row["verified"]))
        values = (fault, seed, row["verdict"], row["scope"] or "-", row["cause_kind"], found, row["reruns"])
        lines.append("| " + " | ".join(map(str, (*values, held, f"{row['seconds']:.0f}"))) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    seconds = [float(row["seconds"]) for row in rows]
    worst = max(rows, key=lambda row: float(row["seconds"]))
    return {
        "cells": len(rows),
        "right": sum(bool(row["right"]) for row in rows),
        "wrong_cells": [row["cell"] for row in rows if not row["right"]],
        "median_seconds": statistics.median(seconds),
        "worst_seconds": float(worst["seconds"]),
        "worst_cell": worst["cell"],
        "median_reruns": statistics.median(int(row["reruns"]) for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--faults", nargs="+", help="default: all of lathe demo --list-faults, and healthy")
    parser.add_argument("--work", type=Path, default=Path(os.path.expanduser("~/.lathe/bench/demo")))
    parser.add_argument("--fresh", action="store_true", help="run every cell again")
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/results.md")
    options = parser.parse_args()
    faults = options.faults or [*list_faults(), HEALTHY]
    cells = [Cell(fault=fault, seed=seed) for fault in faults for seed in options.seeds]
    rows = list(run_all(cells, options.work, fresh=options.fresh))
    if options.markdown:
        sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        sys.stdout.write(json.dumps({**summary(rows), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
