"""Bits per byte of held-out text: the one measure that no tokenizer, template or extractor moves.

Text is read in windows of characters, each from the model's first token on, so that two models see the same contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from context_store.canonical import canonical_json, content_hash
from contracts.events import Scalar
from loops.evals.model import Asked, EvaluatedModel
from loops.evals.run import HARNESS, VERSION
from loops.evals.task import Text

PROTOCOL = "bits_per_byte/1"
WINDOW = 128  # characters


@dataclass(frozen=True, kw_only=True)
class Bits:
    """`documents`: (bits, bytes) of each."""

    text: Text
    model: str
    facts: Mapping[str, Scalar]
    window: int
    documents: tuple[tuple[float, int], ...]

    @cached_property
    def value(self) -> float:
        return sum(bits for bits, _ in self.documents) / sum(count for _, count in self.documents)

    @property
    def stderr(self) -> float | None:
        """Over documents; None for a single one."""
        each = np.array([bits / count for bits, count in self.documents if count])
        return float(each.std(ddof=1) / np.sqrt(each.size)) if each.size > 1 else None

    @property
    def identity(self) -> dict[str, Any]:
        """As `Evaluation.identity`."""
        return {
            "benchmark": self.text.name,
            "metric": "bits_per_byte",
            "protocol": PROTOCOL,
            "harness": HARNESS,
            "harness_version": VERSION,
            "settings": {"text": self.text.digest, "window": self.window, **self.facts},
        }


def bits_per_byte(text: Text, model: EvaluatedModel, *, window: int = WINDOW) -> Bits:
    """Raises UserInputError for a model that gives no log-likelihoods."""
    pieces = [
        (number, document[start : start + window])
        for number, document in enumerate(text.documents)
        for start in range(0, len(document), window)
    ]
    weighed = model.weigh([Asked(text="", starts=True)] * len(pieces), [piece for _, piece in pieces])
    totals = [[0.0, 0] for _ in text.documents]
    for (number, piece), each in zip(pieces, weighed, strict=True):
        totals[number][0] -= each.logprob / log(2.0)
        totals[number][1] += len(piece.encode())
    documents = tuple((float(bits), int(count)) for bits, count in totals)
    return Bits(text=text, model=model.name, facts=dict(model.facts), window=window, documents=documents)


def save(found: Bits, folder: Path) -> tuple[Path, str]:
    """Write the bits of each document; returns the file and its hash."""
    head = {"identity": found.identity, "model": found.model, "bits_per_byte": found.value}
    rows = [
        {"document": number, "bits": bits, "bytes": count, "text": document[:200]}
        for number, (document, (bits, count)) in enumerate(zip(found.text.documents, found.documents, strict=True))
    ]
    content = "\n".join(map(canonical_json, [head, *rows])) + "\n"
    digest = content_hash(content)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.text.name}.{digest[:16]}.jsonl"
    path.write_text(content)
    return path, digest
