"""`lathe evolve`: change a scaffold over rounds, and keep only what is really better."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json

if TYPE_CHECKING:
    from context_store.records import Principal, Proposal
    from control_plane.evolution_replay import Replay
    from control_plane.wiring import Lathe
    from loops.evolve.plan import History

app = typer.Typer(help="Evolve a scaffold: a hundred rounds whose gain is real.", no_args_is_help=True)
CaseId = Annotated[str, typer.Argument(metavar="CASE", help="Id of an evolution run.")]
Folder = Annotated[str, typer.Argument(metavar="CASE", help="Id of a run, or a folder with its journal.jsonl.")]


@app.command()
def run(
    scaffold: Annotated[str, typer.Argument(help="A folder under git, or one of ours: default, plain.")],
    rounds: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    seed: Annotated[int, typer.Option(help="The same seed, the same decisions.")] = 0,
    search: Annotated[str, typer.Option(help="greedy, best_of_n or archive.")] = "greedy",
    effect: Annotated[float, typer.Option(help="Gain the test is laid out for, as a share of the tasks.")] = 0.1,
    max_pairs: Annotated[int, typer.Option(min=1, help="Pairs a round at most.")] = 300,
    max_episodes: Annotated[int, typer.Option(min=1, help="Episodes of the whole run at most.")] = 40_000,
    suite: Annotated[Path | None, typer.Option(help="A folder of tasks (default: ours).")] = None,
    command: Annotated[str, typer.Option(help="Command of a scaffold that is not of our format.")] = "",
    frozen_proposer: Annotated[bool, typer.Option(help="Propose as the first commit would, always.")] = False,
    model: Annotated[bool, typer.Option(help="Let the language model propose, where one is configured.")] = False,
    fork: Annotated[str, typer.Option(help="Go on from another run's round: CASE@ROUND.")] = "",
    as_json: Json = False,
) -> None:
    """Begin a run, or go on with the same one. Ctrl-C or a kill loses nothing.

    Ctrl-C pauses a run that is worked on here. One that a running `lathe up` works on goes on: `lathe policy halt`
    pauses it with all other cases, `lathe policy resume` lets them go on.
    """
    import shlex

    from control_plane.evolution import NewRun, begin
    from loops.evolve.loop import Asked
    from loops.evolve.parents import Search

    if search not in list(Search):
        raise UserInputError(f"no search is called {search}", remedy="one of: " + ", ".join(Search))
    asked = Asked(
        suite_hash="", rounds=rounds, seed=seed, search=search, effect=effect, max_pairs=max_pairs,
        max_episodes=max_episodes, frozen_proposer=frozen_proposer, suite=str(suite.resolve()) if suite else "",
        argv=tuple(shlex.split(command)), model=model,
    )  # fmt: skip
    with opened() as lathe:
        case_id = begin(lathe, NewRun(scaffold=scaffold, asked=asked, fork=_fork(fork)), time.time())
    resume(case_id, as_json)


@app.command()
def resume(case: CaseId, as_json: Json = False) -> None:
    """Go on with a run where it stands."""
    from control_plane.cli.investigate import work_on
    from control_plane.evolution import facts
    from loops.evolve.loop import asked_of

    with opened() as lathe:
        asked_of(lathe.store, case)
        try:
            work_on(lathe, case)
        except KeyboardInterrupt:
            text = (
                f"no longer waited for; go on: lathe evolve resume {case}\na running `lathe up` goes on with it; to "
                "pause that: lathe policy halt --reason WHY"
            )
            notes().print(text, markup=False)
            raise typer.Exit(130) from None
        if as_json:
            print_json(facts(lathe.store, case))
            return
        notes().print(
            f"{lathe.store.knowledge.investigation(case).statement}; lathe evolve report {case}", markup=False
        )


@app.command()
def report(
    case: Folder,
    open_sealed: Annotated[
        bool, typer.Option(help="Propose to open the sealed tasks, once and at the end; a person approves it.")
    ] = False,
    replay: Annotated[bool, typer.Option(help="Decide it anew from what was measured, and compare.")] = False,
    suite: Annotated[Path | None, typer.Option(help="Tasks of a run in a folder (default: ours).")] = None,
    as_json: Json = False,
) -> None:
    """What was tested, how often, how sure, and what the sealed tasks say."""
    from control_plane import evolution
    from loops.evolve.loop import history_of

    folder = Path(case) if "/" in case or Path(case).is_dir() else None
    if folder is not None:
        _report_folder(folder, suite, replay=replay, as_json=as_json)
        return
    with opened() as lathe:
        if replay:
            from control_plane.evolution_replay import replayed

            _tell_replay(replayed(lathe.store, case), as_json)
        elif open_sealed:
            proposal = evolution.opening(lathe.store, case, _researcher(lathe), time.time())
            _tell_proposal(proposal, as_json)
        elif as_json:
            print_json(evolution.facts(lathe.store, case))
        else:
            _print_report(history_of(lathe.store, case))


@app.command()
def promote(
    case: CaseId,
    commit: Annotated[str, typer.Option(help="A commit of the run's archive (default: its incumbent).")] = "",
    as_json: Json = False,
) -> None:
    """Propose to use a scaffold of the run; somebody has to approve it."""
    from control_plane.evolution import promotion

    with opened() as lathe:
        _tell_proposal(promotion(lathe.store, case, _researcher(lathe), time.time(), commit), as_json)


def _researcher(lathe: Lathe) -> Principal:
    from context_store.records import Principal
    from contracts.enums import Role

    return Principal(name=lathe.settings.actor, role=Role.RESEARCHER)


def _tell_proposal(proposal: Proposal, as_json: bool) -> None:
    text = f"waits for approval: lathe proposals approve {proposal.id}"
    print_json(proposal) if as_json else notes().print(text, markup=False)


def _report_folder(folder: Path, suite: Path | None, *, replay: bool, as_json: bool) -> None:
    from control_plane.evolution_replay import history_in, replayed_folder
    from loops.evolve.report import summary

    if replay:
        _tell_replay(replayed_folder(folder, suite), as_json)
        return
    with history_in(folder) as history:
        print_json(summary(history)) if as_json else _print_report(history)


def _print_report(history: History) -> None:
    from rich.markdown import Markdown

    from loops.evolve.report import markdown

    console().print(Markdown(markdown(history)))


def _tell_replay(found: Sequence[Replay], as_json: bool) -> None:
    """Ends with status 1 where anything differs."""
    if as_json:
        print_json([{**vars(each), "identical": not each.differences} for each in found])
    else:
        for each in found:
            verdict = "differs in: " + ", ".join(each.differences) if each.differences else "identical"
            console().print(f"{each.run}: {each.rounds} rounds decided anew: {verdict}", markup=False)
    if any(each.differences for each in found):
        raise typer.Exit(1)


def _fork(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    case, _, number = text.rpartition("@")
    if not case or not number.isdigit():
        raise UserInputError(f"--fork {text} names no round", remedy="write CASE@ROUND")
    return case, int(number)
