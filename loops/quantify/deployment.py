"""A deployment: what a person is asked to approve, the files that are put in place, and the pointer to them.

`FOLDER/NAME/` holds one folder for each version that was ever deployed and `current.json`, which names the one that
counts. Only the pointer moves, and by one rename, so whoever reads it sees the old version or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, StringConstraints

from contracts.errors import UserInputError
from loops.classifiers import scorer
from loops.classifiers.groups import signatures
from loops.classifiers.model import Classifier, load
from loops.classifiers.rules import Rule
from loops.quantify.card import card
from loops.quantify.casebook import EVALUATION, HELD_OUT, TUNING, CaseBook, documents_path, model_path, prompt_path
from loops.quantify.documents import read_documents
from loops.quantify.need import Need
from loops.quantify.prompts import read_prompt
from loops.quantify.versions import Recipe

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
POINTER = "current.json"
MODEL_FILE, RULES_FILE, SCORER_FILE = "classifier.npz", "rules.json", "scorer.py"
PROMPT_FILE, TAUGHT_FILE = "prompt.txt", "taught.npy"
BASE_FOLDER = "base"  # of a case: what was deployed when it was opened


class DeployPayload(BaseModel):
    """`sha256`: of the model with its rules, or of the prompt's bytes. `base`: what is deployed now, "" for nothing.
    `model`: the language model of a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
    case_id: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    version: int
    option: Literal["prompt", "model"]
    sha256: Sha256
    base: Sha256 | Literal[""]
    model: Annotated[str, StringConstraints(max_length=200)] = ""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What the pointer names. `folder`: with `classifier.npz`, `rules.json` and `scorer.py`, or `prompt.txt`; `card.md`
    and, of the texts that taught it, `taught.npy`."""

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


def copy_deployed(deployed: Deployed, case_folder: Path) -> None:
    """What is deployed when a case is opened lies in the case's folder from then on, so that it can be measured there
    whatever becomes of it. Raises UserInputError when a file of it is gone."""
    base = case_folder / BASE_FOLDER
    base.mkdir(parents=True, exist_ok=True)
    needed = (PROMPT_FILE,) if deployed.payload.option == "prompt" else (MODEL_FILE, RULES_FILE)
    for name in (*needed, TAUGHT_FILE):
        path = deployed.folder / name
        if path.exists():
            shutil.copyfile(path, base / name)
        elif name in needed:
            raise UserInputError(
                f"what is deployed as {deployed.payload.name} cannot be compared: {path} is gone",
                remedy="put it back from a backup, or undo the deployment",
            )


def put_in_place(book: CaseBook, case_folder: Path, deployments: Path, payload: DeployPayload) -> Path:
    """The version's files, complete or not at all. Raises UserInputError when they are not what the payload names."""
    folder = _folder(deployments, payload)
    draft = folder.with_name(f"{folder.name}.new")
    draft.mkdir(parents=True, exist_ok=True)
    if payload.option == "prompt":
        prompt = read_prompt(prompt_path(case_folder, payload.sha256))
        _require(payload, prompt.sha256)
        prompt.export(draft / PROMPT_FILE)
    else:
        _write_model(book, case_folder, draft, payload)
    np.save(draft / TAUGHT_FILE, _taught(book, case_folder, payload))
    (draft / "card.md").write_text(card(book, deployed=payload.option), encoding="utf-8")
    if folder.exists():
        for each in draft.iterdir():
            each.replace(folder / each.name)
        draft.rmdir()
    else:
        draft.rename(folder)
    return folder


def source_path(book: CaseBook, case_folder: Path, payload: DeployPayload) -> Path:
    """The file of the case that is deployed."""
    if payload.option == "prompt":
        return prompt_path(case_folder, payload.sha256)
    return model_path(case_folder, str(_version(book, payload)["model_sha256"]))


def read_back(folder: Path, payload: DeployPayload, need: Need) -> str:
    """Hash of what lies in place, scorer included: "" where that one is not of the model beside it."""
    if payload.option == "prompt":
        return read_prompt(folder / PROMPT_FILE).sha256
    model, rules = read_model(folder)
    wanted = scorer.source(model, name=need.name, positive=need.positive, ruled=rules)
    return scorer.digest(model, rules) if (folder / SCORER_FILE).read_text(encoding="utf-8") == wanted else ""


def read_model(folder: Path) -> tuple[Classifier, tuple[Rule, ...]]:
    """The deployed classifier with its rules. Raises UserInputError."""
    try:
        rules = json.loads((folder / RULES_FILE).read_text())
    except (OSError, ValueError) as error:
        raise UserInputError(f"{folder / RULES_FILE} cannot be read: {error}", remedy="deploy it again") from None
    return load(folder / MODEL_FILE), tuple((tuple(words), positive) for words, positive in rules)


def require_model(payload: DeployPayload, model: str) -> None:
    """Raises UserInputError where the deployed prompt was approved with another language model."""
    if payload.model and model != payload.model:
        raise UserInputError(
            f"the prompt of {payload.name} was approved with {payload.model}, not with {model}",
            remedy=f"set LATHE_MODEL={payload.model}, or undo its deployment",
        )


def _write_model(book: CaseBook, case_folder: Path, draft: Path, payload: DeployPayload) -> None:
    path = source_path(book, case_folder, payload)
    model, need = load(path), book.need()
    rules = Recipe.load(_version(book, payload)["recipe"]).rules
    _require(payload, scorer.digest(model, rules))
    (draft / MODEL_FILE).write_bytes(path.read_bytes())
    source = scorer.source(model, name=need.name, positive=need.positive, ruled=rules)
    (draft / SCORER_FILE).write_text(source, encoding="utf-8")
    (draft / RULES_FILE).write_text(json.dumps([[list(words), positive] for words, positive in rules]))


def _taught(book: CaseBook, case_folder: Path, payload: DeployPayload) -> NDArray[np.uint64]:
    """Signatures of the texts whose labels taught it, by which a later case keeps them out of what judges it."""
    documents, batches = read_documents(documents_path(case_folder)), book.batches()
    names = (TUNING,) if payload.option == "prompt" else batches.keys() - {EVALUATION, HELD_OUT}
    at = documents.place()
    items = sorted({item for name in names if name in batches for item in batches[name]["items"]})
    return signatures([documents.texts[at[item]] for item in items])


def _version(book: CaseBook, payload: DeployPayload) -> Mapping[str, Any]:
    (version,) = (each for each in book.versions() if each["number"] == payload.version)
    return version


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
