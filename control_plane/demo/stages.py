"""The stages of one demo, in order. Each finds what an earlier attempt did and only does the rest."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace

from context_store.records import Project
from contracts.enums import InvestigationState, ProposalState, Verdict
from control_plane.demo.approval import decide
from control_plane.demo.faults import Fault
from control_plane.demo.history import History, lay_out
from control_plane.demo.home import DemoHome, Truth
from control_plane.demo.innocent import INNOCENT
from control_plane.demo.outcome import Answer, as_object, is_right, read_answer
from control_plane.demo.pair import LAST_STEP, MAIN, PILOT, train_pair
from control_plane.demo.report import OWN_RUN, write_report
from control_plane.demo.screen import Screen
from control_plane.encoding import dumps
from control_plane.given_up import ask_again
from control_plane.projects import register_project
from control_plane.wiring import Lathe
from control_plane.worker import Feed, Worker
from loops.debug import detect, open_case

_MAX_REMEMBERED = 5


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the person asked for."""

    fault: Fault
    seed: int
    yes: bool
    with_page: bool


class Demo:
    """One attempt. `page` is the UI's URL or ""; `began_at` is on the monotonic clock, earlier attempts included."""

    def __init__(
        self, choice: Choice, home: DemoHome, lathe: Lathe, screen: Screen, page: str, *, began_at: float
    ) -> None:
        self._choice = choice
        self._home = home
        self._lathe = lathe
        self._store = lathe.store
        self._screen = screen
        self._page = page
        self._began_at = began_at
        self._feed = Feed(lathe.store, screen.activity, after=self._newest_activity())

    def run(self) -> str:
        """All stages. Returns the outcome as one line of JSON."""
        self._lathe.backend  # noqa: B018 (begins to start while the project is laid out)
        self._lathe.shipper.catch_up(time.time())
        history = self._lay_out()
        project = register_project(self._store, history.project, owner=self._lathe.settings.actor)
        self._train(project, history)
        case_id = self._look()
        if case_id:
            self._find_the_cause(case_id)
            self._decide_and_apply(case_id)
        answer = read_answer(self._store, case_id)
        return self._conclude(case_id, project, answer)

    def _lay_out(self) -> History:
        choice = self._choice
        self._screen.stage("A training project with its own history")
        history = lay_out(self._home.project, choice.fault, choice.seed)
        self._home.hide_truth(
            Truth(fault=choice.fault.name, cause_kind=str(choice.fault.cause_kind), commits=history.faulty)
        )
        self._screen.say(f"  {history.project}: {len(history.commits)} commits after the first; one may be a fault")
        return history

    def _train(self, project: Project, history: History) -> None:
        self._screen.stage("Two real trainings: the pilot as it was before, the main run with the later commits")
        with self._screen.trainings(self._store, {PILOT: LAST_STEP, MAIN: LAST_STEP}) as bars:
            train_pair(self._lathe, project, history, self._choice.seed, bars.update)
        self._screen.say(f"  both are at step {LAST_STEP}; the main run was resumed twice, last with half the ranks")

    def _look(self) -> str:
        """The case, or "" when nothing is wrong. What an earlier attempt found stands: the run has changed since."""
        self._screen.stage("Is anything wrong?")
        progress = self._home.progress()
        assert progress is not None
        if progress.case_id is None:
            detect(self._store, PILOT)
            case_id = open_case(self._store, MAIN, detect(self._store, MAIN), time.time()) or ""
            progress = self._home.save(replace(progress, case_id=case_id))
        for run_id in (PILOT, MAIN):
            found = self._store.knowledge.anomalies(run_id=run_id)
            self._screen.findings(run_id, [anomaly.statement for anomaly in found])
        return progress.case_id or ""

    def _find_the_cause(self, case_id: str) -> None:
        self._screen.stage("Why? Suspects, and the training run again without, and with, each")
        self._drive(case_id)
        self._screen.suspects(self._store.knowledge.suspects(case_id))
        self._screen.reruns(self._store.knowledge.diagnostics(case_id))
        self._screen.say(self._store.knowledge.investigation(case_id).statement, "bold")

    def _decide_and_apply(self, case_id: str) -> None:
        waiting = self._store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id)
        if waiting:
            self._screen.stage("Your approval")
            decide(
                self._store,
                self._screen,
                waiting[-1],
                actor=self._lathe.settings.actor,
                yes=self._choice.yes,
                page=self._page,
            )
        if self._store.knowledge.investigation(case_id).state != InvestigationState.CLOSED:
            self._screen.stage("The main run goes on with the fix")
            self._drive(case_id)

    def _drive(self, case_id: str) -> None:
        """Until the case is closed or waits for a person."""
        ask_again(self._store, case_id, self._lathe.settings.actor, time.time())
        with Worker(self._lathe, name=f"demo:{case_id}") as worker:
            worker.run_until(lambda: self._is_settled(case_id), self._feed)

    def _is_settled(self, case_id: str) -> bool:
        case = self._store.knowledge.investigation(case_id)
        if case.state == InvestigationState.WAITING_FOR_APPROVAL:
            return bool(self._store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id))
        return case.state == InvestigationState.CLOSED

    def _conclude(self, case_id: str, project: Project, answer: Answer) -> str:
        """Ask the memory, open the truth, write the report."""
        screen = self._screen
        screen.stage("Have we tried this before?")
        question = self._question(case_id)
        remembered = self._store.negatives.search(question, project_id=project.id, limit=_MAX_REMEMBERED)
        screen.memory(question, remembered)
        truth = self._home.open_truth()
        report = write_report(self._home.report, self._store, case_id, answer, truth, remembered, question)
        seconds = time.monotonic() - self._began_at
        screen.stage("The end")
        screen.verdict(answer, truth, is_right(answer, truth), seconds)
        screen.say(f"  report: {report}")
        screen.say("  your own run:\n    " + "\n    ".join(OWN_RUN))
        progress = self._home.progress()
        assert progress is not None
        self._home.save(replace(progress, finished=True))
        self._keep_page()
        return dumps(as_object(self._choice.fault.name, answer, truth, seconds))

    def _keep_page(self) -> None:
        """With a terminal, until Enter. Always say how to open it again."""
        if self._page and sys.stdin.isatty():
            self._screen.say(f"The page stays open until you press Enter: {self._page}", "bold cyan")
            sys.stdin.readline()
        self._screen.say(f"  look at it again:\n    lathe --home {shlex.quote(str(self._home.folder))} up")

    def _question(self, case_id: str) -> str:
        """What a colleague might ask next: a change that was ruled out here, else one of the history."""
        suspects = self._store.knowledge.suspects(case_id) if case_id else []
        refuted = [suspect.title for suspect in suspects if suspect.status == Verdict.REFUTED]
        return refuted[0] if refuted else INNOCENT[-1].subject

    def _newest_activity(self) -> int:
        """Messages of earlier attempts are not repeated."""
        last = 0
        while page := self._store.activity.after(last):
            last = page[-1].id
        return last
