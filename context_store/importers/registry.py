"""All formats, most specific first. A new one is a file with `FORMAT` and a line here."""

from __future__ import annotations

from context_store.importers import (
    experiments,
    golden,
    huggingface,
    inspect_log,
    lessons,
    lm_eval,
    mlflow_database,
    mlflow_files,
    mlflow_rest,
    tables,
    tensorboard,
    text_log,
    trackio,
    wandb_cloud,
    wandb_offline,
)
from context_store.importers.formats import Format
from contracts.errors import UserInputError

FORMATS: tuple[Format, ...] = (
    wandb_offline.FORMAT,
    mlflow_files.FORMAT,
    mlflow_database.FORMAT,
    trackio.FORMAT,
    tensorboard.FORMAT,
    huggingface.FORMAT,
    golden.FORMAT,
    lm_eval.FORMAT,
    inspect_log.FORMAT,
    experiments.FORMAT,
    lessons.FORMAT,
    text_log.FORMAT,
    tables.FORMAT,
)
_SERVERS: dict[str, Format] = {
    "http": mlflow_rest.FORMAT,
    "https": mlflow_rest.FORMAT,
    "mysql": mlflow_database.FORMAT,
    "postgresql": mlflow_database.FORMAT,
    "sqlite": mlflow_database.FORMAT,
    "wandb": wandb_cloud.FORMAT,
}


def remote(uri: str) -> Format:
    """The format that reads this uri. Raises UserInputError."""
    scheme = uri.partition("://")[0].lower()
    if scheme not in _SERVERS:
        raise UserInputError(
            f"nothing reads {scheme}:// addresses", remedy=f"give a path, or one of {', '.join(_SERVERS)}"
        )
    return _SERVERS[scheme]
