"""W&B's servers through their own library, which is imported only here: wandb://entity/project or .../project/run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context_store.importers.formats import Format, Source, Tree
from context_store.importers.items import FoundRun, Items
from context_store.importers.wandb_offline import CLOCKS, RunReader, Start
from context_store.importers.wandb_records import Description, numbers_in
from contracts.errors import EnvironmentFault, UserInputError

_STATES = {"finished": 0, "crashed": 1, "failed": 1}


def find(tree: Tree) -> list[Source]:
    return []


def read(source: Source) -> Items:
    """Raises EnvironmentFault without the library or an answer, UserInputError for an address that names no project."""
    try:
        import wandb
    except ImportError as error:
        raise EnvironmentFault(
            "reading from W&B's servers needs the wandb package", remedy="install it: pip install 'lathe[peer-wandb]'"
        ) from error
    parts = source.uri.removeprefix("wandb://").strip("/").split("/")
    if len(parts) not in (2, 3):
        raise UserInputError(
            f"{source.uri} names no project", remedy="write wandb://ENTITY/PROJECT or wandb://ENTITY/PROJECT/RUN"
        )
    try:
        api = wandb.Api()
        runs = [api.run("/".join(parts))] if len(parts) == 3 else api.runs("/".join(parts))
        for run in runs:
            yield from _run(run, source.uri)
    except (wandb.errors.Error, OSError, ValueError) as error:
        raise EnvironmentFault(
            f"{source.uri} cannot be read: {type(error).__name__}: {error}"[:300],
            remedy="check the network, the login (`wandb login`), and the names of entity, project and run",
        ) from error


def _run(run: Any, uri: str) -> Items:
    metadata = run.metadata or {}
    found = Description(run_id=run.id, project=run.project, name=run.name, exit_code=_STATES.get(run.state))
    found.start = "its history on the server"
    found.config = {key: value for key, value in run.config.items() if not key.startswith("_")}
    if run.commit:
        found.environment["git.commit"] = run.commit
    if isinstance(metadata.get("program"), str):
        found.environment["program"] = metadata["program"]
    start = Start(folder=Path(uri), log=None, found=found, rows=lambda: _rows(run))
    yield FoundRun(
        key=f"wandb:{run.id}", name=run.name, project=run.project, origin=run.url, names={each: each for each in CLOCKS}
    )
    yield from RunReader([start]).items()


def _rows(run: Any) -> Iterator[dict[str, float]]:
    for row in run.scan_history(page_size=10_000):
        yield numbers_in(iter(row.items()))


FORMAT = Format(name="W&B server", find=find, read=read)
