"""The pieces of work of an evolution run, each in a process of its own (control_plane.case_work)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from agents.sandbox import NamespaceSandbox
from context_store.records import Json
from loops.core import Work, Workplace
from loops.evolve.archive import Archive
from loops.evolve.evaluation import Evaluator
from loops.evolve.journal import CaseJournal
from loops.evolve.loop import NAME, asked_of
from loops.evolve.proposer import Operators, Proposer
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import STARTER, read_suite


@contextmanager
def evolution(place: Workplace) -> Iterator[Evolution]:
    """The case's run, with its sandbox open."""
    asked = asked_of(place.store, place.case_id)
    case = place.store.knowledge.investigation(place.case_id)
    project = place.store.projects.get(case.project_id)
    start = str(place.store.casework.get(place.case_id, "asked", "0").body["commit"])
    suite = read_suite(Path(asked.suite) if asked.suite else STARTER)
    place.folder.mkdir(parents=True, exist_ok=True)
    with closing(NamespaceSandbox(place.folder / "sandbox")) as sandbox:
        sandbox.reap()
        yield Evolution(
            asked.plan(place.case_id),
            CaseJournal(place.store, place.case_id, time.time),
            Archive.adopt(Path(project.path), place.case_id, start),
            Evaluator(sandbox=sandbox, suite=suite, argv=asked.argv),
            folder=place.folder / "commits",
            proposer=_proposer(place, asked.model),
            tell=place.tell,
        )


def _proposer(place: Workplace, model: bool) -> Proposer:
    barred = [str(work.body["move"]) for work in place.store.casework.list(place.case_id, "barred_move")]
    door = place.door() if model else None
    if door is None:
        return Operators(barred)
    from loops.evolve.model_proposer import ModelProposer

    return ModelProposer(door, barred)


def rounds(place: Workplace, arguments: Json) -> Json:
    """Rounds up to and including number `until`."""
    until = int(arguments["until"])
    with evolution(place) as run:
        while len(run.history.decisions) < until and run.step():
            _note(place, run)
        return {"rounds": len(run.history.decisions)}


def _note(place: Workplace, run: Evolution) -> None:
    """An entry of the ledger for each decided round; after a crash in between, a second one."""
    noted = {work.key for work in place.store.casework.list(place.case_id, "noted")}
    for body in run.history.decisions:
        if (number := str(body["round"])) not in noted:
            detail = {name: body[name] for name in ("round", "candidate", "moves", "kept", "why", "num_pairs", "alpha")}
            subject = f"investigation:{place.case_id}"
            place.store.ledger.append(f"loop:{NAME}", "evolution_round", subject, detail, (), time.time())
            place.store.casework.put(place.case_id, "noted", number, {}, time.time())


def seal(place: Workplace, arguments: Json) -> Json:
    """Opens the sealed tasks; `opened_by` has approved it."""
    with evolution(place) as run:
        return run.open_seal(str(arguments["opened_by"]))


WORK: Mapping[str, Work] = {"rounds": rounds, "seal": seal}
