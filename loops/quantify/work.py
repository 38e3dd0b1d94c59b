"""The pieces of work of a classifier's case, each in a child process; here the one that makes a version.

Every one is a function of the case's folder and of what is written down, so one that was killed is simply done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loops.classifiers import scorer
from loops.classifiers.model import Classifier, Floats
from loops.core import Work, Workplace
from loops.pipelines.component import decide, digest_of
from loops.quantify import measured
from loops.quantify.asking import ask_for_labels, label_batch, label_with_deployed, sample_texts, tune_prompt
from loops.quantify.bench import Bench, book_of, open_bench
from loops.quantify.casebook import CaseBook, model_path
from loops.quantify.deployment import BASE_FOLDER, DeployPayload, read_model
from loops.quantify.final import look_at_held_out
from loops.quantify.plan import ASK, DEVELOP, FINAL, LABEL, SAMPLE, TUNE
from loops.quantify.revisions import Revision, RevisionKind
from loops.quantify.stored import evaluation
from loops.quantify.versions import Recipe, Trained, make, probabilities

Json = Mapping[str, Any]


def develop(place: Workplace, arguments: Json) -> Json:
    """One version: trained (or, for what is deployed, read), measured, and decided on against the one that stands."""
    book = book_of(place)
    bench = open_bench(place, book)
    number, revision = int(arguments["version"]), Revision.load(arguments["revision"])
    body: dict[str, Any] = {"number": number, "revision": revision.dump()}
    if revision.kind is RevisionKind.STANDING:
        body |= _deployed(place, book, bench)
    else:
        place.tell(f"trains version {number}: {revision.why}")
        taken = [each for each in book.versions() if each["decision"]["is_taken"] and each["number"]]
        recipe = (Recipe.load(taken[-1]["recipe"]) if taken else Recipe()).revised(revision)
        trained = make(bench.corpus, recipe, bench.need)
        body |= {**_training_of(bench, trained), **_measured(place.folder, bench, trained.model, recipe)}
    standing, new = book.standing(), evaluation(bench, body)
    decision = decide(None if standing is None else evaluation(bench, standing), new, bench.on)
    return {**body, "score": new.score, "decision": measured.decision_of(decision)}


def _deployed(place: Workplace, book: CaseBook, bench: Bench) -> Json:
    """Version 0: what was deployed when the case was opened, from the copy in its folder."""
    payload, base = DeployPayload.model_validate(book.base()), place.folder / BASE_FOLDER
    body: dict[str, Any] = {"suspicious": [], "rules": [], "num_labels": 0, "num_unlabelled": 0}
    if payload.option == "model":
        model, rules = read_model(base)
        return {**body, **_measured(place.folder, bench, model, Recipe(rules=rules))}
    texts = bench.corpus.part(bench.evaluation)
    answers = label_with_deployed(place, book, payload, dict(zip(bench.ids(bench.evaluation), texts, strict=True)))
    truth = bench.corpus.labels[bench.evaluation].tolist()
    found = np.array([
        float(answers.get(item, not label)) for item, label in zip(bench.ids(bench.evaluation), truth, strict=True)
    ])  # fmt: skip
    body |= {"sha256": payload.sha256, "model_sha256": "", "recipe": Recipe().dump(), "docs_per_s": None}
    return {**body, **_evaluated(bench, found, 0.5)}


def _training_of(bench: Bench, trained: Trained) -> Json:
    used = bench.ids(trained.trained_on)
    labels = bench.corpus.labels[trained.trained_on].tolist()
    known = bench.corpus.known & bench.corpus.pool
    asked = np.setdiff1d(np.unique(bench.corpus.groups[bench.corpus.pool]), np.unique(bench.corpus.groups[known]))
    return {
        "num_labels": len(used), "num_positive": int(sum(labels)), "labels_sha256": digest_of([used, labels]),
        "suspicious": bench.ids(trained.suspicious), "num_unlabelled": int(asked.size),
        "rules": [[list(words), positive, sentence] for words, positive, sentence in trained.rules],
        "training_clusters": [each.sentence for each in trained.clusters[:8]], "train_s": trained.seconds,
    }  # fmt: skip


def _measured(folder: Path, bench: Bench, model: Classifier, recipe: Recipe) -> Json:
    path = model_path(folder, model.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        model.save(path)
    texts = bench.corpus.part(bench.evaluation)
    return {
        "model_sha256": model.digest, "sha256": scorer.digest(model, recipe.rules), "recipe": recipe.dump(),
        "docs_per_s": measured.speed_of(model, recipe.rules, texts),
        **_evaluated(bench, probabilities(model, recipe.rules, texts), model.threshold),
    }  # fmt: skip


def _evaluated(bench: Bench, found: Floats, threshold: float) -> Json:
    numbers = bench.evaluation
    predicted, slices = found >= threshold, bench.slices(numbers)
    return {
        "threshold": threshold,
        "evaluation": measured.part_of(bench.corpus, numbers, found, threshold, bench.need.seed),
        "evaluation_sha256": bench.on.sha256, "items": bench.ids(numbers), "probabilities": found.tolist(),
        "labels": bench.corpus.labels[numbers].tolist(),
        "slices": measured.slices_of(predicted == bench.corpus.labels[numbers], slices),
        "clusters": measured.clusters_of(bench.corpus, bench.documents.ids, numbers, predicted, slices),
    }  # fmt: skip


WORK: Mapping[str, Work] = {
    SAMPLE: sample_texts, TUNE: tune_prompt, LABEL: label_batch, ASK: ask_for_labels, DEVELOP: develop,
    FINAL: look_at_held_out,
}  # fmt: skip
