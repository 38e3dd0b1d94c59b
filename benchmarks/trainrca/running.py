"""Runs the methods on cases, goes on where it was interrupted, and grades when all have answered.

WORK/cache/       raw outputs of trainings (recording.py); small, and outlives every change of the loops
WORK/answers/     answers of exactly this code, so that an interrupted evaluation goes on; never read by `--cached`
"""

from __future__ import annotations

import hashlib
import json
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
from benchmarks.trainrca.form import Case, Shelf, Truth
from benchmarks.trainrca.grading import Graded, by_kind, grade, with_memory
from benchmarks.trainrca.methods import METHODS, NOT_RUN, bisection, by_lathe
from benchmarks.trainrca.methods.by_rule import by_rule
from benchmarks.trainrca.methods.reading import read_facts
from benchmarks.trainrca.placing import Bench, bench, place, remove
from contracts.errors import LatheError

Method = Callable[[Bench, Case, Facts], Answer]
_RUNS_TRAININGS: dict[str, Method] = {"lathe": by_lathe.answer, "bisect": bisection.answer}
_MEMORY = "lathe_memory"


@dataclass(frozen=True, kw_only=True)
class Options:
    """`cached`: every verdict anew on kept outputs. `fresh`: every training anew as well. `memory`: both arms.

    `python`: interpreter of foreign trainings.
    """

    work: Path
    cached: bool = False
    fresh: bool = False
    memory: bool = True
    python: str = sys.executable


class Answers:
    """Answers of exactly this code."""

    def __init__(self, options: Options) -> None:
        own = hashlib.sha256(code_hash().encode())
        for path in sorted(Path(__file__).parent.rglob("*.py")):
            own.update(path.read_bytes())
        self._folder = options.work / "answers" / own.hexdigest()[:12]
        self._anew = options.cached or options.fresh
        self._written: set[Path] = set()

    def get(self, case_id: str, name: str) -> dict[str, Any] | None:
        """What was written before; with `cached` or `fresh` only what this process wrote."""
        path = self._path(case_id, name)
        if not path.exists() or (self._anew and path not in self._written):
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def put(self, case_id: str, name: str, found: Answer | Facts) -> None:
        path = self._path(case_id, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(found)))
        draft.replace(path)
        self._written.add(path)

    def _path(self, case_id: str, name: str) -> Path:
        return self._folder / case_id / f"{name}.json"


def evaluate(shelf: Shelf, cases: Sequence[Case], options: Options) -> dict[str, Any]:
    """All methods on all cases that can be run here, and the figures."""
    answers = Answers(options)
    not_run = [case.id for case in cases if not can_run(case.needs, options.python)]
    cases = [case for case in cases if case.id not in not_run]
    for number, case in enumerate(cases, start=1):
        sys.stderr.write(f"{number}/{len(cases)} {case.id}\n")
        _answer_case(shelf, case, options, answers)
    if options.memory:
        _answer_with_memory(shelf, cases, options, answers)
    return {**figures({case.id: shelf.truth(case.id) for case in cases}, answers), "not_run": not_run}


@cache
def can_run(needs: tuple[str, ...], python: str) -> bool:
    """Whether the interpreter has what a foreign training needs."""
    command = [python, "-c", f"import {', '.join(needs)}"]
    return not needs or subprocess.run(command, capture_output=True, check=False).returncode == 0


def _answer_case(shelf: Shelf, case: Case, options: Options, answers: Answers) -> None:
    """Each method that runs trainings, in a home of its own."""
    for name, method in _RUNS_TRAININGS.items():
        if answers.get(case.id, name) is not None:
            continue
        with _scratch() as folder, _bench(folder, options) as lathe:
            place(lathe, case, shelf.folder(case), folder / "project")
            facts = read_facts(lathe, case)
            answers.put(case.id, "facts", facts)
            answers.put(case.id, name, _answered(method, lathe, case, facts))


def _answer_with_memory(shelf: Shelf, cases: Sequence[Case], options: Options, answers: Answers) -> None:
    """The cases of one project in their order, in one home: what one leaves behind, the next may use."""
    teams: dict[str, list[Case]] = {}
    for case in cases:
        teams.setdefault(case.project_name, []).append(case)
    for team in (sorted(each, key=lambda c: c.id) for each in teams.values() if len(each) > 1):
        if all(answers.get(case.id, _MEMORY) is not None for case in team):
            continue
        with _scratch() as folder, _bench(folder, options) as lathe:
            for case in team:
                sys.stderr.write(f"with memory: {case.id}\n")
                answers.put(case.id, _MEMORY, _remembering(lathe, shelf, case, folder))


def _remembering(lathe: Bench, shelf: Shelf, case: Case, folder: Path) -> Answer:
    place(lathe, case, shelf.folder(case), folder / "project")
    return _answered(by_lathe.answer, lathe, case, read_facts(lathe, case))


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


def _bench(folder: Path, options: Options) -> AbstractContextManager[Bench]:
    return bench(folder / "h", options.work / "cache", fresh=options.fresh, python=options.python)


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rca"))
    try:
        yield folder
    finally:
        remove(folder)
