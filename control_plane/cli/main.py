"""`lathe`: the command line. Imports nothing heavy, so that `lathe --help` answers at once."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from contracts.errors import EnvironmentFault, LatheError, NotPermitted
from control_plane.cli import (
    archive,
    backend,
    chat,
    classifier,
    code,
    config,
    data,
    demo,
    environment,
    evals,
    evals_run,
    evolve,
    experiment,
    ingest,
    investigate,
    mcp,
    mlflow,
    negatives,
    policy,
    potential,
    proposals,
    providers,
    recipe,
    redactions,
    report,
    retention,
    rewriter,
    runs,
    schedule,
    search,
    services,
    shares,
    tokens,
    train,
    why,
)
from control_plane.cli.session import GLOBALS

USER_ERROR, ENVIRONMENT_ERROR, NOT_PERMITTED, INTERRUPTED = 2, 3, 4, 130

app = typer.Typer(
    name="lathe", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)
app.command()(train.train)
app.command()(ingest.ingest)
app.command("runs")(runs.runs)
app.command()(runs.timeline)
app.command()(runs.diff)
app.command()(investigate.detect)
app.command()(investigate.diagnose)
app.command()(potential.potential)
app.command()(recipe.recipe)
app.command()(chat.chat)
app.command()(report.report)
app.command()(mcp.mcp)
app.command()(providers.providers)
app.add_typer(backend.app, name="backend")
app.add_typer(proposals.app, name="proposals")
app.add_typer(experiment.app, name="experiment")
app.add_typer(evolve.app, name="evolve")
app.add_typer(policy.app, name="policy")
app.add_typer(negatives.app, name="negatives")
evals.app.command("run")(evals_run.run_evals)
evals.app.command()(evals_run.plan)
app.add_typer(evals.app, name="evals")
app.add_typer(data.app, name="data")
app.add_typer(classifier.app, name="classifier")
app.add_typer(rewriter.app, name="rewriter")
app.add_typer(config.app, name="config")
app.add_typer(code.app, name="code")
app.add_typer(environment.app, name="environment")
app.command()(why.why)
app.command()(why.completeness)
app.command()(why.owner)
app.command()(shares.shares)
app.add_typer(schedule.app, name="schedule")
app.add_typer(tokens.app, name="tokens")
app.command()(search.search)
app.command()(mlflow.mlflow)
app.command()(redactions.redactions)
app.command()(archive.backup)
app.command()(archive.restore)
app.command()(archive.export)
app.command()(retention.delete)
app.command()(retention.expire)
app.command()(demo.demo)
app.command()(services.up)
app.command()(services.down)
app.command()(services.doctor)


@app.callback()
def options(
    home: Annotated[
        Path | None, typer.Option(help="Folder of Lathe's data (default: LATHE_HOME, else ~/.lathe).")
    ] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Lathe finds out why a training went wrong, proves it by re-running, and fixes the run once you approve."""
    GLOBALS.home, GLOBALS.debug = home, debug


def main() -> None:
    """Run the command line; a LatheError becomes one message with its remedy and an exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app()
    except LatheError as error:
        if GLOBALS.debug:
            raise
        typer.echo(f"lathe: {error}", err=True)
        sys.exit(exit_status(error))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the command in order. A second Ctrl-C is only answered, because services are being stopped; a third breaks
    off, in case the first one was lost in a callback."""

    def answer(number: int, frame: FrameType | None) -> None:
        typer.echo("lathe: stopping, a moment (Ctrl-C once more breaks off) ...", err=True)
        signal.signal(number, _interrupt)

    signal.signal(number, answer)
    raise KeyboardInterrupt


def exit_status(error: LatheError) -> int:
    """2 correct the input, 3 repair the machine, 4 ask a person."""
    if isinstance(error, EnvironmentFault):
        return ENVIRONMENT_ERROR
    return NOT_PERMITTED if isinstance(error, NotPermitted) else USER_ERROR


if __name__ == "__main__":
    main()
