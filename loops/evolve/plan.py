"""What a run is held to, and what its journal says happened. Pure reading: no evaluation, no git."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from contracts.errors import UserInputError
from loops.evolve.acceptance import ErrorBudget, Reading, Rule, Standing, read
from loops.evolve.evaluation import Job
from loops.evolve.ideas import SAME, likeness
from loops.evolve.journal import Body, Journal
from loops.evolve.parents import Node, Search
from loops.evolve.tasks import Split, Suite

PLACEBO, CONTROL, IDEA = "placebo", "control", "idea"
_DECIDING = (
    "acceptance.py", "archive.py", "control.py", "declared.py", "evaluation.py", "failures.py", "ideas.py",
    "journal.py", "model_proposer.py", "operators.py", "parents.py", "plan.py", "proposer.py", "rounds.py",
    "surface.py", "tasks.py", "catalogue", "scaffolds/plain",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Pinned when the run begins; a run whose suite or plan has changed does not go on.

    `placebo_share` of the rounds change nothing, and the round `control_round` tests one fixed edit that is known to
    help (control.py): the gate is told of neither, and neither is screened. `screen`: only a candidate that solves so
    much more of the fix tasks than what it is compared with goes to the gate; that spends nothing of the error budget.
    `fix_seed`: what the seeds of the fix tasks are drawn from, that of its source in a fork; None: `seed`.
    `frozen_proposer`: failures and proposer settings stay those of the first commit. `max_episodes` is the budget of
    the whole run up to the seal. `sources`: the hash of the code that proposes and decides.
    """

    run: str
    suite_hash: str
    seed: int = 0
    search: Search = Search.GREEDY
    rule: Rule = field(default_factory=Rule)
    block: int = 20
    placebo_share: float = 0.1
    control_round: int = 0
    frozen_proposer: bool = False
    fix_seeds: int = 2
    fix_seed: int | None = None
    screen: float = 0.05
    max_episodes: int = 40_000
    sources: str = field(default_factory=lambda: sources_hash())

    @property
    def body(self) -> Body:
        return asdict(self)

    def chance(self, *words: object) -> random.Random:
        """Randomness for one purpose, the same whenever it is asked for."""
        return random.Random(f"{self.seed}:" + ":".join(map(str, words)))

    def kind(self, number: int) -> str:
        """What round `number` really is; only the report asks."""
        if number == self.control_round:
            return CONTROL
        others = [each for each in range(1, self.rule.rounds + 1) if each != self.control_round]
        placebos = self.chance("placebos").sample(
            others, min(len(others), round(self.placebo_share * self.rule.rounds))
        )
        return PLACEBO if number in placebos else IDEA

    def pairs(self, suite: Suite, number: int, block: int) -> list[Job]:
        """The pairs of a block: tasks of the gate drawn with replacement, each with a seed used nowhere else.

        The name of the run is in it: runs with the same `seed` do not test on the same episodes.
        """
        tasks = suite.of(Split.GATE)
        chance = self.chance(self.run, "pairs", number, block)
        return [
            Job(task=chance.choice(tasks), seed=_seed(self.run, self.seed, number, block, index))
            for index in range(self.block)
        ]

    def sealed_jobs(self, suite: Suite, seeds: int) -> list[Job]:
        """Each task of the seal with so many seeds of this run."""
        chance = self.chance(self.run, "sealed")
        return [Job(task=task, seed=chance.getrandbits(48)) for _ in range(seeds) for task in suite.of(Split.SEALED)]

    def candidate_jobs(self, jobs: Sequence[Job], kind: str) -> list[Job]:
        """Those of the pairs; a placebo's have other seeds, or both arms would be one run and measure nothing."""
        return [replace(job, seed=_seed(job.seed, "other arm")) for job in jobs] if kind == PLACEBO else list(jobs)

    def piece(self, suite: Suite) -> int:
        """Episodes that one piece of work may take; no piece begins with less left."""
        return max(2 * self.block, len(self.fix_jobs(suite))) + len(suite.of(Split.CANARY))

    def fix_jobs(self, suite: Suite) -> list[Job]:
        return [
            Job(task=task, seed=_seed(self.seed if self.fix_seed is None else self.fix_seed, "fix", each, 0))
            for task in suite.of(Split.FIX)
            for each in range(self.fix_seeds)
        ]


def sources_hash(folder: Path = Path(__file__).parent) -> str:
    """Of the files that propose and decide: under others a run does not go on."""
    digest = hashlib.sha256()
    for place in (folder / name for name in _DECIDING):
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _seed(*words: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:6], "big")


def pinned(journal: Journal, plan: Plan) -> None:
    """Notes the plan, or compares it with the one noted. Raises UserInputError when they differ."""
    journal.put("plan", "0", plan.body)
    noted = journal.get("plan", "0")
    differing = sorted(name for name, value in plan.body.items() if noted is None or noted.get(name) != value)
    if differing:
        raise UserInputError(
            f"run {plan.run} was begun with another " + ", ".join(differing),
            remedy="go on with what it was begun with, or begin or fork another run",
        )


