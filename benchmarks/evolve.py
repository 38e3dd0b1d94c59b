"""Self-evolution: the acceptance rule on simulated runs, a real run on real tasks, attacks from inside a scaffold.

`python -m benchmarks.evolve --json` measures the rule alone (minutes). `--rounds 100 --work FOLDER` runs a scaffold for
that many rounds without a model and opens the sealed tasks at the end; killed, it goes on with the same command.
`--compare --work FOLDER` gives each search the same number of episodes on the same tasks (and the greedy line once more
with a frozen proposer); it goes on likewise. `--attacks` tries the scripted attacks. Shows RM2-7.16, RM2-7.23 to 7.28.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agents.sandbox import NamespaceSandbox
from benchmarks.evolve_parts.attacks import judged
from benchmarks.evolve_parts.overhead import overhead
from benchmarks.evolve_parts.repeats import repeats
from benchmarks.evolve_parts.simulated import simulated
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive, read_files
from loops.evolve.board import planted
from loops.evolve.evaluation import Evaluator
from loops.evolve.journal import FolderJournal, Mended
from loops.evolve.parents import Search
from loops.evolve.plan import History, Plan
from loops.evolve.proposer import Operators
from loops.evolve.report import first_kept, markdown, summary
from loops.evolve.rounds import Evolution
from loops.evolve.surface import params_of
from loops.evolve.tasks import read_suite

SCAFFOLDS = Path(__file__).parents[1] / "loops" / "evolve" / "scaffolds"


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def plan_of(options: argparse.Namespace, suite_hash: str) -> Plan:
    rule = Rule(rounds=options.rounds, effect=options.effect, max_pairs=options.max_pairs)
    return Plan(
        run=options.run, suite_hash=suite_hash, seed=options.seed, search=Search(options.search), rule=rule,
        control_round=0 if options.compare else max(1, options.rounds // 2),
        placebo_share=0.0 if options.compare else 0.1, frozen_proposer=options.frozen_proposer,
        max_episodes=options.max_episodes, fix_seeds=options.fix_seeds,
    )  # fmt: skip


def real_run(options: argparse.Namespace) -> dict[str, Any]:
    """The whole run, or what is left of it."""
    suite = read_suite()
    plan = plan_of(options, suite.hash)
    options.work.mkdir(parents=True, exist_ok=True)
    options.work.chmod(0o755)
    journal = FolderJournal(options.work / "journal.jsonl")
    journal.put("planted", "0", planted(suite))
    archive = Archive.begin(options.work / "archive.git", plan.run, read_files(SCAFFOLDS / options.scaffold))
    with closing(NamespaceSandbox(options.work / "sandbox")) as sandbox:
        sandbox.reap()
        evolution = Evolution(
            plan, Mended(journal), archive, Evaluator(sandbox=sandbox, suite=suite), folder=options.work / "commits",
            proposer=Operators(), tell=say, workers=options.workers,
        )  # fmt: skip
        started, before = time.monotonic(), len(evolution.history.decisions)
        while evolution.step():
            pass
        seconds, done = time.monotonic() - started, len(evolution.history.decisions) - before
        evolution.open_seal(opened_by="the benchmark", seeds=options.sealed_seeds)
    history = History(journal=journal, plan=plan)
    (options.work / "report.md").write_text(markdown(history))
    first, last = (params_of(archive.files(commit))["mechanisms"] for commit in (history.root, history.incumbent))
    timing = {
        "mechanisms_first": first,
        "mechanisms_last": last,
        "loop_detection": {
            "at_first": "loop_detection" in first,
            "at_last": "loop_detection" in last,
            "kept_in_round": first_kept(history, "add mechanism loop_detection"),
        },
        "seconds": round(seconds, 1),
        "rounds_in_them": done,
        "scaffold": options.scaffold,
    }
    return {**summary(history), **timing}


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """Each arm in a folder of its own below --work; episodes before the seal are the same budget for all."""
    arms = {str(search): (str(search), False) for search in Search} | {"greedy_frozen": (str(Search.GREEDY), True)}
    rows = {}
    for name, (search, frozen) in arms.items():
        own = {"search": search, "frozen_proposer": frozen, "run": name, "work": options.work / name}
        rows[name] = real_run(argparse.Namespace(**{**vars(options), **own}))
    say("| search | rounds | kept | episodes | sealed before | after | 95 % |\n|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        sealed = row["sealed"]
        interval = f"{sealed['low']:+.3f} to {sealed['high']:+.3f}"
        say(
            f"| {name} | {row['rounds']} | {len(row['kept'])} | {row['episodes']} | {sealed['first']:.3f} | "
            f"{sealed['last']:.3f} | {'the same scaffold' if sealed['detectable'] is None else interval} |"
        )
    return {"compared": rows}


def attacked(options: argparse.Namespace) -> dict[str, Any]:
    """Every scripted attack, in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="lt", dir="/var/tmp") as place:
        folder = Path(place)
        folder.chmod(0o755)
        with closing(NamespaceSandbox(folder / "sandbox")) as sandbox:
            cost = {} if options.only else overhead(sandbox)
            return {**cost, **judged(folder / "range", sandbox, options.only, say)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--attacks", action="store_true", help="try the scripted attacks")
    parser.add_argument("--only", default="", help="attacks of files with this in their name")
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs of 100 rounds")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of a real run")
    parser.add_argument("--compare", action="store_true", help="all searches at equal budget (40 rounds at most)")
    parser.add_argument("--work", type=Path, help="folder of the real run; kept, and gone on with")
    parser.add_argument("--run", default="bench")
    parser.add_argument("--scaffold", choices=["plain", "default"], default="plain")
    parser.add_argument("--search", choices=[str(each) for each in Search], default="greedy")
    parser.add_argument("--frozen-proposer", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effect", type=float, default=0.12)
    parser.add_argument("--max-pairs", type=int, default=240)
    parser.add_argument("--max-episodes", type=int, help="of one run: 9,000, or 1,500 with --compare")
    parser.add_argument("--fix-seeds", type=int, default=2)
    parser.add_argument("--sealed-seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if (options.rounds or options.compare) and not options.work:
        parser.error("--rounds and --compare need --work FOLDER")
    options.rounds = options.rounds or 40 * options.compare
    options.max_episodes = options.max_episodes or (1_500 if options.compare else 9_000)
    if options.attacks:
        found = attacked(options)
    elif options.compare:
        found = compared(options)
    else:
        found = real_run(options) if options.rounds else {**simulated(options.runs, options.seed), **repeats()}
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
