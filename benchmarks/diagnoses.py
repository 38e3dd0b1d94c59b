"""The five cross-system diagnoses of a published training, re-created: found, proven by re-runs, mended while it runs.

Each is a fault of the demo on the embedded trainer, one cell by `lathe demo`; data quality a second time as junk that
a filter lets in, in a numpy training behind the `command` backend. Resumable with --keep FOLDER. One JSON object as
the last line. Shows R801-3.16, R801-3.17, R801-3.18, R801-3.19, R801-3.20 and R801-2.12.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.demo import Cell, is_right, run_cell
from benchmarks.foreign_faults import run_cell as run_foreign
from benchmarks.place import work_folder


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """`fault`: of the demo, or, when `foreign`, of benchmarks.foreign_faults."""

    requirement: str
    title: str
    fault: str
    foreign: bool = False


DIAGNOSES = (
    Diagnosis(requirement="R801-3.16", title="load balance: all layers over-balanced", fault="over_balance"),
    Diagnosis(requirement="R801-3.16", title="load balance: a few layers badly unbalanced", fault="layer_skip"),
    Diagnosis(requirement="R801-3.17", title="optimizer: the router on Muon", fault="router_muon"),
    Diagnosis(requirement="R801-3.18", title="data quality: leftover pages flood the data", fault="leftover_pages"),
    Diagnosis(requirement="R801-3.18", title="data quality: junk passes the filter", fault="data", foreign=True),
    Diagnosis(requirement="R801-3.19", title="weight decay on the norms", fault="norm_decay"),
    Diagnosis(requirement="R801-3.20", title="data loader: another order with another DP size", fault="loader_order"),
)


def row_of(diagnosis: Diagnosis, folder: Path, seed: int) -> dict[str, Any]:
    """One diagnosis, from where an earlier attempt left it."""
    told = {"requirement": diagnosis.requirement, "diagnosis": diagnosis.title, "fault": diagnosis.fault}
    if diagnosis.foreign:
        found = run_foreign(folder / f"ring-{diagnosis.fault}", "ring", diagnosis.fault, sys.executable)
        return {
            **told,
            "trainer": "numpy, by the command backend",
            "symptom": found.get("symptom", ""),
            "suspect_found": found["exact"],
            "verdict": found["verdict"],
            "scope": found.get("scope", ""),
            "cause_kind": found["kind"],
            "reruns": found["reruns"],
            "fix_held": found["fix"] == "held",
            "seconds": found["seconds"],
            "right": found["right"],
        }
    cell = Cell(fault=diagnosis.fault, seed=seed)
    found = run_cell(cell, folder)
    return {
        **told,
        "trainer": "embedded",
        "symptom": found["anomaly"]["statement"] if found["anomaly"] else "",
        "suspect_found": sorted(found["culprit_commits"]) == sorted(found["truth_commits"]),
        "verdict": found["verdict"],
        "scope": found["scope"],
        "cause_kind": found["cause_kind"],
        "reruns": found["reruns"],
        "fix_held": found["verified"],
        "seconds": found["seconds"],
        "right": is_right(cell, found),
    }


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """The table for docs/results.md."""
    lines = ["| | diagnosis | trainer | symptom | suspect | verdict | re-runs | fix | seconds |", "|" + "---|" * 9]
    for row in rows:
        suspect, fix = ("found" if row["suspect_found"] else "NOT found", "held" if row["fix_held"] else "NOT held")
        verdict = f"{row['verdict']} ({row['scope']}), {row['cause_kind']}"
        cells = (row["requirement"], row["diagnosis"], row["trainer"], row["symptom"], suspect, verdict)
        lines.append("| " + " | ".join(map(str, (*cells, row["reruns"], fix, f"{row['seconds']:.0f}"))) + " |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", nargs="+", help="faults", choices=[each.fault for each in DIAGNOSES])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep everything here and go on with it")
    options = parser.parse_args()
    chosen = [each for each in DIAGNOSES if not options.only or each.fault in options.only]
    rows = []
    with work_folder(options.keep) as folder:
        for diagnosis in chosen:
            rows.append(row_of(diagnosis, folder.absolute(), options.seed))
            sys.stderr.write(f"{diagnosis.fault}: {'right' if rows[-1]['right'] else 'WRONG'}\n")
    sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        sys.stdout.write(json.dumps({"right": sum(row["right"] for row in rows), "of": len(rows), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
