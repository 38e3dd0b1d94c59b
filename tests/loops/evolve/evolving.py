"""A whole small run as a process: `python evolving.py FOLDER SUITE`. Goes on where a killed one stopped."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from agents.sandbox import NamespaceSandbox
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive, read_files
from loops.evolve.evaluation import Evaluator
from loops.evolve.journal import FolderJournal, Mended
from loops.evolve.operators import CATALOGUE
from loops.evolve.plan import Plan
from loops.evolve.proposer import Operators
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import read_suite

if __name__ == "__main__":
    folder, suite = Path(sys.argv[1]), read_suite(Path(sys.argv[2]))
    rule = Rule(rounds=3, effect=0.4, max_pairs=8, run_alpha=0.5)
    plan = Plan(run="killed", suite_hash=suite.hash, seed=5, rule=rule, block=4, fix_seeds=1, screen=-1.0)
    archive = Archive.begin(folder / "archive.git", plan.run, read_files(CATALOGUE.parent / "scaffolds" / "plain"))
    with closing(NamespaceSandbox(folder / "sandbox")) as sandbox:
        sandbox.reap()
        run = Evolution(
            plan, Mended(FolderJournal(folder / "journal.jsonl")), archive, Evaluator(sandbox=sandbox, suite=suite),
            folder=folder / "commits", proposer=Operators(),
        )  # fmt: skip
        while run.step():
            pass
