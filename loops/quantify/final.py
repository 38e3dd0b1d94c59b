"""The last look: what stands on texts no version was tuned to, and both options against what is deployed now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from loops.classifiers.groups import Ints
from loops.classifiers.model import Floats
from loops.core import Workplace
from loops.pipelines.component import decide
from loops.quantify import measured
from loops.quantify.bench import Bench, book_of, open_bench
from loops.quantify.casebook import CaseBook
from loops.quantify.labels import agreements, reference, wilson
from loops.quantify.need import Labeller
from loops.quantify.stored import evaluation, scored

Json = Mapping[str, Any]


def look_at_held_out(place: Workplace, arguments: Json) -> Json:
    """The version that stands (0: what is deployed), and the prompt where a model labels. What is deployed judged every
    version on the way; here what stands is held against it once more, so that small losses do not add up."""
    book = book_of(place)
    bench = open_bench(place, book)
    standing = book.standing()
    assert standing is not None
    held_out = None
    if standing["number"]:
        found = scored(place.folder, standing, bench.corpus.part(bench.held_out))
        held_out = _part(bench, bench.held_out, found, float(standing["threshold"]))
    pairs = agreements(bench.labels, bench.need.labellers)
    return {
        "version": standing["number"], "held_out": held_out, "against_deployed": _against_deployed(bench, book),
        "agreements": [_plain_pair(asdict(each)) for each in pairs], "prompt": _prompt_option(bench, book, standing),
        "persons": _by_persons(bench, standing),
    }  # fmt: skip


def _part(bench: Bench, numbers: Ints, found: Floats, threshold: float) -> Json | None:
    """None where nothing of it has a label."""
    if not numbers.size:
        return None
    return measured.part_of(bench.corpus, numbers, found, threshold, bench.need.seed)


def _against_deployed(bench: Bench, book: CaseBook) -> Json | None:
    deployed, standing = book.deployed(), book.standing()
    if deployed is None or standing is None or not standing["number"]:
        return None
    return measured.decision_of(decide(evaluation(bench, deployed), evaluation(bench, standing), bench.on))


def _prompt_option(bench: Bench, book: CaseBook, standing: Json) -> Json | None:
    """Option A on the same sets; None without a prompt. Where the model is the reference it agrees with itself."""
    sha256 = book.standing_prompt_sha256()
    if not sha256:
        return None
    found, held_out = (_answers(bench, numbers) for numbers in (bench.evaluation, bench.held_out))
    truth = bench.corpus.labels[bench.evaluation]
    new, deployed = measured.evaluation_of("prompt", found, 0.5, truth, bench.on, bench.need), book.deployed()
    before = None if deployed is None else decide(evaluation(bench, deployed), new, bench.on)
    mine = f"@{sha256[:12]}"
    return {
        "sha256": sha256, "model": book.labelling_model(), "answers": found.tolist(),
        "evaluation": _part(bench, bench.evaluation, found, 0.5),
        "held_out": _part(bench, bench.held_out, held_out, 0.5) if book.prompt_is_held_out() else None,
        "is_reference": bench.need.labellers[0] is Labeller.MODEL,
        "decision": measured.decision_of(decide(evaluation(bench, standing), new, bench.on)),
        "against_deployed": None if before is None else measured.decision_of(before),
        "num_unreadable": sum(str(each["source"]).endswith(mine) for each in book.unreadable()),
    }  # fmt: skip


def _answers(bench: Bench, numbers: Ints) -> Floats:
    """Of the prompt that stands: 1 or 0; the wrong one where its answer could not be read."""
    said = reference((each for each in bench.labels if each.labeller is Labeller.MODEL), [Labeller.MODEL])
    truth = bench.corpus.labels[numbers].tolist()
    return np.array([float(said.get(item, not label)) for item, label in zip(bench.ids(numbers), truth, strict=True)])


def _by_persons(bench: Bench, standing: Json) -> Json | None:
    """Agreement of the version with persons where they are not the reference: a second number (R801-5.4)."""
    if bench.need.labellers[0] is Labeller.PERSON:
        return None
    said = reference((each for each in bench.labels if each.labeller is Labeller.PERSON), [Labeller.PERSON])
    rows = [at for at, item in enumerate(standing["items"]) if item in said]
    if not rows:
        return None
    predicted = np.array(standing["probabilities"])[rows] >= float(standing["threshold"])
    right = predicted == np.array([said[standing["items"][at]] for at in rows])
    return {"num_texts": len(rows), "share": asdict(wilson(right))}


def _plain_pair(pair: dict[str, Any]) -> Json:
    kappa = {name: value if np.isfinite(value) else None for name, value in pair["kappa"].items()}
    return {**pair, "first": str(pair["first"]), "second": str(pair["second"]), "kappa": kappa}
