"""What the demo says on standard error: plainly in a log file, with live bars on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import shorten

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from context_store import Store
from context_store.records import Activity, Diagnostic, NegativeResult, Proposal, Suspect
from control_plane.demo.home import Truth
from control_plane.demo.outcome import Answer

STAGES = (
    ("start the database, the API and the page", "10 s"),
    ("lay out a training project with its own git history", "1 s"),
    ("train it twice, before and after the later commits", "30 s"),
    ("look for what is wrong", "1 s"),
    ("rank the suspects and run the training again without, and with, each", "90 s"),
    ("wait for you to approve the fix", "you"),
    ("go on with the fix from the last good checkpoint, and look whether it holds", "20 s"),
    ("store what was ruled out, and write the report", "1 s"),
)
_LOG_WIDTH = 140
_NUM_SUSPECTS = 8
_MAX_WORDS = 110  # characters of a remembered claim
_SHOWN = {"lm_loss": "loss {:.2f}", "max_vio": "MaxVio {:.2f}", "tokens_per_second": "{:,.0f} tokens/s"}
_STYLES = {"finding": "bold", "approval": "bold yellow"}


class Screen:
    """Everything that is printed goes through here."""

    def __init__(self) -> None:
        width = None if sys.stderr.isatty() else _LOG_WIDTH
        self.console = Console(stderr=True, highlight=False, markup=False, width=width)

    def say(self, text: str, style: str = "") -> None:
        self.console.print(text, style=style, soft_wrap=True)

    def plan(self, title: str, folder: str) -> None:
        """What will happen, with the seconds it takes."""
        self.say(title, "bold")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2))
        for number, (stage, seconds) in enumerate(STAGES, start=1):
            table.add_row(f"  {number}.", stage, seconds)
        self.console.print(table)
        self.say(f"No key is needed and nothing leaves this machine. Everything lies in {folder}.")

    def stage(self, text: str) -> None:
        self.console.print()
        self.console.rule(text, align="left", style="dim")

    def activity(self, message: Activity) -> None:
        """One message of the live feed."""
        self.say(f"  {message.text}", _STYLES.get(message.kind, ""))

    @contextmanager
    def trainings(self, store: Store, lengths: Mapping[str, int]) -> Iterator[Bars]:
        """Bars that show how far each run is in the store."""
        columns = (
            TextColumn("  {task.description:8}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as progress:
            yield Bars(self, store, progress, lengths)

    def suspects(self, suspects: Sequence[Suspect]) -> None:
        """Ranked, with what became of each."""
        table = Table("", "suspect", "kind", "status", "why", box=None, pad_edge=False, header_style="bold")
        for suspect in suspects[:_NUM_SUSPECTS]:
            status = str(suspect.status or "open")
            style = {"proven": "bold green", "refuted": "dim strike"}.get(status, "")
            table.add_row(f"{suspect.rank}", suspect.title, suspect.cause_kind, status, suspect.reason, style=style)
        self.console.print(table)
        if len(suspects) > _NUM_SUSPECTS:
            self.say(f"    and {len(suspects) - _NUM_SUSPECTS} more, all in the report", "dim")

    def reruns(self, diagnostics: Sequence[Diagnostic]) -> None:
        """What was run again, and how much of the anomaly each showed."""
        table = Table("re-run", "what", "anomaly (0..1)", "reading", box=None, pad_edge=False, header_style="bold")
        for diagnostic in diagnostics:
            measure = "" if diagnostic.measure is None else f"{diagnostic.measure:.2f}"
            table.add_row(diagnostic.kind, diagnostic.label, measure, diagnostic.reading)
        self.console.print(table)

    def findings(self, run_id: str, statements: Sequence[str]) -> None:
        """What the detectors say about a run."""
        for statement in statements:
            self.say(f"  {run_id}: {statement}", "bold red")
        if not statements:
            self.say(f"  {run_id}: nothing wrong found", "green")

    def memory(self, question: str, remembered: Sequence[tuple[NegativeResult, float]]) -> None:
        """What the store answers."""
        self.say(f"  asked: {question}")
        for negative, _ in remembered:
            self.say(f"  yes, tried: {shorten(negative.intervention, _MAX_WORDS, placeholder=' ...')}")
            self.say(f"       what came of it: {shorten(negative.observed, _MAX_WORDS, placeholder=' ...')}", "dim")
        if not remembered:
            self.say("  no: nothing like it was ruled out in this project")

    def verdict(self, answer: Answer, truth: Truth, right: bool, seconds: float) -> None:
        """What Lathe says beside what was planted."""
        commits = ", ".join(commit[:8] for commit in answer.culprit_commits) or "no commit"
        planted = ", ".join(commit[:8] for commit in truth.commits) or "no commit"
        self.say(f"  Lathe says: {answer.verdict} ({answer.scope}): {commits}, {answer.cause_kind}", "bold")
        self.say(f"  the truth:  {planted}, {truth.cause_kind}", "bold green" if right else "bold red")
        self.say(f"  {answer.reruns} re-runs, {answer.negative_results} changes ruled out, {seconds:.0f} s")

    def proposal(self, proposal: Proposal) -> None:
        """Exactly what would be done."""
        self.say(proposal.title, "bold yellow")
        self.say(f"  risk: {proposal.risk}\n  verified by: {proposal.verification}\n  base: {proposal.base_state}")
        if proposal.diff:
            self.console.print(Syntax(proposal.diff, "diff", background_color="default"))


class Bars:
    """One bar a run; in a log file a line now and then."""

    def __init__(self, screen: Screen, store: Store, progress: Progress, lengths: Mapping[str, int]) -> None:
        self._screen = screen
        self._store = store
        self._progress = progress
        self._lengths = lengths
        self._tasks: dict[str, TaskID] = {
            run_id: progress.add_task(run_id, total=length, values="starting") for run_id, length in lengths.items()
        }
        self._told = dict.fromkeys(lengths, 0)

    def update(self) -> None:
        latest = self._store.series.latest(list(self._lengths), list(_SHOWN))
        for run in self._store.runs.list():
            if run.id not in self._tasks:
                continue
            known = latest.get(run.id, {})
            values = "  ".join(text.format(known[name]) for name, text in _SHOWN.items() if name in known)
            self._progress.update(self._tasks[run.id], completed=run.last_step, values=values or "starting")
            self._tell(run.id, run.last_step, values)

    def _tell(self, run_id: str, step: int, values: str) -> None:
        """A line for each third of the way, where no bar can be shown."""
        third = step * 3 // self._lengths[run_id]
        if self._progress.disable and third > self._told[run_id]:
            self._told[run_id] = third
            self._screen.say(f"  {run_id}: step {step} of {self._lengths[run_id]}  {values}")
