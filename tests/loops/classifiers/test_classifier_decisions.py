"""The regression gate, agreement with intervals, selection of labels, drift and error analysis."""

from __future__ import annotations

import numpy as np
import pytest
from written import corpus

from loops.classifiers import few_labels, mistakes
from loops.classifiers.drift import drift
from loops.classifiers.gate import compare
from loops.classifiers.groups import near_duplicates, out_of_fold
from loops.classifiers.measures import agreement, kappa
from loops.classifiers.model import logistic, train
from loops.classifiers.selection import next_to_label, suspicious_labels


def test_a_version_that_is_better_overall_and_worse_in_one_slice_is_stopped() -> None:
    """Shows R801-5.6: a regression is caught where it is, however good the rest."""
    rng = np.random.default_rng(0)
    size = 2000
    source = [str(each) for each in rng.choice(["a", "b", "c", "d"], size, p=[0.4, 0.3, 0.2, 0.1])]
    old = rng.random(size) < 0.8
    new = old.copy()
    of_d = np.array(source) == "d"
    new[~of_d & ~old] = rng.random(int((~of_d & ~old).sum())) < 0.8
    new[of_d & old] = rng.random(int((of_d & old).sum())) < 0.8
    assert new.mean() > old.mean() + 0.05
    found = compare(old, new, np.arange(size), {"source": source})
    assert (found.passed, found.worse) == (False, ("source=d",))
    assert compare(old, old, np.arange(size), {"source": source}).passed


def test_a_version_that_is_nowhere_worse_is_seldom_stopped() -> None:
    rng = np.random.default_rng(1)
    size, stopped = 1000, 0
    slices = {
        "source": [str(each) for each in rng.integers(0, 6, size)],
        "length": [str(each) for each in rng.integers(0, 5, size)],
    }
    for _ in range(200):
        old = rng.random(size) < 0.9
        new = np.where(rng.random(size) < 0.1, rng.random(size) < 0.9, old)
        stopped += not compare(old, new, np.arange(size), slices).passed
    assert stopped <= 10  # at a true rate of 0.02 more than 10 of 200 come once in 400 times


def test_copies_count_once_and_a_slice_too_small_to_tell_is_named() -> None:
    old, new = np.ones(40, dtype=np.bool_), np.ones(40, dtype=np.bool_)
    new[:20] = False
    one_text = np.where(np.arange(40) < 20, 0, np.arange(40))
    assert not compare(old, new, np.arange(40), {}).passed
    found = compare(old, new, one_text, {"kind": ["copy"] * 20 + ["own"] * 20})
    assert found.passed
    assert found.blind == ("kind=copy",)
    assert (found.slices[0].lost, found.slices[0].num_groups) == (1, 21)


def test_the_interval_of_a_score_is_wider_when_texts_are_copies_of_each_other() -> None:
    """Shows R801-5.4: what is measured is agreement, with how much evidence it rests on."""
    rng = np.random.default_rng(2)
    labels = rng.random(400) < 0.5
    predicted = np.where(rng.random(400) < 0.1, ~labels, labels)
    alone = agreement(predicted, labels, np.arange(400), rng=rng)
    hit, wrong = int((predicted & labels).sum()), int((predicted != labels).sum())
    assert alone.f1.value == pytest.approx(2 * hit / (2 * hit + wrong))
    assert alone.f1.low < alone.f1.value < alone.f1.high
    copied = agreement(np.tile(predicted, 9), np.tile(labels, 9), np.tile(np.arange(400), 9), rng=rng)
    assert copied.num_groups == 400
    assert copied.f1.high - copied.f1.low == pytest.approx(alone.f1.high - alone.f1.low, rel=0.25)


def test_agreement_beyond_chance() -> None:
    yes = np.array([True] * 50 + [False] * 50)
    assert kappa(yes, yes) == 1.0
    assert kappa(yes, ~yes) == -1.0
    assert kappa(yes, np.tile([True, False], 50)) == pytest.approx(0.0)


