"""The use of a deployed classifier: scoring texts, and watching whether they still look like those it was judged on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from context_store import Store
from contracts.errors import NotFound, UserInputError
from loops.classifiers.drift import drift
from loops.classifiers.model import Classifier, load
from loops.classifiers.rules import Rule
from loops.quantify.casebook import CaseBook
from loops.quantify.deployment import Deployed, current
from loops.quantify.documents import Documents
from loops.quantify.versions import probabilities

_BATCH = 1000


def score_lines(deployments: Path, name: str, lines: Iterable[str]) -> Iterator[str]:
    """JSON lines with `probability` and `is_positive` added. Raises UserInputError that names the line."""
    model, rules = _model(_deployed(deployments, name))
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rows.append(_row(number, line))
        if len(rows) == _BATCH:
            yield from _scored(model, rules, rows)
            rows = []
    yield from _scored(model, rules, rows)


def _row(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserInputError(f"line {number} is no JSON: {error}", remedy='write {"text": "..."}') from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise UserInputError(f"line {number} has no text", remedy='write {"text": "..."}')
    return row


def _scored(model: Classifier, rules: list[Rule], rows: list[dict[str, Any]]) -> Iterator[str]:
    found = probabilities(model, rules, [row["text"] for row in rows]) if rows else np.zeros(0)
    for row, probability in zip(rows, found.tolist(), strict=True):
        yield json.dumps({**row, "probability": probability, "is_positive": probability >= model.threshold})


def check_drift(store: Store, deployments: Path, name: str, recent: Documents, at: float) -> dict[str, Any]:
    """What is found is written down in the case, and told where it matters. Without labels it can say that the texts
    have changed, not that the classifier has become worse."""
    deployed = _deployed(deployments, name)
    model, rules = _model(deployed)
    book = CaseBook(store, deployed.payload.case_id, at)
    (version,) = (each for each in book.versions() if each["number"] == deployed.payload.version)
    now = probabilities(model, rules, recent.texts)
    found = drift(np.array(version["probabilities"]), now, model.threshold)
    said = "drifted: label some of these texts and open a new case" if found.has_drifted else "no drift that matters"
    sentence = (
        f"{name} version {version['number']}: {said} (distance {found.distance:.3f}, p {found.p:.2g}; positive "
        f"{found.share_positive_before:.1%} of the evaluation set, {found.share_positive_now:.1%} of {now.size} texts)"
    )
    body = {**vars(found), "sentence": sentence, "documents_sha256": recent.sha256, "num_texts": int(now.size)}
    if book.put_drift(f"{recent.sha256[:16]}:{model.digest[:16]}", body) and found.has_drifted:
        store.activity.publish("finding", sentence, investigation_id=deployed.payload.case_id)
    return body


def _deployed(deployments: Path, name: str) -> Deployed:
    found = current(deployments, name)
    if found is None:
        raise NotFound(f"nothing is deployed as '{name}'", remedy="approve its proposal: lathe proposals list")
    return found


def _model(deployed: Deployed) -> tuple[Classifier, list[Rule]]:
    if deployed.payload.option == "prompt":
        raise UserInputError(
            f"{deployed.payload.name} is deployed as a prompt",
            remedy=f"send {deployed.folder / 'prompt.txt'} to a model",
        )
    rules = json.loads((deployed.folder / "rules.json").read_text())
    return load(deployed.folder / "classifier.npz"), [(tuple(words), positive) for words, positive in rules]
