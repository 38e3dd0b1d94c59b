"""Evolution runs decided once more, offline: nothing is executed, no model is asked, the run stays as it is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from context_store import Store
from contracts.errors import UserInputError
from loops.evolve.archive import Archive
from loops.evolve.journal import FolderJournal, Journal
from loops.evolve.loop import asked_of, history_of
from loops.evolve.plan import History
from loops.evolve.replay import differences, noted_plan
from loops.evolve.tasks import STARTER, read_suite

_COPIED = ("proposal", "block", "canary", "memory")


@dataclass(frozen=True, kw_only=True)
class Replay:
    """`differences` is empty when every decision, and every hash in the archive, came out the same."""

    run: str
    rounds: int
    differences: tuple[str, ...]


def replayed(store: Store, case_id: str) -> list[Replay]:
    """The run, and before it those that it was forked from. Raises UserInputError where it cannot be replayed."""
    asked, journal = asked_of(store, case_id), history_of(store, case_id).journal
    project = store.projects.get(store.knowledge.investigation(case_id).project_id)
    suite = read_suite(Path(asked.suite) if asked.suite else STARTER)
    fork = journal.get("fork", "0")
    sources = [] if fork is None else replayed(store, fork["source"])
    copied = (
        [] if fork is None else _copied_otherwise(journal, history_of(store, fork["source"]).journal, fork["round"])
    )
    with tempfile.TemporaryDirectory() as place:
        found = differences(journal, suite, Archive(Path(project.path), case_id), Path(place))
    rounds = len(journal.list("decision"))
    return [*sources, Replay(run=case_id, rounds=rounds, differences=(*copied, *found))]


def replayed_folder(folder: Path, suite: Path | None) -> list[Replay]:
    """A run that lies in a folder (`journal.jsonl`, `archive.git`). Raises as `replayed`."""
    with history_in(folder) as history, tempfile.TemporaryDirectory() as place:
        archive = Archive(folder / "archive.git", history.plan.run)
        found = differences(history.journal, read_suite(suite or STARTER), archive, Path(place))
    return [Replay(run=history.plan.run, rounds=len(history.decisions), differences=tuple(found))]


@contextmanager
def history_in(folder: Path) -> Iterator[History]:
    """Of a copy of its journal: the run may be going on. UserInputError where none is."""
    if not (folder / "journal.jsonl").is_file():
        raise UserInputError(f"{folder} holds no run", remedy="give a case, or a folder with journal.jsonl")
    with tempfile.TemporaryDirectory() as place:
        journal = FolderJournal(Path(shutil.copy(folder / "journal.jsonl", place)))
        yield History(journal=journal, plan=noted_plan(journal)[0])


def _copied_otherwise(journal: Journal, source: Journal, last: int) -> list[str]:
    """Rounds before a fork that are not those of the run it comes from."""
    return [
        f"{kind} {key} of the run it was forked from"
        for kind in _COPIED
        for key, body in source.list(kind)
        if int(key.split("/")[0]) <= last and journal.get(kind, key) != body
    ]
