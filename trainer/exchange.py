"""Moves models between checkpoints and Hugging Face folders.

python -m trainer.exchange export PROJECT CHECKPOINT FOLDER   # --entry as for a launch, --set field=value for overrides
python -m trainer.exchange import FOLDER CHECKPOINT           # prints the config fields that the model needs
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from contracts.errors import LatheError, UserInputError
from contracts.events import Scalar
from trainer.checkpoint import load_checkpoint, save_checkpoint
from trainer.hugging_face import export_model, import_model
from trainer.loader import NOTHING_READ
from trainer.project import load_recipe
from trainer.recipe import stage_of
from trainer.training import TrainingState


def export_checkpoint(project: Path, entry: str, overrides: dict[str, Scalar], checkpoint: Path, folder: Path) -> None:
    """Write the model of a checkpoint of the project's recipe, as its last stage has it, and the tokenizer if any."""
    plan = load_recipe(project, entry).with_overrides(overrides).plan()
    state = load_checkpoint(checkpoint)
    config = stage_of(plan, max(state.step - 1, 0)).config
    export_model(config, state.weights, folder)
    if config.data.tokenizer:
        shutil.copyfile(project / config.data.tokenizer, folder / "tokenizer.json")


def import_checkpoint(folder: Path, checkpoint: Path) -> dict[str, Scalar]:
    """Write a checkpoint at step 0 that a training can start from; returns the config fields it needs."""
    found = import_model(folder)
    state = TrainingState(step=0, weights=found.weights, optimizer={}, loader=NOTHING_READ)
    save_checkpoint(state, checkpoint)
    return dict(found.overrides)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainer.exchange")
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="from a checkpoint to a Hugging Face folder")
    export.add_argument("project", type=Path)
    export.add_argument("checkpoint", type=Path)
    export.add_argument("folder", type=Path)
    export.add_argument("--entry", default="recipe:recipe")
    export.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    taken = commands.add_parser("import", help="from a Hugging Face folder to a checkpoint")
    taken.add_argument("folder", type=Path)
    taken.add_argument("checkpoint", type=Path)
    given = parser.parse_args(arguments)
    try:
        if given.command == "export":
            overrides = dict(_override(text) for text in given.set)
            export_checkpoint(given.project, given.entry, overrides, given.checkpoint, given.folder)
        else:
            sys.stdout.write(json.dumps(import_checkpoint(given.folder, given.checkpoint), indent=2) + "\n")
    except LatheError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _override(text: str) -> tuple[str, Scalar]:
    field, separator, value = text.partition("=")
    if not separator:
        raise UserInputError(f"--set {text} has no '='", remedy="write it like --set moe.top_k=4")
    return field, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
