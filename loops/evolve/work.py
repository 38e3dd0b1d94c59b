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
from loops.evolve.journal import CaseJournal, Journal, Mended
from loops.evolve.loop import NAME, asked_of, history_of, seals_of
from loops.evolve.proposer import Operators, Proposer
from loops.evolve.report import markdown
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
        journal = CaseJournal(place.store, place.case_id, time.time)
        yield Evolution(
            asked.plan(place.case_id),
            Mended(journal),
            Archive.adopt(Path(project.path), place.case_id, start),
            Evaluator(sandbox=sandbox, suite=suite, argv=asked.argv),
            folder=place.folder / "commits",
            proposer=_proposer(place, journal, asked.model),
            tell=place.tell,
        )


def _proposer(place: Workplace, journal: Journal, model: bool) -> Proposer:
    barred = [str(body["move"]) for _, body in journal.list("barred_move")]
    if not model:
        return Operators(barred)
    from loops.evolve.model_proposer import Answers, ModelProposer

    return ModelProposer(Answers(journal, place.door()), barred)


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


def seal(place: Workplace, opened_by: str) -> Json:
    """Opens the sealed tasks, once, for whoever approved it; the ledger notes how many runs have seen the same tasks.

    It is no work that a loop may ask for. Raises NotPermitted while the run goes on.
    """
    store, case_id = place.store, place.case_id
    with evolution(place) as run:
        found = run.open_seal(opened_by)
    store.knowledge.put_report(case_id, markdown(history_of(store, case_id)))
    if "seal" not in {work.key for work in store.casework.list(case_id, "noted")}:
        detail = {"runs_that_saw_these_tasks": seals_of(store, case_id), "tasks": found["tasks"]}
        store.ledger.append(found["opened_by"], "seal_opened", f"investigation:{case_id}", detail, (), time.time())
        store.casework.put(case_id, "noted", "seal", {}, time.time())
    return found


WORK: Mapping[str, Work] = {"rounds": rounds}
