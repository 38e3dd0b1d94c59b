"""`lathe detect` and `lathe diagnose`: what is wrong with a run, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.enums import InvestigationState, ProposalState, RunState
from control_plane.cli.session import Json, console, feed_printer, notes, opened, print_json

if TYPE_CHECKING:
    from context_store import Store
    from context_store.records import Investigation
    from control_plane.wiring import Lathe
    from control_plane.worker import Feed

_INTERRUPTED = 130


def detect(run: Annotated[str, typer.Argument(help="Run id.")], as_json: Json = False) -> None:
    """Look for anomalies in a run."""
    from loops.debug import detect as look

    with opened() as lathe:
        lathe.store.runs.get(run)
        look(lathe.store, run)
        found = findings(lathe.store, run)
        if as_json:
            print_json(found)
            return
        out = console()
        for finding in found:
            out.print(f"steps {finding['onset'][0]}-{finding['onset'][1]}  {finding['statement']}", markup=False)
        last = f"  look for the cause: lathe diagnose {run}" if found else nothing_found(lathe.store, run)
        out.print(last, markup=False)


def nothing_found(store: Store, run_id: str) -> str:
    """What silence means: how much was looked at, and how the run ended. Without a step nothing can be said."""
    run = store.runs.get(run_id)
    ended = f"It ended as {run.state}: {run.message}" if run.state == RunState.FAILED else ""
    if run.last_step == 0:
        return f"Run {run_id} has no step yet, so nothing can be said about it. {ended}".strip()
    scope = f"(observed: {len(store.series.names(run_id))} series up to step {run.last_step})"
    return f"Nothing wrong found {scope}. {ended}".strip()


def findings(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Anomalies of a run, each with what its case found out (None while that is open)."""
    cases = {
        anomaly.id: case
        for case in store.knowledge.investigations(run_id=run_id)
        for anomaly in store.knowledge.anomalies(investigation_id=case.id)
    }
    return [
        {
            "run": run_id,
            "kind": anomaly.kind,
            "series": anomaly.series,
            "onset": anomaly.onset,
            "severity": anomaly.severity,
            "cause_kind": case.cause_kind if (case := cases.get(anomaly.id)) else None,
            "verdict": case.verdict if case else None,
            "statement": anomaly.statement,
            "evidence": anomaly.evidence,
        }
        for anomaly in store.knowledge.anomalies(run_id=run_id)
    ]


def diagnose(run: Annotated[str, typer.Argument(help="Run id.")], as_json: Json = False) -> None:
    """Find the cause of what is wrong with a run, by re-runs; stops where a person has to decide."""
    from loops.debug import detect as look
    from loops.debug import open_case

    with opened() as lathe:
        lathe.store.runs.get(run)
        case_id = open_case(lathe.store, run, look(lathe.store, run), time.time())
        if case_id is None:
            print_json(None) if as_json else console().print(nothing_found(lathe.store, run), markup=False)
            return
        try:
            case = work_on(lathe, case_id)
        except KeyboardInterrupt:
            notes().print(f"interrupted; nothing is lost, go on with: lathe diagnose {run}", markup=False)
            raise typer.Exit(_INTERRUPTED) from None
        if as_json:
            from control_plane.case_file import case_file

            print_json(case_file(lathe.store, case_id))
        else:
            _print_case(lathe.store, case)


def work_on(lathe: Lathe, case_id: str) -> Investigation:
    """Drive the case, here or by the worker that is alive, until it ends or waits for a person."""
    from control_plane.given_up import ask_again
    from control_plane.leases import WORKER
    from control_plane.worker import Feed, Worker

    if (halt := lathe.store.policies.halted()) is not None:
        notes().print(f"halted by {halt.set_by}: {halt.reason}; it goes on after: lathe policy resume", markup=False)
    ask_again(lathe.store, case_id, time.time())
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
