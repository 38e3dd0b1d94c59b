"""A version as it is stored, read back: its scores on other texts, its evaluation, its hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loops.classifiers.model import Floats, load
from loops.pipelines.component import Evaluation
from loops.quantify import measured
from loops.quantify.bench import Bench
from loops.quantify.casebook import model_path
from loops.quantify.versions import Recipe, probabilities

Json = Mapping[str, Any]


def scored(folder: Path, version: Json, texts: Sequence[str]) -> Floats:
    """Probabilities by a version of the case in `folder`."""
    model, recipe = load(model_path(folder, str(version["model_sha256"]))), Recipe.load(version["recipe"])
    return probabilities(model, recipe.rules, texts)


def evaluation(bench: Bench, version: Json) -> Evaluation:
    """On the set of the case."""
    return measured.evaluation_of(
        f"v{version['number']}", np.array(version["probabilities"]), float(version["threshold"]),
        bench.corpus.labels[bench.evaluation], bench.on, bench.need,
    )  # fmt: skip


def sha256_of(version: Json) -> str:
    """Of model and rules; versions of older cases that had no rules are known by their model alone."""
    return str(version.get("sha256", version["model_sha256"]))
