"""The rewriter of mails on real mails with planted damage: what its rules mend, and what the fidelity audit catches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from loops.classifiers.groups import Ints
from loops.pipelines.component import EvaluationSet, digest_of
from loops.pipelines.damage import damaged
from loops.pipelines.fidelity import audit
from loops.pipelines.improve import Revision, improve
from loops.pipelines.rewriter import RULES, Rewriter, agreeing_lines, evaluate, whitespace

_MAX_CHARS = 4000
_NUM_MAILS = 1500
_NUMBER = re.compile(r"\d+")
_SIGN = re.compile(r"(?<=[\w ])[-+<>!](?=[\w =])")
_TURNED = {"-": "+", "+": "-", "<": ">", ">": "<", "!": "="}


def measure(texts: Sequence[str], forms: Sequence[str], groups: Ints, rng: np.random.Generator) -> dict[str, Any]:
    """Plain mails, damaged, are to come out as they were. Rules are tried one by one and taken by the same decision as
    versions of a classifier."""
    plain = [number for number, form in enumerate(forms) if form == "plain" and 200 < len(texts[number]) < _MAX_CHARS]
    numbers = rng.permutation(plain)[:_NUM_MAILS]
    clean = [whitespace(texts[each])[0] for each in numbers]
    given = [damaged(text, rng) for text in clean]
    kinds = ["patch" if re.search(r"^[+-@]{2,3} ", text, re.MULTILINE) else "letter" for text in clean]
    on = EvaluationSet(sha256=digest_of([given, clean]), groups=groups[numbers], slices={"kind": kinds})
    found = improve(
        Rewriter(rules=("whitespace",)), _revisions(), lambda name, it: evaluate(name, it, given, clean, on), on
    )
    before = float(np.mean([agreeing_lines(text, wanted) for text, wanted in zip(given, clean, strict=True)]))
    return {
        "rewriter_mails": len(clean), "rewriter_lines_before": before, "rewriter_lines_after": found.evaluation.score,
        "rewriter_exact": float(found.evaluation.right.mean()), "rewriter_rules": list(found.standing.rules),
        "rewriter_not_taken": [each.reason for each in found.decisions if not each.is_taken],
        "rewriter_refused": sum(found.standing.rewrite(text).refused is not None for text in given) / len(given),
        **_audited(clean, rng),
    }  # fmt: skip


def _revisions() -> list[Revision[Rewriter]]:
    def adding(rule: str) -> Revision[Rewriter]:
        return Revision(name=rule, why=f"texts with {rule}", make=lambda now: now.plus(rule))

    return [adding(rule) for rule in RULES if rule != "whitespace"]


def _audited(clean: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    """Wrong rewrites: a number changed, a word taken out, two words exchanged, or a sign turned."""
    wrong = [each for text in clean if (each := _wrong(text, rng)) is not None]
    caught = sum(not audit(before, after, ()).passed for before, after in wrong)
    return {"audit_caught": caught, "audit_planted": len(wrong)}


def _wrong(text: str, rng: np.random.Generator) -> tuple[str, str] | None:
    """None where the drawn change cannot be made in this text."""
    words, signs = list(re.finditer(r"\b[a-zA-Z]{3,}\b", text)), list(_SIGN.finditer(text))
    kind = int(rng.integers(4))
    if kind == 0 and (number := _NUMBER.search(text)) is not None:
        return text, f"{text[: number.start()]}{int(number[0]) + 1}{text[number.end() :]}"
    if kind == 1 and len(words) > 1:
        first, second = sorted(rng.permutation(len(words))[:2].tolist())
        one, other = words[first], words[second]
        if one[0] == other[0]:
            return None
        between = text[one.end() : other.start()]
        return text, f"{text[: one.start()]}{other[0]}{between}{one[0]}{text[other.end() :]}"
    if kind == 2 and signs:
        chosen = signs[int(rng.integers(len(signs)))]
        return text, f"{text[: chosen.start()]}{_TURNED[chosen[0]]}{text[chosen.end() :]}"
    if not words:
        return None
    chosen = words[int(rng.integers(len(words)))]
    return text, text[: chosen.start()] + text[chosen.end() :]