def test_what_is_asked_next_is_unsure_once_a_group_and_partly_random() -> None:
    rng = np.random.default_rng(3)
    probabilities = np.linspace(0.0, 1.0, 101)
    groups = np.arange(101) // 2
    labelled = np.zeros(101, dtype=np.bool_)
    labelled[50] = True
    chosen = next_to_label(probabilities, groups, labelled, 20, rng=rng)
    assert chosen.size == len(set(groups[chosen].tolist())) == 20
    assert groups[50] not in groups[chosen]
    assert (np.abs(probabilities[chosen] - 0.5) < 0.2).sum() >= 16
    everything = next_to_label(probabilities, groups, labelled, 500, rng=rng)
    assert everything.size == 50  # one a group, without the one that is known


def test_planted_label_errors_are_found_and_little_else_is_suspected() -> None:
    letters = corpus(600, seed=5, num_copies=0)
    rng = np.random.default_rng(6)
    flipped = rng.permutation(600)[:30]
    given = letters.labels.copy()
    given[flipped] = ~given[flipped]
    margins = out_of_fold(letters.texts, given, np.arange(600), train)
    found = suspicious_labels(logistic(margins), given)
    assert np.isin(flipped, found).mean() > 0.8
    assert found.size < 60


def test_few_labels_teach_nearly_as_much_as_all() -> None:
    letters, unseen = corpus(500, seed=7, length=30), corpus(300, seed=8, num_copies=0, length=30)
    groups = near_duplicates(letters.texts)
    pool = few_labels.pool(letters.texts, groups)
    labelled = np.zeros(len(letters.texts), dtype=np.bool_)
    rng = np.random.default_rng(9)
    for _ in range(4):
        labelled[few_labels.ask_next(pool, labelled, letters.labels, 10, rng=rng)] = True
    assert labelled.sum() == 40
    small = few_labels.distilled(pool, labelled, letters.labels)
    blind = np.where(labelled, letters.labels, ~letters.labels)  # what was not labelled must not be looked at
    assert few_labels.distilled(pool, labelled, blind).digest == small.digest
    right = ((small.margins(unseen.texts) > 0) == unseen.labels).mean()
    assert right > ((train(letters.texts, letters.labels).margins(unseen.texts) > 0) == unseen.labels).mean() - 0.08


def test_drift_is_a_change_that_matters_and_not_one_that_is_merely_certain() -> None:
    rng = np.random.default_rng(10)
    before = rng.beta(2, 5, 3000)
    assert not drift(before, rng.beta(2, 5, 3000), 0.5).has_drifted
    assert not drift(np.repeat(before, 40), np.repeat(before, 40) + 0.01, 0.5).has_drifted
    moved = drift(before, rng.beta(4, 4, 3000), 0.5)
    assert moved.has_drifted
    assert moved.share_positive_now > moved.share_positive_before


def test_mistakes_are_grouped_by_what_they_have_in_common() -> None:
    """Shows R801-5.5: recurring patterns of mistakes, with the slice they come from and their words."""
    letters = corpus(300, seed=11, num_copies=0)
    texts, labels, source = list(letters.texts), letters.labels.copy(), list(letters.source)
    for number in range(24):
        topic = "casino roulette jackpot" if number % 2 else "pharmacy tablets prescription"
        texts.append(f"{topic} {topic} the of and number{number}")
        labels, source = np.append(labels, True), [*source, "mobile"]
    predicted = labels.copy()
    predicted[300:] = False
    found = mistakes.clusters(texts, predicted, labels, {"source": source})
    assert sorted(number for cluster in found for number in cluster.texts) == list(range(300, 324))
    assert all(cluster.missed and cluster.slices == ("source=mobile",) for cluster in found)
    assert any("casino" in cluster.words for cluster in found)
    assert any("pharmacy" in cluster.words for cluster in found)
    assert all(not {"casino", "pharmacy"} <= set(cluster.words) for cluster in found)
