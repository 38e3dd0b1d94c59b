"""Trainings whose curves are compared: each is done once and remembered, so that an aborted benchmark goes on."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainer.config import TrainConfig
from trainer.corpus import load_corpus
from trainer.recipe import Recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.training import Training

Curve = NDArray[np.float64]
Curves = Mapping[str, Curve]
SERIES = ("lm_loss", "max_vio", "max_vio_micro", "router_entropy/layers.4", "weight_norm/layers.4.experts")


class TrainingCurves:
    """Series by config. They are remembered for exactly this config and this code of the trainer."""

    def __init__(self, keep: Path | None) -> None:
        """`keep` is a file of JSON lines; None remembers within the process only."""
        make_deterministic(1)
        keep_freed_memory()
        self._keep = keep
        self._code = _code_hash()
        lines = keep.read_text().splitlines() if keep and keep.is_file() else []
        self._known: dict[str, dict[str, list[float]]] = {e["key"]: e["series"] for e in map(json.loads, lines)}

    def of(self, config: TrainConfig, num_steps: int, label: str) -> Curves:
        """The SERIES of the first `num_steps` steps."""
        described = json.dumps([config.flat(), num_steps, SERIES, self._code], sort_keys=True)
        key = hashlib.sha256(described.encode()).hexdigest()
        if key not in self._known:
            started = time.perf_counter()
            series = _train(config, num_steps)
            self._known[key] = series
            if self._keep:
                with self._keep.open("a") as file:
                    file.write(json.dumps({"key": key, "label": label, "series": series}) + "\n")
            sys.stderr.write(f"{label}: {num_steps} steps in {time.perf_counter() - started:.0f} s\n")
        return {name: np.array(values) for name, values in self._known[key].items()}


def smoothed(curve: Curve, window: int) -> Curve:
    """Mean of the last `window` values up to each step; NaN before there are as many."""
    sums = np.cumsum(np.concatenate([[0.0], curve]))
    full = (sums[window:] - sums[:-window]) / window
    return np.concatenate([np.full(window - 1, np.nan), full])


def _train(config: TrainConfig, num_steps: int) -> dict[str, list[float]]:
    recipe, corpus = Recipe(config=config), load_corpus(config.data.corpus_bytes)
    training = Training(recipe, corpus, None, time.perf_counter)
    records = [training.advance().values for _ in range(num_steps)]
    return {name: _column(records, name) for name in SERIES}


def _column(records: Sequence[Mapping[str, float]], name: str) -> list[float]:
    return [record[name] for record in records]


def _code_hash() -> str:
    folder = Path(__file__).parent.parent / "trainer"
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
