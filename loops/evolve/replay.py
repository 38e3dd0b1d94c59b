"""A run again from what it wrote down: what was measured, and what a model said, is read; all that was decided is
decided anew and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from context_store.redaction import redact_json
from contracts.errors import UserInputError
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive
from loops.evolve.evaluation import Job, Outcome
from loops.evolve.failures import trace_id
from loops.evolve.journal import Body, FolderJournal, Journal
from loops.evolve.parents import Search
from loops.evolve.plan import Plan, sources_hash
from loops.evolve.proposer import Operators, Proposer
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import Split, Suite

_DECIDED = ("root", "proposal", "decision", "memory")
_OF_ROUNDS = ("proposal", "block", "canary", "decision", "memory")


class Wanted(Exception):
    """Raised in place of running episodes: no error, it asks for what was measured."""

    def __init__(self, scaffold: Path, jobs: Sequence[Job], traced: bool) -> None:
        super().__init__(f"{len(jobs)} episodes of {scaffold.name[:12]}")
        self.commit, self.jobs, self.traced = scaffold.name, list(jobs), traced


@dataclass(frozen=True, kw_only=True)
class Measured:
    """In place of an evaluator: nothing is run."""

    suite: Suite

    def run(self, scaffold: Path, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]:
        raise Wanted(scaffold, jobs, traced)


def noted_plan(journal: Journal) -> tuple[Plan, list[str]]:
    """What the run was held to, and whether the code that decides is another one today.

    Raises UserInputError for a journal of no run, or of one whose plan has other parts than those of today.
    """
    body = journal.get("plan", "0")
    if body is None:
        raise UserInputError("this run has decided nothing yet", remedy="let it go on: lathe evolve resume CASE")
    try:
        today = {"search": Search(body["search"]), "rule": Rule(**body["rule"]), "sources": sources_hash()}
        plan = Plan(**{**body, **today})
    except (TypeError, KeyError, ValueError) as error:
        raise UserInputError(
            f"the run was begun with another version: {error}", remedy="replay it with the version it was begun with"
        ) from error
    same = plan.sources == body.get("sources")
    return plan, [] if same else ["the code that decides is another one than when the run was begun"]


def differences(
    journal: Journal, suite: Suite, archive: Archive, folder: Path, proposer: Proposer | None = None
) -> list[str]:
    """What a replay decides or names otherwise than the run did; nothing when both agree, to the hash.

    `archive`: that of the run, which stays as it is; `folder`: an empty place for the replay; `proposer`: where it was
    none of ours. Raises UserInputError where something is looked for that was not measured, or the tasks are others.
    """
    plan, found = noted_plan(journal)
    if suite.hash != plan.suite_hash:
        raise UserInputError(
            "the tasks or the evaluator are others than when the run was begun",
            remedy="replay it with the version, and the tasks, that it was begun with",
        )
    own = FolderJournal(folder / "journal.jsonl")
    _given(journal, own)
    root = journal.get("root", "0")
    assert root is not None
    again = Archive.beside(folder / "archive.git", archive, root["commit"])
    run = Evolution(
        plan, own, again, Measured(suite=suite), folder=folder / "commits", proposer=proposer or _proposer(journal)
    )
    rounds = len(journal.list("decision"))
    while len(run.history.decisions) < rounds and _stepped(run, journal, own):
        pass
    for kind in _DECIDED:
        ours, theirs = dict(own.list(kind)), dict(journal.list(kind))
        compared = [key for key in theirs if key in ours or kind != "proposal"]  # one may not be decided yet
        found += [f"{kind} {key}" for key in compared if redact_json(ours.get(key, {})) != redact_json(theirs[key])]
    return found + _refs_otherwise(_without_start(archive, root["commit"]), again.refs(), rounds)


def _without_start(archive: Archive, commit: str) -> dict[str, str]:
    """A replay adopts the first commit, where the run itself may have made it."""
    start = ("candidates/0000", commit)
    return dict(each for each in archive.refs().items() if each != start)


def _refs_otherwise(theirs: dict[str, str], ours: dict[str, str], rounds: int) -> list[str]:
    """Names of refs that differ, or that one has alone; those of a round that is not decided yet are left out."""

    def is_open(name: str) -> bool:
        number = name.rpartition("/")[2]
        return number.isdigit() and int(number) > rounds

    named = sorted(name for name in {*theirs, *ours} if not is_open(name))
    return [name for name in named if theirs.get(name) != ours.get(name)]


def _given(journal: Journal, own: Journal) -> None:
    """What a run did not find out itself: what had failed elsewhere, and of a fork the rounds before it."""
    for key, body in journal.list("barred"):
        own.put("barred", key, body)
    fork = journal.get("fork", "0")
    if fork is None:
        return
    for kind in ("fork", "fork_fix", "root"):
        own.put(kind, "0", journal.get(kind, "0") or {})
    for commit in (own.get("fork_fix", "0") or {}).get("commits", []):
        own.put("fix", commit, journal.get("fix", commit) or {})
    for kind in _OF_ROUNDS:
        for key, body in journal.list(kind):
            if int(key.split("/")[0]) <= fork["round"]:
                own.put(kind, key, body)


def _proposer(journal: Journal) -> Proposer:
    """The operators, or what a model then said."""
    barred = [str(body["move"]) for _, body in journal.list("barred_move")]
    if not journal.list("said"):
        return Operators(barred)
    from loops.evolve.model_proposer import Answers, ModelProposer

    return ModelProposer(Answers(journal, None), barred)


def _stepped(run: Evolution, journal: Journal, own: Journal) -> bool:
    """The next piece of work. Pieces that are interrupted begin again, so what one wants to know is put and it does."""
    while True:
        try:
            return run.step()
        except Wanted as wanted:
            kind, key = _sought(run, wanted)
            body = journal.get(kind, key)
            if body is None or not _fits(kind, body, wanted):
                raise UserInputError(
                    f"the run has not measured {wanted} in round {run.history.number}",
                    remedy="it was decided otherwise, or what it wrote down is incomplete",
                ) from None
            own.put(kind, key, body)


def _sought(run: Evolution, wanted: Wanted) -> tuple[str, str]:
    number = run.history.number
    if wanted.traced:
        return "fix", wanted.commit
    if wanted.jobs[0].task in run.suite.of(Split.CANARY):
        return "canary", str(number)
    return "block", f"{number}/{run.history.num_blocks(number)}"


def _fits(kind: str, body: Body, wanted: Wanted) -> bool:
    """It was measured on these very tasks and seeds."""
    jobs = [[job.task, job.seed] for job in wanted.jobs]
    if kind == "block":
        return jobs in (body["jobs"], body["candidate_jobs"])
    if kind == "canary":
        return bool(jobs == body["jobs"])
    traces = redact_json([trace_id(wanted.commit, job) for job in wanted.jobs])
    return bool(traces == redact_json(body["traces"])) and len(body["scores"]) == len(jobs)
