"""A deployment: what a person is asked to approve, the files that are put in place, and the pointer to them.

`FOLDER/NAME/` holds one folder for each version that was ever deployed and `current.json`, which names the one that
counts. Only the pointer moves, and by one rename, so whoever reads it sees the old version or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from contracts.errors import UserInputError
from loops.classifiers import scorer
from loops.classifiers.model import load
from loops.quantify.card import card
from loops.quantify.casebook import CaseBook, model_path, prompt_path
from loops.quantify.prompts import read_prompt
from loops.quantify.versions import Recipe

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
POINTER = "current.json"


class DeployPayload(BaseModel):
    """`sha256`: of the model (its digest) or of the prompt's bytes. `base`: what is deployed now, "" for nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
    case_id: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    version: int
    option: Literal["prompt", "model"]
    sha256: Sha256
    base: Sha256 | Literal[""]


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What the pointer names. `folder`: with `classifier.npz` and `scorer.py`, or `prompt.txt`, and `card.md`."""

    payload: DeployPayload
    folder: Path


def current(deployments: Path, name: str) -> Deployed | None:
    """What is deployed under this name. Raises UserInputError for a pointer that cannot be read."""
    pointer = deployments / name / POINTER
    if not pointer.exists():
        return None
    try:
        payload = DeployPayload.model_validate_json(pointer.read_bytes())
    except ValueError as error:
        raise UserInputError(
            f"{pointer} cannot be read: {error}", remedy="put back the pointer from a backup"
        ) from None
    return Deployed(payload=payload, folder=_folder(deployments, payload))


def put_in_place(book: CaseBook, case_folder: Path, deployments: Path, payload: DeployPayload) -> Path:
    """The version's files, complete or not at all. Raises UserInputError when they are not what the payload names."""
    folder = _folder(deployments, payload)
    draft = folder.with_name(f"{folder.name}.new")
    draft.mkdir(parents=True, exist_ok=True)
    if payload.option == "prompt":
        prompt = read_prompt(prompt_path(case_folder, payload.sha256))
        _require(payload, prompt.sha256)
        prompt.export(draft / "prompt.txt")
    else:
        _write_model(book, case_folder, draft, payload)
    (draft / "card.md").write_text(card(book), encoding="utf-8")
    if folder.exists():
        for each in draft.iterdir():
            each.replace(folder / each.name)
        draft.rmdir()
    else:
        draft.rename(folder)
    return folder


def _write_model(book: CaseBook, case_folder: Path, draft: Path, payload: DeployPayload) -> None:
    path = model_path(case_folder, payload.sha256)
    model, need = load(path), book.need()
    _require(payload, model.digest)
    (version,) = (each for each in book.versions() if each["number"] == payload.version)
    rules = Recipe.load(version["recipe"]).rules
    (draft / "classifier.npz").write_bytes(path.read_bytes())
    source = scorer.source(model, name=need.name, positive=need.positive, ruled=rules)
    (draft / "scorer.py").write_text(source, encoding="utf-8")
    (draft / "rules.json").write_text(json.dumps([[list(words), positive] for words, positive in rules]))


def _require(payload: DeployPayload, sha256: str) -> None:
    if sha256 != payload.sha256:
        raise UserInputError(
            f"the {payload.option} of {payload.name} is not what was approved", remedy="propose it again"
        )


def point_at(deployments: Path, name: str, payload: Mapping[str, Any] | None) -> None:
    """Move the pointer; None takes it away."""
    pointer = deployments / name / POINTER
    if payload is None:
        pointer.unlink(missing_ok=True)
        return
    draft = pointer.with_suffix(".new")
    with draft.open("w") as file:
        json.dump(dict(payload), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(pointer)


def earlier(deployments: Path, name: str, sha256: str) -> DeployPayload | None:
    """What was deployed with this hash before: the pointer that lies with its files. None for ""."""
    if not sha256:
        return None
    found = deployments / name / sha256[:16] / "deployed.json"
    return DeployPayload.model_validate_json(found.read_bytes()) if found.exists() else None


def note_deployed(folder: Path, payload: DeployPayload) -> None:
    """With its files, so that it can be gone back to."""
    (folder / "deployed.json").write_text(payload.model_dump_json())


def _folder(deployments: Path, payload: DeployPayload) -> Path:
    return deployments / payload.name / payload.sha256[:16]
