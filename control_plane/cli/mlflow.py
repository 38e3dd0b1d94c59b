"""`lathe mlflow`: copy runs into MLflow once; a worker with LATHE_MLFLOW_URI does it all the time."""

from __future__ import annotations

from typing import Annotated

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, opened, print_json, print_table


def mlflow(
    runs: Annotated[list[str], typer.Argument(help="Runs to copy.")],
    to: Annotated[str, typer.Option(help="MLflow's tracking URI (default: LATHE_MLFLOW_URI).")] = "",
    as_json: Json = False,
) -> None:
    """Show runs, their parameters, metrics and checkpoints in MLflow. The other way: lathe ingest --follow URI."""
    with opened() as lathe:
        uri = to or lathe.settings.mlflow_uri
        if not uri:
            raise UserInputError("no MLflow was named", remedy="give --to URI, or set LATHE_MLFLOW_URI")
        from control_plane.mlflow_sink import MlflowSink

        sink = MlflowSink(lathe.store, uri)
        tried = [sink.mirror(lathe.store.runs.get(run)) for run in runs]
    copied = [each for each in tried if each is not None]
    if as_json:
        print_json(copied)
        return
    rows = [(each.run_id, each.mlflow_run_id, each.num_metrics, each.num_checkpoints) for each in copied]
    print_table(("run", "in MLflow", "new points", "new checkpoints"), rows, empty="nothing to copy: no run has begun")
