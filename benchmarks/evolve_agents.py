"""Lathe's own agents as scaffolds of the evolve loop: writes a scaffold under git and its suite of question tasks.

python -m benchmarks.evolve_agents chat FOLDER                    written questions over the published incidents
python -m benchmarks.evolve_agents diagnosis FOLDER --cases DIR   cases of TrainRCA (benchmarks/trainrca/README.md)

lathe evolve run FOLDER/scaffold --suite FOLDER/suite             then evolves it
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.agent_parts.worlds import Incidents, fresh_store
from benchmarks.agents import known_questions
from benchmarks.evolve_parts import chat_tasks, diagnosis_tasks
from benchmarks.evolve_parts.exporting import write_scaffold, write_suite
from benchmarks.trainrca.form import Shelf
from contracts.errors import LatheError
from loops.evolve.tasks import Split


def export(folder: Path, cases: Path | None) -> dict[str, Any]:
    """Of the chat, or with `cases` of the ranking: tasks by split, what was left out, and how many are right now."""
    if cases is None:
        with fresh_store() as store:
            questions, left_out = chat_tasks.exported(store, Incidents(store), known_questions())
        files = chat_tasks.files()
    else:
        questions, left_out = diagnosis_tasks.exported(Shelf(cases))
        files = diagnosis_tasks.files()
    suite = write_suite(folder / "suite", questions)
    write_scaffold(folder / "scaffold", files)
    sizes = {str(split): len(suite.of(split)) for split in Split}
    return {**sizes, "left_out": left_out, "right_now": sum(each.is_answered for each in questions)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", choices=("chat", "diagnosis"))
    parser.add_argument("folder", type=Path, help="a new folder: scaffold/ and suite/ are written there")
    parser.add_argument("--cases", type=Path, help="a folder with the cases of TrainRCA and their truths")
    options = parser.parse_args()
    if options.agent == "diagnosis" and options.cases is None:
        parser.error("diagnosis needs --cases DIR (python -m benchmarks.trainrca makes them)")
    try:
        found = export(options.folder, options.cases if options.agent == "diagnosis" else None)
    except LatheError as error:
        raise SystemExit(f"{error.message} ({error.remedy})") from error
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
