"""`lathe detect` and `lathe diagnose`: what is wrong with a run, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.enums import InvestigationState, ProposalState, Verdict
from contracts.team import TeamRole
from control_plane.cli.session import Json, console, feed_printer, notes, opened, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from context_store import Store
    from context_store.records import Investigation
    from control_plane.wiring import Lathe
    from control_plane.worker import Feed

_INTERRUPTED = 130


def detect(
    run: Annotated[str, typer.Argument(help="Run id.")],
    role: Annotated[
        TeamRole | None, typer.Option(help="Show what this role of the team supplied (default: all).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Look for anomalies in a run."""
    from control_plane.findings import findings, nothing_found
    from loops.debug import detect as look

    with opened() as lathe:
        lathe.store.runs.get(run)
        look(lathe.store, run)
        found = findings(lathe.store, run, role)
        if as_json:
            print_json(found)
            return
        out = console()
        for finding in found:
            steps = f"steps {finding['onset'][0]}-{finding['onset'][1]}"
            said = f"severity {finding['severity']:.1f}, from the {finding['supplied_by'].words}"
            out.print(f"{steps}  {finding['statement']}  ({said})", markup=False)
            for past in finding["seen_before"]:
                out.print(f"  seen before: {past}", markup=False)
        last = f"  look for the cause: lathe diagnose {run}" if found else nothing_found(lathe.store, run, role)
        out.print(last, markup=False)


def diagnose(run: Annotated[str, typer.Argument(help="Run id.")], as_json: Json = False) -> None:
    """Find the cause of what is wrong with a run, by re-runs; stops where a person has to decide."""
    from control_plane.findings import nothing_found
    from loops.debug import detect as look
    from loops.debug import open_case

    with opened() as lathe:
        lathe.store.runs.get(run)
        case_id = open_case(lathe.store, run, look(lathe.store, run), time.time())
        if case_id is None:
            print_json(None) if as_json else console().print(nothing_found(lathe.store, run), markup=False)
            return
        try:
            cases = list(_work_through(lathe, run, case_id))
        except KeyboardInterrupt:
            notes().print(f"interrupted; nothing is lost, go on with: lathe diagnose {run}", markup=False)
            raise typer.Exit(_INTERRUPTED) from None
        if as_json:
            from control_plane.case_file import case_file

            print_json(case_file(lathe.store, cases[-1].id))
            return
        for case in cases:
            _print_case(lathe.store, case)


def _work_through(lathe: Lathe, run: str, case_id: str) -> Iterator[Investigation]:
    """The case, and while one ends without a proven cause, the next finding's: a symptom may have to be left aside."""
    from loops.debug import detect as look
    from loops.debug import open_case

    done: set[str] = set()
    following: str | None = case_id
    while following is not None and following not in done:
        done.add(following)
        case = work_on(lathe, following)
        yield case
        unclear = case.state == InvestigationState.CLOSED and case.verdict == Verdict.CANNOT_TELL
        following = open_case(lathe.store, run, look(lathe.store, run), time.time()) if unclear else None


def work_on(lathe: Lathe, case_id: str) -> Investigation:
    """Drive the case, here or by the worker that is alive, until it ends or waits for a person."""
    from control_plane.given_up import ask_again
    from control_plane.leases import WORKER
    from control_plane.worker import Feed, Worker

    if (halt := lathe.store.policies.halted()) is not None:
        notes().print(f"halted by {halt.set_by}: {halt.reason}; it goes on after: lathe policy resume", markup=False)
    ask_again(lathe.store, case_id, lathe.settings.actor, time.time())
    begin = lathe.store.activity.publish("progress", f"looking into case {case_id}", investigation_id=case_id)
    feed = Feed(lathe.store, feed_printer(), after=begin.id - 1)
    if lathe.leases.is_held(WORKER):
        _watch(lathe.store, case_id, feed)
    else:
        with Worker(lathe, name=f"diagnose:{case_id}") as worker:
            worker.run_until(lambda: is_settled(lathe.store, case_id), feed)
    return lathe.store.knowledge.investigation(case_id)


def is_settled(store: Store, case_id: str) -> bool:
    """True when the case is closed, or waits for a decision that nobody took yet."""
    case = store.knowledge.investigation(case_id)
    if case.state == InvestigationState.WAITING_FOR_APPROVAL:
        return bool(store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id))
    return case.state == InvestigationState.CLOSED


def _watch(store: Store, case_id: str, feed: Feed) -> None:
    """Until it is settled. Raises why the worker gave the case up."""
    from control_plane.given_up import failure_of

    while not is_settled(store, case_id):
        time.sleep(0.3)
        feed.forward()
        if (failure := failure_of(store, case_id)) is not None:
            raise failure


def _print_case(store: Store, case: Investigation) -> None:
    out = console()
    report = store.knowledge.report(case.id)
    if report:
        from rich.markdown import Markdown

        out.print(Markdown(report))
    else:
        out.print(case.statement or case.title, markup=False)
    for proposal in store.proposals.list(state=ProposalState.OPEN, investigation_id=case.id):
        out.print(f"\nwaits for you: {proposal.title}", style="bold", markup=False)
        out.print(f"  see the exact change:  lathe proposals show {proposal.id}", markup=False)
        out.print(f"  then:                  lathe proposals approve {proposal.id}", markup=False)
        out.print(f"  and go on with:        lathe diagnose {case.run_id}", markup=False)
