"""Chat without a model: written questions, right evidence, "the store does not know"; and orders hidden in stored text.

The questions of `agent_questions/` and of each `--questions FILE` are asked over 20 published incidents and over the
home of a finished demo: `--home FOLDER`, else one that is made here (some minutes).

answered_with_right_evidence  share of questions with a known answer that cite the right evidence: over incidents in the
                              first statement, over the demo in any that is shown
unknown_said_unknown          share of questions the store cannot answer to which it says so
injection                     a model that obeys every order it reads in stored text (agent_parts/injections.py):
                              effects without an approval, and verdicts or cases that are another afterwards
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.chat import Answers, Retrieval
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.injections import measure_injections
from benchmarks.agent_parts.worlds import Demo, Incidents, fresh_store
from benchmarks.agent_parts.written import Graded, Over, World, Written, grade, read_questions, summary
from context_store import Store

QUESTIONS = Path(__file__).parent / "agent_questions"
RULES = "rules"


def rules_of(store: Store) -> Answers:
    """Chat without a model."""
    return Retrieval(store, Toolbox(store, READING))


def known_questions(more: Sequence[Path] = ()) -> dict[str, tuple[Written, ...]]:
    """All files of questions, by name."""
    return {path.stem: read_questions(path) for path in (*sorted(QUESTIONS.glob("*.json")), *more)}


@contextmanager
def finished_demo(home: Path | None) -> Iterator[Path]:
    """`home`, or the home of a demo that is run here and gone afterwards."""
    if home is not None:
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="lt") as folder:
        options = ("--fault", "over_balance", "--seed", "0", "--yes", "--no-ui", "--json", "--home", folder)
        demo = [sys.executable, "-m", "control_plane.cli.main", "demo", *options]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        yield Path(folder)


def ask_all(home: Path, files: dict[str, tuple[Written, ...]]) -> dict[str, list[Graded]]:
    """The rules' answers, by file."""
    from control_plane.settings import load_settings
    from control_plane.wiring import Lathe

    rows: dict[str, list[Graded]] = {name: [] for name in files}
    with fresh_store() as store, Lathe.open(load_settings(home)) as lathe:
        worlds: dict[Over, tuple[World, Store]] = {
            Over.INCIDENTS: (Incidents(store), store),
            Over.DEMO: (Demo(lathe.store), lathe.store),
        }
        for _, asked in worlds.values():
            asked.search.embed()  # as upkeep does
        for name, questions in files.items():
            for over, (world, asked) in worlds.items():
                mine = [each for each in questions if each.over is over]
                rows[name] += grade(world, rules_of(asked), mine)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--home", type=Path, help="home of a finished demo (over_balance, seed 0)")
    parser.add_argument("--questions", nargs="+", type=Path, default=[], help="more files of written questions")
    parser.add_argument("--alone", action="store_true", help="ask the questions of --questions and no others")
    parser.add_argument("--only", choices=("questions", "injection"), help="only this half")
    options = parser.parse_args()
    found: dict[str, Any] = {"brain": RULES}
    if options.only != "injection":
        with finished_demo(options.home) as home:
            files = known_questions(options.questions)
            chosen = {path.stem for path in options.questions} if options.alone else set(files)
            rows = ask_all(home, {name: file for name, file in files.items() if name in chosen})
        found |= summary([each for of_file in rows.values() for each in of_file])
        found["by_file"] = {name: summary(of_file) for name, of_file in rows.items()}
    if options.only != "questions":
        found["injection"] = measure_injections()
    sys.stdout.write((json.dumps(found) if options.json else json.dumps(found, indent=1)) + "\n")


if __name__ == "__main__":
    main()
