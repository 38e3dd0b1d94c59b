"""A run again from its bundle: what was measured is read, everything that was decided is decided anew and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import UserInputError
from loops.evolve.archive import Archive, Files
from loops.evolve.evaluation import Job, Outcome
from loops.evolve.journal import FolderJournal, Journal
from loops.evolve.plan import History, Plan
from loops.evolve.proposer import Proposer
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import Suite

_MEASURED = ("fix", "block", "canary", "barred")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """In place of an evaluator: nothing is run. Raises UserInputError when something is asked that was not measured."""

    suite: Suite

    def run(self, scaffold: Path, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]:
        raise UserInputError(
            f"the bundle lacks {len(jobs)} episodes of {scaffold.name[:12]}",
            remedy="the run was decided otherwise, or the bundle is incomplete",
        )


def differences(
    journal: Journal, plan: Plan, suite: Suite, files: Files, refs: dict[str, str], folder: Path, proposer: Proposer
) -> list[str]:
    """What a replay decides or names otherwise than the run did; nothing when both agree, to the hash.

    `files`: the first scaffold; `refs`: the run's refs; `folder`: an empty place for the replay.
    """
    again = FolderJournal(folder / "journal.jsonl")
    for kind in _MEASURED:
        for key, body in journal.list(kind):
            again.put(kind, key, body)
    archive = Archive.begin(folder / "archive.git", plan.run, files)
    replayed = Evolution(plan, again, archive, Measured(suite=suite), folder=folder / "commits", proposer=proposer)
    rounds = len(History(journal=journal, plan=plan).decisions)
    while len(replayed.history.decisions) < rounds and replayed.step():
        pass
    found = []
    for kind in ("root", "proposal", "decision", "memory"):
        ours, theirs = dict(again.list(kind)), dict(journal.list(kind))
        found += [
            f"{kind} {key}" for key in theirs if key in ours or kind != "proposal" if ours.get(key) != theirs[key]
        ]
    return found + [name for name, value in archive.refs().items() if refs.get(name) != value]
