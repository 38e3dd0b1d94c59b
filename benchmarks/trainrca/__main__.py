"""TrainRCA: which change broke a training? Cases from really executed small trainings, graded by program.

Without options the cases are made where they are missing, and every method answers where it has not. `--limit N` takes
the first N of the plan, which are a fair mixture. One JSON object as the last line. Shows R801-3.1, R801-3.4, R801-3.5.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.trainrca.databases import server
from benchmarks.trainrca.form import Case, Shelf
from benchmarks.trainrca.kinds import Kind, all_kinds, load_kinds
from benchmarks.trainrca.making import NEEDS, make
from benchmarks.trainrca.methods import METHODS
from benchmarks.trainrca.plan import Wanted, plan
from benchmarks.trainrca.running import Options, can_run, evaluate
from benchmarks.trainrca.workers import spread
from contracts.errors import LatheError

WORK = Path(os.path.expanduser("~/.lathe/bench/trainrca"))
_FIGURES = ("top1", "top3", "exact_set", "proven_right", "over_claims", "false_alarms", "detected", "fix_held")


def wanted_of(options: argparse.Namespace, kinds: Sequence[Kind]) -> list[Wanted]:
    """The part of the plan that was asked for."""
    found = [each for each in plan(kinds) if not options.only or each.kind in options.only]
    return found[: options.limit] if options.limit else found


@cache
def kinds_of(file: Path | None) -> list[Kind]:
    """Ours, and those of a file for `--kinds`."""
    return all_kinds() + (load_kinds(file) if file else [])


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where cases are made, in whatever process. `work`: a folder for what is only needed meanwhile."""

    shelf: Shelf
    kinds: Path | None
    work: Path
    server_url: str
    python: str
    num_cpus: int

    def make(self, wanted: Wanted) -> Case | str:
        """The case, or why it is left out."""
        if not can_run(NEEDS[wanted.trainer], self.python):
            return f"{wanted.id}: not run, --python {self.python} lacks what it needs"
        kinds = {kind.name: kind for kind in kinds_of(self.kinds)}
        try:
            return make(
                self.shelf, wanted, kinds, self.work, self.server_url, python=self.python, num_cpus=self.num_cpus
            )
        except LatheError as error:
            return f"{wanted.kind}, seed {wanted.seed}: left out, {error}"


def made(shelf: Shelf, wanted: Sequence[Wanted], options: argparse.Namespace) -> list[Case]:
    """The cases of the plan, made where they are missing. One that cannot be made is said and left out."""
    cases = []
    with tempfile.TemporaryDirectory(prefix="rcam") as work, server() as url:
        num_cpus = max(1, (os.cpu_count() or 1) // options.workers)
        shop = Workshop(
            shelf=shelf, kinds=options.kinds, work=Path(work), server_url=url, python=options.python, num_cpus=num_cpus
        )
        for number, found in enumerate(spread(shop.make, wanted, options.workers), start=1):
            sys.stderr.write(f"case {number}/{len(wanted)}{f': {found}' if isinstance(found, str) else ''}\n")
            cases += [] if isinstance(found, str) else [found]
    return cases


def as_markdown(told: Mapping[str, Any]) -> str:
    """The table for docs/results.md."""
    lines = ["| method | " + " | ".join(_FIGURES) + " | re-runs | seconds |", "|" + "---|" * (len(_FIGURES) + 3)]
    for name in METHODS:
        row = told[name]
        cells = [f"{row[key]['of']}" for key in _FIGURES]
        rest = [row["reruns_median"], row["seconds_median"]]
        lines.append(f"| {name} | " + " | ".join(map(str, [*cells, *rest])) + " |")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--work", type=Path, default=WORK, help="cases, kept outputs and answers")
    parser.add_argument("--cases", type=Path, help="a folder of cases made elsewhere, in the form of README.md")
    parser.add_argument("--kinds", type=Path, help="a Python file with further kinds of faults")
    parser.add_argument("--only", nargs="+", help="kinds")
    parser.add_argument("--limit", type=int, default=0, help="the first so many cases of the plan")
    parser.add_argument("--python", default=sys.executable, help="interpreter of foreign trainings")
    parser.add_argument("--workers", type=int, default=1, help="cases beside each other")
    parser.add_argument("--make", action="store_true", help="only make the cases")
    parser.add_argument("--cached", action="store_true", help="decide everything again; execute only what is missing")
    parser.add_argument("--fresh", action="store_true", help="execute everything again")
    parser.add_argument("--no-memory", action="store_true", help="leave out the arm with memory")
    return parser.parse_args()


def main() -> None:
    """Make, answer, grade."""
    options = parsed()
    if options.cases:
        shelf = Shelf(options.cases.absolute())
        cases = shelf.list()
    else:
        shelf = Shelf(options.work.absolute())
        cases = made(shelf, wanted_of(options, kinds_of(options.kinds)), options)
    if options.make:
        return
    choice = Options(
        work=options.work.absolute(),
        python=options.python,
        cached=options.cached,
        fresh=options.fresh,
        memory=not options.no_memory,
        workers=options.workers,
    )
    told = evaluate(shelf, cases, choice)
    sys.stdout.write(as_markdown(told) + "\n")
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
