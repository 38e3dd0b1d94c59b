"""The page of an evolution run in a browser: rounds, evidence, and a promotion that a person approves there."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from running import RunningLathe

from context_store.records import Project
from contracts.enums import EffectKind, ProposalState
from loops.evolve.archive import Archive, read_files
from loops.evolve.evaluation import Job, Outcome
from loops.evolve.journal import CaseJournal
from loops.evolve.loop import Asked
from loops.evolve.operators import CATALOGUE
from loops.evolve.proposer import Operators
from loops.evolve.rounds import Evolution
from loops.evolve.tasks import Suite, read_suite

Page = Any
CASE = "evolve-plain-page"


class Judged:
    """Evaluates by a rule: whatever has more mechanisms solves more."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        strong = (scaffold / "mechanisms" / "verify.py").exists()
        return [
            Outcome(job=job, score=float(strong or job.seed % 3 == 0) * (job.task != "ml_scrambled"), why="by rule",
                    ended="out of asks", asks=4, chars=100)
            for job in jobs
        ]  # fmt: skip


@pytest.fixture(scope="module")
def evolved(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of twelve rounds whose case waits with its proposal."""
    folder = tmp_path_factory.mktemp("evolved")
    scaffold, store, suite = folder / "plain", lathe.store, read_suite()
    for name, text in read_files(CATALOGUE.parent / "scaffolds" / "plain").items():
        (scaffold / name).parent.mkdir(parents=True, exist_ok=True)
        (scaffold / name).write_text(text)
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=scaffold, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=scaffold, capture_output=True, text=True, check=True)
    asked = Asked(suite_hash=suite.hash, rounds=25, max_pairs=60)
    store.projects.put(Project(id="plain-1", path=str(scaffold), entry="graph:build"))
    store.knowledge.open_case(CASE, project_id="plain-1", loop="evolve", title="evolve plain", at=time.time())
    store.casework.put(CASE, "asked", "0", {**vars(asked), "argv": [], "commit": commit.stdout.strip()}, time.time())
    store.budgets.open(CASE, asked.amount)
    places = {"honeypot": ["sh_cities"], "decoy": [], "scrambled": ["ml_scrambled"]}
    store.casework.put(CASE, "planted", "0", places, time.time())
    archive = Archive.adopt(scaffold, CASE, commit.stdout.strip())
    run = Evolution(
        asked.plan(CASE), CaseJournal(store, CASE, time.time), archive, Judged(suite), folder=folder / "commits",  # type: ignore[arg-type]
        proposer=Operators(),
    )  # fmt: skip
    while run.step():
        pass
    assert [body["moves"] for body in run.history.decisions if body["kept"]]
    return CASE


def _opened(page: Page, lathe: RunningLathe, case: str) -> None:
    page.goto(f"{lathe.url}/evolution?token={lathe.admin}&case={case}")
    page.get_by_role("heading", name="Evolution", exact=True).wait_for()
    page.get_by_text("25 of 25, ").first.wait_for()


def test_a_person_reads_what_was_decided_on(page: Page, lathe: RunningLathe, evolved: str) -> None:
    """Rounds with the gain that would have been seen, the diff side by side, curves kept apart, memory, canaries."""
    _opened(page, lathe, evolved)
    rounds = page.locator(".lt-table", has_text="add mechanism verify").first
    rounds.wait_for()
    assert "Detectable gain" in rounds.inner_text()
    page.get_by_text("of the tasks and more would be seen with power 0.9").first.wait_for()
    page.locator(".lt-diff").get_by_text("verify").first.wait_for()
    page.get_by_text("rounds never reached the gate").wait_for()

    page.get_by_role("tab", name="Curves").click()
    for title in ("Fix tasks: the incumbent", "Gate: mean difference"):
        page.locator(".js-plotly-plot", has_text=title).first.wait_for()
    assert page.locator(".js-plotly-plot", has_text="Fix tasks").get_by_text("Gate:").count() == 0
    page.get_by_text("Sealed tasks: not opened.").wait_for()

    page.get_by_role("tab", name="Memory").click()
    page.get_by_role("heading", name="Lessons").wait_for()
    page.get_by_role("listitem").get_by_text("add mechanism verify: tried 1, kept 1").wait_for()
    page.get_by_role("heading", name="Where to look next").wait_for()

    page.get_by_role("tab", name="Canaries and spend").click()
    board = page.locator(".lt-table", has_text="honeypot").first
    board.wait_for()
    for row, said in (("honeypot", "none"), ("tripwire", "none"), ("leakage", "proposals"), ("scrambled", "episodes"),
                      ("decoy", "not planted"), ("control", "of 1 seen")):  # fmt: skip
        assert said in board.locator("tr", has_text=row).first.inner_text(), row
    page.get_by_text("no canary was hit").wait_for()
    page.locator(".js-plotly-plot", has_text="Hits in each round").wait_for()
    page.locator(".lt-table", has_text="Gate queries").wait_for()


def test_a_person_reads_the_evidence_and_approves_the_promotion(page: Page, lathe: RunningLathe, evolved: str) -> None:
    _opened(page, lathe, evolved)
    page.get_by_role("tab", name="Archive").click()
    page.get_by_text("first scaffold").wait_for()
    page.get_by_role("button", name="Propose to use the incumbent").click()
    page.get_by_role("link", name="decide it").click()
    page.get_by_role("heading", name="Approvals").wait_for()
    page.get_by_role("button", name="Approve").first.click()
    page.get_by_text("waits for a worker").first.wait_for()
    (proposal,) = [each for each in lathe.store.proposals.list() if each.payload.get("name") == "plain"]
    assert proposal.state is ProposalState.APPROVED
    assert "verify" in proposal.diff


def test_the_seal_is_opened_by_an_approval_and_shown_apart(page: Page, lathe: RunningLathe, evolved: str) -> None:
    _opened(page, lathe, evolved)
    page.get_by_role("button", name="Propose to open the sealed tasks").click()
    page.get_by_role("link", name="decide it").click()
    page.get_by_role("heading", name="Approvals").wait_for()
    page.get_by_text("that is done once").first.wait_for()
    (proposal,) = [each for each in lathe.store.proposals.list() if each.kind is EffectKind.OPEN_SEAL]
    page.goto(f"{lathe.url}/approvals?proposal={proposal.id}&token={lathe.admin}")
    page.get_by_role("button", name="Approve").first.click()
    deadline = time.monotonic() + 30  # the words may stand there before the click has arrived
    while lathe.store.proposals.get(proposal.id).state is ProposalState.OPEN and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert lathe.store.proposals.get(proposal.id).state is ProposalState.APPROVED
    page.get_by_text("waits for a worker").first.wait_for()
    assert lathe.store.casework.list(evolved, "sealed") == []  # a worker opens it, not the click
    journal = CaseJournal(lathe.store, evolved, time.time)
    body = {
        "opened_by": "root",
        "tasks": ["a", "b"],
        "seeds": 2,
        "root": [0.0, 1.0, 0.0, 0.0],
        "canaries": {"decoy": 1},
    }
    journal.put("sealed", "0", body | {"incumbent": [1.0, 1.0, 1.0, 0.0], "commits": ["a" * 40, "b" * 40]})
    _opened(page, lathe, evolved)
    page.get_by_text("of 1 runs that saw these tasks").wait_for()
    page.get_by_role("tab", name="Curves").click()
    page.locator(".js-plotly-plot", has_text="Sealed tasks: share solved").wait_for()
    page.get_by_text("0.250 -> 0.750 (+0.500").last.wait_for()
    page.get_by_role("tab", name="Canaries and spend").click()
    assert "sealed tasks (1)" in page.locator("tr", has_text="decoy").first.inner_text()
    page.get_by_text("0 hits by candidates, none of which was kept").wait_for()
    assert page.get_by_role("button", name="Propose to open the sealed tasks").count() == 0
