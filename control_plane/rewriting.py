"""The rewriter of mails as a person uses it: its rules tried on texts, and those that were taken run over others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from context_store.records import Level
from contracts.errors import UserInputError
from loops.classifiers.groups import near_duplicates
from loops.pipelines.component import ComponentKind, Decision, Declared, EvaluationSet, Pipeline, digest_of
from loops.pipelines.damage import damaged
from loops.pipelines.improve import Improved, Revision, improve
from loops.pipelines.rewriter import RULES, RULES_VERSION, Rewriter, evaluate, whitespace
from loops.quantify.documents import read_documents, row_with_text

PURPOSE = "repair what transport and mailing lists do to texts"


class Rules(BaseModel):
    """A rewriter that was taken, as a file. `not_taken`: rule -> why; `num_refused` of `num_texts`: repairs that the
    fidelity audit refused, so that the text stayed as it was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[str, ...]
    digest: str
    evaluation_sha256: str
    score: float
    share_exact: float
    not_taken: dict[str, str] = Field(default_factory=dict)
    num_texts: int
    num_refused: int
    rules_version: int = RULES_VERSION


def developed(path: Path, *, seed: int) -> Rules:
    """Each rule tried on the texts of a file, taken where it helps and no slice gets worse. Without `wanted` the texts
    themselves are wanted, and damage is planted in them. Raises UserInputError."""
    documents = read_documents(path)
    given, wanted = _pairs(path, documents.texts, np.random.default_rng(seed))
    on = EvaluationSet(
        sha256=digest_of([given, wanted]), groups=near_duplicates(wanted), slices=documents.slices
    )  # fmt: skip
    first = Rewriter(rules=("whitespace",))
    tried = [name for name in RULES if name not in first.rules]
    found = improve(
        first, [_adding(name) for name in tried], lambda name, it: evaluate(name, it, given, wanted, on), on
    )
    _placed(found, on)
    return Rules(
        rules=found.standing.rules, digest=found.standing.digest, evaluation_sha256=on.sha256,
        score=found.evaluation.score, share_exact=float(found.evaluation.right.mean()), num_texts=len(given),
        not_taken={
            name: each.reason for name, each in zip(tried, found.decisions[1:], strict=True) if not each.is_taken
        },
        num_refused=sum(found.standing.rewrite(text).refused is not None for text in given),
    )  # fmt: skip


def _pairs(path: Path, texts: tuple[str, ...], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    wanted = [line["wanted"] for line in lines if isinstance(line.get("wanted"), str)]
    if wanted and len(wanted) != len(texts):
        raise UserInputError(f"{path}: some texts have no `wanted`", remedy="give it to all of them, or to none")
    if wanted:
        return list(texts), wanted
    clean = [whitespace(text)[0] for text in texts]
    return [damaged(text, rng) for text in clean], clean


def _adding(rule: str) -> Revision[Rewriter]:
    return Revision(name=rule, why=f"texts with {rule}", make=lambda now: now.plus(rule))


def _placed(found: Improved[Rewriter], on: EvaluationSet) -> Pipeline:
    """What is written is a declared component whose version was taken; else UserInputError."""
    declared = Declared(
        name="repair", kind=ComponentKind.REWRITER, level=Level.L4, purpose=PURPOSE, evaluation_sha256=on.sha256
    )
    taken: list[Decision] = [each for each in found.decisions if each.is_taken]
    return Pipeline(name="repair").plus(declared, (taken or list(found.decisions))[-1])


def read_rules(path: Path) -> Rewriter:
    """Raises UserInputError for a file that is none, or of rules that did something else."""
    try:
        rules = Rules.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise UserInputError(f"{path} holds no rules: {error}", remedy="make it: lathe rewriter improve") from None
    rewriter = Rewriter(rules=rules.rules)
    if rules.digest != rewriter.digest:
        raise UserInputError(f"{path} is of other rules than these", remedy="make it again: lathe rewriter improve")
    return rewriter


def rewritten(rewriter: Rewriter, lines: Iterable[str], counted: dict[str, int]) -> Iterator[str]:
    """JSON lines with their `text` repaired; what fails the audit stays. Raises UserInputError that names the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = row_with_text(number, line)
        done = rewriter.rewrite(row["text"])
        kind = "refused" if done.refused else "changed" if done.text != row["text"] else "unchanged"
        counted[kind] += 1
        yield json.dumps({**row, "text": done.text})
