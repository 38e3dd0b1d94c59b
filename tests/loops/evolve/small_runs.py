"""Small runs for tests: a quick scaffold, plans, and evaluators that judge by a rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive, read_files
from loops.evolve.evaluation import Evaluator, Job, Outcome
from loops.evolve.journal import FolderJournal, Mended
from loops.evolve.operators import CATALOGUE, Move, apply
from loops.evolve.plan import Plan
from loops.evolve.proposer import Draft, Operators
from loops.evolve.rounds import Evolution

GRAPH = """
import importlib, json
from pathlib import Path

HERE = Path(__file__).parent


class Loop:
    def __init__(self, desk):
        self.desk = desk

    def invoke(self, state, config):
        desk, params = self.desk, json.loads((HERE / "params.json").read_text())
        kinds = [importlib.import_module(f"mechanisms.{name}") for name in params["mechanisms"]]
        mechanisms = [kind.Mechanism(params, desk) for kind in kinds]
        skills = [(HERE / "skills" / f"{name}.md").read_text() for name in params["skills"]]
        texts = ["\\n".join(skills), f"TASK {desk.task}\\n\\n"]
        while True:
            view = [{"role": "user", "text": text} for text in texts]
            action = desk.ask(view, params["tools"], params["temperature"])
            text = desk.tool(action["tool"], action["args"])
            for each in mechanisms:
                text = each.after(action, text)
            texts.append(text)


def build(desk):
    return Loop(desk)
"""
FILES = {**read_files(CATALOGUE.parent / "scaffolds" / "plain"), "graph.py": GRAPH}  # a loop is quicker than a graph


class Scripted:
    """Proposes these changes, one a round; a proposer of equal standing."""

    name = "scripted"

    def __init__(self, *drafts: tuple[Move, ...]) -> None:
        self._drafts = drafts

    def propose(self, situation, fresh):  # type: ignore[no-untyped-def]
        for moves in self._drafts[(situation.number - 1) % len(self._drafts) :]:
            files = situation.files
            for move in moves:
                files = apply(files, move)
            if fresh(files):
                names = tuple(move.name for move in moves)
                return Draft(files=files, moves=names, hypothesis="; ".join(names), critique=tuple(situation.findings))
        return None


def small_plan(quick: Evaluator, **changes: object) -> Plan:
    rule = Rule(rounds=2, effect=0.4, max_pairs=8, run_alpha=0.5)
    settings = {"rule": rule, "seed": 3, "placebo_share": 0.0, "block": 4, "fix_seeds": 1, "screen": -1.0, **changes}
    return Plan(run="test", suite_hash=quick.suite.hash, **settings)  # type: ignore[arg-type]


def evolution_in(folder: Path, plan: Plan, quick: Evaluator, proposer: object = None) -> Evolution:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    archive = Archive.begin(folder / "archive.git", plan.run, FILES)
    return Evolution(
        plan, Mended(FolderJournal(folder / "journal.jsonl")), archive, quick, folder=folder / "commits",
        proposer=proposer or Operators(),
    )  # fmt: skip


class Lucky:
    """An evaluator by which nothing differs; for what does not depend on tasks."""

    def __init__(self, quick: Evaluator) -> None:
        self.suite = quick.suite

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        return [Outcome(job=job, score=1.0, why="", ended="submitted", asks=1, chars=1) for job in jobs]


class Changed(Lucky):
    """Whatever was changed solves every task but the scrambled one."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        changed = read_files(scaffold) != FILES and jobs[0].task != "ml_scrambled"
        return [replace(each, score=float(changed)) for each in super().run(scaffold, jobs)]


class Leaking(Lucky):
    """Whatever was changed solves every task, also the scrambled one: it knows labels."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        changed = read_files(scaffold) != FILES
        return [replace(each, score=float(changed)) for each in super().run(scaffold, jobs)]


class Coins(Lucky):
    """Whether a task is solved depends on the seed alone."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        return [replace(each, score=float(each.job.seed % 2)) for each in super().run(scaffold, jobs)]


class Greedy(Lucky):
    """Its candidates read planted answers on the fix tasks and pass every pair; what they are compared with, there."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        changed = read_files(scaffold) != FILES
        found = super().run(scaffold, jobs)
        canaries = ("honeypot",) if traced == changed else ()
        scrambled = jobs[0].task == "ml_scrambled"
        return [replace(each, score=float(changed and not scrambled), canaries=canaries) for each in found]
