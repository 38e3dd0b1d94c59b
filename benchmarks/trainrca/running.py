"""Runs the methods on cases, goes on where it was interrupted, and grades when all have answered.

WORK/cache/       raw outputs of trainings (recording.py); small, and outlives every change of the loops
WORK/answers/     answers of exactly this code, so that an interrupted evaluation goes on; never read by `--cached`
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.demo import code_hash
from benchmarks.trainrca.answers import Answer, Facts
from benchmarks.trainrca.databases import server
from benchmarks.trainrca.form import Case, Shelf, Truth
from benchmarks.trainrca.grading import Graded, by_kind, grade, with_memory
from benchmarks.trainrca.methods import METHODS, NOT_RUN, bisection, by_lathe
from benchmarks.trainrca.methods.by_rule import by_rule
from benchmarks.trainrca.methods.reading import read_facts
from benchmarks.trainrca.placing import Bench, bench, place, remove
from benchmarks.trainrca.workers import spread
from contracts.errors import LatheError

Method = Callable[[Bench, Case, Facts], Answer]
_RUNS_TRAININGS: dict[str, Method] = {"lathe": by_lathe.answer, "bisect": bisection.answer}
_MEMORY = "lathe_memory"


@dataclass(frozen=True, kw_only=True)
class Options:
    """`cached`: every verdict anew on kept outputs. `fresh`: every training anew as well. `memory`: both arms.

    `python`: interpreter of foreign trainings. `workers`: cases beside each other, which share the processors.
    """

    work: Path
    cached: bool = False
    fresh: bool = False
    memory: bool = True
    python: str = sys.executable
    workers: int = 1


class Answers:
    """Answers of exactly this code."""

    def __init__(self, options: Options) -> None:
        own = hashlib.sha256(code_hash().encode())
        for path in sorted(Path(__file__).parent.rglob("*.py")):
            own.update(path.read_bytes())
        self._folder = options.work / "answers" / own.hexdigest()[:12]
        self._anew = options.cached or options.fresh
        self.written: set[Path] = set()

    def get(self, case_id: str, name: str) -> dict[str, Any] | None:
        """What was written before; with `cached` or `fresh` only what this process wrote."""
        path = self._path(case_id, name)
        if not path.exists() or (self._anew and path not in self.written):
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def put(self, case_id: str, name: str, found: Answer | Facts) -> None:
        path = self._path(case_id, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(found)))
        draft.replace(path)
        self.written.add(path)

    def _path(self, case_id: str, name: str) -> Path:
        return self._folder / case_id / f"{name}.json"


def evaluate(shelf: Shelf, cases: Sequence[Case], options: Options) -> dict[str, Any]:
    """All methods on all cases that can be run here, and the figures."""
    answers = Answers(options)
    not_run = [case.id for case in cases if not can_run(case.needs, options.python)]
    cases = [case for case in cases if case.id not in not_run]
    teams = _teams(cases) if options.memory else []
    with server() as url:
        place = Place(shelf=shelf, options=options, server_url=url)
        pieces = [*([case] for case in cases), *teams]
        for number, written in enumerate(spread(place.answer, pieces, options.workers), start=1):
            answers.written |= written
            sys.stderr.write(f"{number}/{len(pieces)} {' '.join(case.id for case in pieces[number - 1])}\n")
    return {**figures({case.id: shelf.truth(case.id) for case in cases}, answers), "not_run": not_run}


@cache
def can_run(needs: tuple[str, ...], python: str) -> bool:
    """Whether the interpreter has what a foreign training needs."""
    command = [python, "-c", f"import {', '.join(needs)}"]
    return not needs or subprocess.run(command, capture_output=True, check=False).returncode == 0


def _teams(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases of one project in their order, where it has several."""
    teams: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda case: case.id):
        teams.setdefault(case.project_name, []).append(case)
    return [team for team in teams.values() if len(team) > 1]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a piece of the evaluation is worked off; in whatever process."""

    shelf: Shelf
    options: Options
    server_url: str

    def answer(self, piece: Sequence[Case]) -> set[Path]:
        """Files of the answers given now: of one case by each method that runs trainings, of a team with memory."""
        answers = Answers(self.options)
        if len(piece) == 1:
            self._answer_case(piece[0], answers)
        else:
            self._answer_with_memory(piece, answers)
        return answers.written

    def _answer_case(self, case: Case, answers: Answers) -> None:
        """Each method in a home of its own."""
        for name, method in _RUNS_TRAININGS.items():
            if answers.get(case.id, name) is not None:
                continue
            with _scratch() as folder, self._bench(folder) as lathe:
                place(lathe, case, self.shelf.folder(case), folder / "project")
                facts = read_facts(lathe, case)
                answers.put(case.id, "facts", facts)
                answers.put(case.id, name, _answered(method, lathe, case, facts))

    def _answer_with_memory(self, team: Sequence[Case], answers: Answers) -> None:
        """In one home: what one case leaves behind, the next may use."""
        if all(answers.get(case.id, _MEMORY) is not None for case in team):
            return
        with _scratch() as folder, self._bench(folder) as lathe:
            for case in team:
                place(lathe, case, self.shelf.folder(case), folder / "project")
                answers.put(case.id, _MEMORY, _answered(by_lathe.answer, lathe, case, read_facts(lathe, case)))

    def _bench(self, folder: Path) -> AbstractContextManager[Bench]:
        options = self.options
        return bench(
            folder / "h",
            options.work / "cache",
            self.server_url,
            fresh=options.fresh,
            num_cpus=max(1, (os.cpu_count() or 1) // options.workers),
            python=options.python,
        )


def _answered(method: Method, lathe: Bench, case: Case, facts: Facts) -> Answer:
    """What went wrong inside a method is an answer too, and never a right one."""
    try:
        return method(lathe, case, facts)
    except LatheError as error:
        return Answer(verdict="failed", found_at=facts.found_at, seconds=facts.seconds, statement=str(error))


def figures(truths: dict[str, Truth], answers: Answers) -> dict[str, Any]:
    """What is printed: one object a method, the arms, and the late kinds apart and first."""
    library = [(_facts(answers, case_id), truth) for case_id, truth in truths.items()]
    rows: dict[str, dict[str, Graded]] = {name: {} for name in METHODS}
    for facts, truth in library:
        found = dict(by_rule(facts, library, truth))
        for name in _RUNS_TRAININGS:
            found[name] = Answer.from_json(_kept(answers, truth.id, name))
        for name, answer in found.items():
            rows[name][truth.id] = Graded(truth=truth, answer=answer)
    remembered = {
        case_id: Graded(truth=truth, answer=Answer.from_json(kept))
        for case_id, truth in truths.items()
        if (kept := answers.get(case_id, _MEMORY)) is not None
    }
    late = [row for row in rows["lathe"].values() if row.truth.late]
    told: dict[str, Any] = {
        "late_kinds": grade(late) if late else "not written yet",
        **{name: grade([row for row in of.values() if not row.truth.late]) for name, of in rows.items()},
        **NOT_RUN,
        "memory": with_memory(rows["lathe"], remembered),
        "kinds": by_kind(list(rows["lathe"].values())),
        "rows": [_row(row) for row in rows["lathe"].values()],
    }
    told["worst_kind"] = next(iter(told["kinds"].items()), None)
    return told


def _facts(answers: Answers, case_id: str) -> Facts:
    return Facts.from_json(_kept(answers, case_id, "facts"))


def _kept(answers: Answers, case_id: str, name: str) -> dict[str, Any]:
    kept = answers.get(case_id, name)
    assert kept is not None
    return kept


def _row(row: Graded) -> dict[str, Any]:
    truth, answer = row.truth, row.answer
    return {
        "case": truth.id,
        "kind": truth.kind,
        "hardness": list(truth.hardness),
        "wanted": truth.answer,
        "targets": list(truth.targets),
        "verdict": answer.verdict,
        "named": list(answer.named),
        "right": row.is_right,
        "top1": row.within(1),
        "found_at": answer.found_at,
        "reruns": answer.reruns,
        "seconds": round(answer.seconds, 1),
        "fix_held": answer.fix_held,
        "statement": answer.statement,
    }


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rca"))
    try:
        yield folder
    finally:
        remove(folder)
