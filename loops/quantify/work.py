"""The pieces of work of a classifier's case, each in a child process: the asking ones, and develop and final here.

Every one is a function of the case's folder and of what is written down, so one that was killed is simply done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from contracts.errors import UserInputError
from loops.classifiers.model import Classifier, load
from loops.classifiers.rules import Rule
from loops.core import Work, Workplace
from loops.pipelines.component import Evaluation, decide, digest_of
from loops.quantify import measured
from loops.quantify.asking import ask_for_labels, label_batch, sample_texts, scored, tune_prompt
from loops.quantify.bench import Bench, book_of, open_bench
from loops.quantify.casebook import LOOP, CaseBook, model_path
from loops.quantify.labels import agreements, reference, wilson
from loops.quantify.need import Labeller
from loops.quantify.plan import ASK, DEVELOP, FINAL, LABEL, SAMPLE, TUNE
from loops.quantify.revisions import Revision, RevisionKind
from loops.quantify.versions import Recipe, Trained, make, probabilities

Json = Mapping[str, Any]


# --- develop


def develop(place: Workplace, arguments: Json) -> Json:
    """One version: trained (or, for what is deployed, read), measured, and decided on against the one that stands."""
    book = book_of(place)
    bench = open_bench(place, book)
    number, revision = int(arguments["version"]), Revision.load(arguments["revision"])
    body: dict[str, Any] = {"number": number, "revision": revision.dump()}
    if revision.kind is RevisionKind.STANDING:
        model, recipe = _deployed(place, bench.need.name)
        body |= {"suspicious": [], "rules": [], "num_unlabelled": 0}
    else:
        place.tell(f"trains version {number}: {revision.why}")
        taken = [each for each in book.versions() if each["decision"]["is_taken"] and each["number"]]
        recipe = (Recipe.load(taken[-1]["recipe"]) if taken else Recipe()).revised(revision)
        trained = make(bench.corpus, recipe, bench.need)
        model = trained.model
        body |= _training_of(bench, trained)
    body |= {**_saved(place.folder, model, recipe), **_evaluated(bench, model, recipe.rules)}
    standing, new = book.standing(), _evaluation(bench, body)
    decision = decide(None if standing is None else _evaluation(bench, standing), new, bench.on)
    return {**body, "score": new.score, "decision": measured.decision_of(decision)}


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


def _saved(folder: Path, model: Classifier, recipe: Recipe) -> Json:
    path = model_path(folder, model.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        model.save(path)
    return {"model_sha256": model.digest, "threshold": model.threshold, "recipe": recipe.dump()}


def _evaluated(bench: Bench, model: Classifier, rules: Sequence[Rule]) -> Json:
    numbers, seed = bench.evaluation, bench.need.seed
    found = probabilities(model, rules, bench.corpus.part(numbers))
    predicted, slices = found >= model.threshold, bench.slices(numbers)
    return {
        "evaluation": measured.part_of(bench.corpus, numbers, found, model.threshold, seed),
        "evaluation_sha256": bench.on.sha256, "items": bench.ids(numbers), "probabilities": found.tolist(),
        "labels": bench.corpus.labels[numbers].tolist(),
        "slices": measured.slices_of(predicted == bench.corpus.labels[numbers], slices),
        "clusters": measured.clusters_of(bench.corpus, bench.documents.ids, numbers, predicted, slices),
        "docs_per_s": measured.speed_of(model, rules, bench.corpus.part(numbers)),
    }  # fmt: skip


def _evaluation(bench: Bench, version: Json) -> Evaluation:
    """Of a version as it is stored."""
    return measured.evaluation_of(
        f"v{version['number']}", np.array(version["probabilities"]), float(version["threshold"]),
        bench.corpus.labels[bench.evaluation], bench.on, bench.need,
    )  # fmt: skip


def _deployed(place: Workplace, name: str) -> tuple[Classifier, Recipe]:
    """What was deployed under this name by an earlier case. Raises UserInputError when its file is gone."""
    found = [
        each
        for each in place.store.casework.of_loop(LOOP, "deployed")
        if each.body["name"] == name and each.body["option"] == "model" and each.case_id != place.case_id
    ]
    case_id, number = found[-1].case_id, found[-1].body["version"]
    path = model_path(place.folder.parent / case_id, str(found[-1].body["sha256"]))
    if not path.exists():
        raise UserInputError(f"the deployed model of {name} is gone: {path}", remedy="restore the folder of that case")
    version = place.store.casework.get(case_id, "version", f"v{number}")
    return load(path), Recipe.load(version.body["recipe"])


# --- final


def look_at_held_out(place: Workplace, arguments: Json) -> Json:
    """The version that stands on texts no version was tuned to; beside it the prompt, and what persons say."""
    book = book_of(place)
    bench = open_bench(place, book)
    standing = book.standing()
    assert standing is not None
    found = scored(place.folder, standing, bench.corpus.part(bench.held_out))
    threshold, seed = float(standing["threshold"]), bench.need.seed
    pairs = agreements(bench.labels, bench.need.labellers)
    return {
        "version": standing["number"],
        "held_out": measured.part_of(bench.corpus, bench.held_out, found, threshold, seed),
        "agreements": [_plain_pair(asdict(each)) for each in pairs],
        "prompt": _prompt_option(bench, book, standing),
        "persons": _by_persons(bench, standing),
    }


def _prompt_option(bench: Bench, book: CaseBook, standing: Json) -> Json | None:
    """Option A on the same set; None without a prompt. Where the model is the reference it agrees with itself."""
    sha256 = book.standing_prompt_sha256()
    if not sha256:
        return None
    said = reference((each for each in bench.labels if each.labeller is Labeller.MODEL), [Labeller.MODEL])
    truth, items = bench.corpus.labels[bench.evaluation], bench.ids(bench.evaluation)
    answers = np.array([float(said.get(item, not label)) for item, label in zip(items, truth.tolist(), strict=True)])
    new = measured.evaluation_of("prompt", answers, 0.5, truth, bench.on, bench.need)
    decision = decide(_evaluation(bench, standing), new, bench.on)
    return {
        "sha256": sha256, "evaluation": measured.part_of(bench.corpus, bench.evaluation, answers, 0.5, bench.need.seed),
        "is_reference": bench.need.labellers[0] is Labeller.MODEL, "decision": measured.decision_of(decision),
        "num_unreadable": len(book.unreadable()),
    }  # fmt: skip


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


WORK: Mapping[str, Work] = {
    SAMPLE: sample_texts, TUNE: tune_prompt, LABEL: label_batch, ASK: ask_for_labels, DEVELOP: develop,
    FINAL: look_at_held_out,
}  # fmt: skip