@dataclass(frozen=True, kw_only=True)
class History:
    """The journal as the engine needs it."""

    journal: Journal
    plan: Plan

    @property
    def root(self) -> str:
        found = self.journal.get("root", "0")
        assert found is not None
        return str(found["commit"])

    @property
    def decisions(self) -> list[Body]:
        """In the order of rounds."""
        return sorted((body for _, body in self.journal.list("decision")), key=lambda body: body["round"])

    @property
    def number(self) -> int:
        """The round that is due, from 1."""
        return len(self.decisions) + 1

    @property
    def incumbent(self) -> str:
        kept = [body["candidate"] for body in self.decisions if body["kept"]]
        return str(kept[-1]) if kept else self.root

    @property
    def budget(self) -> ErrorBudget:
        """What is left of the run's error budget before the round that is due."""
        budget = ErrorBudget.of(self.plan.rule)
        for body in self.decisions:  # of a fork, the shares of the run it comes from
            budget = budget.settled(_reading(body), body["alpha"]) if body["num_pairs"] else _unspent(budget)
        return budget

    def kind(self, body: Body) -> str:
        """What a decided round was; a fork has it from the run it comes from."""
        return str(body.get("kind") or self.plan.kind(body["round"]))

    @property
    def over(self) -> bool:
        """Every round is decided, or what is left of the episodes does not pay for the next piece of work."""
        price = (self.journal.get("price", "0") or {"episodes": 1})["episodes"]
        short = self.episodes + price > self.plan.max_episodes
        return self.number > self.plan.rule.rounds or (short and self.ready(self.number) is None)

    def ready(self, number: int) -> str | None:
        """Why a round can be decided without another pair; None while it cannot."""
        proposal = self.journal.get("proposal", str(number))
        if proposal is None:
            return None
        if not proposal["commit"]:
            return "nothing new to try"
        if self.plan.kind(number) == IDEA:
            base, candidate = (self.fix_score(proposal[name]) for name in ("base", "commit"))
            if base is None or candidate is None:
                return None
            if candidate - base < self.plan.screen - 1e-9:
                return f"screened out: {candidate - base:+.3f} on the fix tasks"
        standing = self.reading(number).standing
        return None if standing is Standing.GOES_ON else str(standing)

    def differences(self, number: int) -> list[float]:
        blocks = dict(self.journal.list("block"))
        found: list[float] = []
        for block in range(len(blocks)):
            body = blocks.get(f"{number}/{block}")
            if body is None:
                break
            found += [new - old for old, new in zip(body["base"], body["candidate"], strict=True)]
        return found

    def num_blocks(self, number: int) -> int:
        return len(self.differences(number)) // self.plan.block

    def reading(self, number: int) -> Reading:
        return read(self.differences(number), self.budget.share, self.plan.rule)

    @property
    def episodes(self) -> int:
        """Spent so far, on every split but the sealed one, which is opened when nothing more is spent.

        Those that were begun twice count twice (`again`). What a fork has from the run it comes from was spent there.
        """
        before = (self.journal.get("fork", "0") or {"round": 0})["round"]
        given = (self.journal.get("fork_fix", "0") or {"commits": []})["commits"]
        blocks = [body for key, body in self.journal.list("block") if before < int(key.split("/")[0]) <= self.number]
        fix = [body for commit, body in self.journal.list("fix") if commit not in given]
        canary = [body for key, body in self.journal.list("canary") if int(key) > before]
        return (
            2 * sum(len(body["base"]) for body in blocks)
            + sum(len(body["scores"]) for body in fix)
            + sum(int(body.get("episodes", 1)) for body in canary)
            + sum(int(body.get("again", 0)) for body in (*blocks, *fix, *canary))
        )

    @property
    def sealed_episodes(self) -> int:
        return sum(len(body["root"]) * len(set(body["commits"])) for _, body in self.journal.list("sealed"))

    @property
    def nodes(self) -> list[Node]:
        """Of the archive: commits with results on the fix split."""
        parents: dict[str, str | None] = {self.root: None}
        parents |= {body["commit"]: body["parent"] for _, body in self.journal.list("proposal") if body["commit"]}
        return [
            Node(commit=commit, parent=parents[commit], passed=sum(body["scores"]), episodes=len(body["scores"]))
            for commit, body in self.journal.list("fix")
            if commit in parents
        ]

    def fix_score(self, commit: str) -> float | None:
        """Share of the fix episodes solved; None while they were not run."""
        body = self.journal.get("fix", commit)
        return None if body is None else sum(body["scores"]) / len(body["scores"])

    def failed_before(self, parts: frozenset[str], base_tree: str) -> str:
        """The round or earlier result in which the same idea, made on the same scaffold, was not kept; "" for none."""
        proposals = dict(self.journal.list("proposal"))
        for body in self.decisions:
            proposal = proposals[str(body["round"])]
            same_base = proposal.get("base_tree") == base_tree
            if not body["kept"] and same_base and likeness(parts, proposal["parts"]) >= SAME:
                return f"round {body['round']}"
        for key, body in self.journal.list("barred"):
            if likeness(parts, body["parts"]) >= SAME and body.get("base_tree") in ("", base_tree):
                return key
        return ""


def _reading(body: Mapping[str, Any]) -> Reading:
    return Reading(
        standing=Standing(body["standing"]),
        num_pairs=body["num_pairs"],
        mean=body["mean"],
        wealth=body["wealth"],
        doubt=body["doubt"],
    )


def _unspent(budget: ErrorBudget) -> ErrorBudget:
    return ErrorBudget(left=budget.left, rounds_left=budget.rounds_left - 1)
