"""Features, training, calibration, the threshold, and the one-file scorer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import Corpus, corpus

from contracts.errors import UserInputError
from loops.classifiers import scorer
from loops.classifiers.features import columns
from loops.classifiers.groups import near_duplicates, out_of_fold
from loops.classifiers.measures import calibration_error
from loops.classifiers.model import Classifier, Settings, calibrated, cheapest_threshold, load, train
from loops.classifiers.rules import SURE, decided

LETTERS = corpus()


@pytest.fixture(scope="module")
def model() -> Classifier:
    groups = near_duplicates(LETTERS.texts)
    margins = out_of_fold(LETTERS.texts, LETTERS.labels, groups, train)
    return calibrated(train(LETTERS.texts, LETTERS.labels), margins, LETTERS.labels)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=8))
def test_the_elements_of_a_text_do_not_depend_on_its_company(texts: list[str]) -> None:
    found, start = columns(texts)
    for number, text in enumerate(texts):
        alone, _ = columns([text])
        assert found[start[number] : start[number + 1]].tolist() == alone.tolist()
        assert alone.tolist() == sorted(set(alone.tolist()))


def test_case_counts_only_in_the_tokens_as_written_and_the_middle_of_a_long_text_is_not_read() -> None:
    lower, upper, other = (set(columns([text])[0].tolist()) for text in ("free cash", "FREE cash", "kernel patch"))
    assert len(lower & upper) >= 4  # both words, their pair, and "cash"
    assert not lower & other
    long = "a b " * 1000
    assert columns([long + "x" + "c d " * 1000])[0].tolist() == columns([long + "y z" + "c d " * 1000])[0].tolist()


def test_a_trained_classifier_finds_unseen_texts_and_survives_its_file(model: Classifier, tmp_path: Path) -> None:
    unseen = corpus(200, seed=1, num_copies=0)
    right = model.predict(unseen.texts) == unseen.labels
    assert right.mean() > 0.95
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.digest == model.digest
    assert again.probabilities(unseen.texts).tolist() == model.probabilities(unseen.texts).tolist()
    (tmp_path / "other.npz").write_bytes(b"no model")
    with pytest.raises(UserInputError, match=r"other\.npz is no classifier"):
        load(tmp_path / "other.npz")


def test_labels_of_one_class_are_refused() -> None:
    with pytest.raises(UserInputError, match="all labels are the same"):
        train(["a", "b"], np.array([True, True]))


def test_probabilities_are_calibrated_where_mistakes_are_made() -> None:
    hard = corpus(900, seed=2, num_copies=0, length=14)
    half = len(hard.texts) // 2
    groups = np.arange(half)
    margins = out_of_fold(hard.texts[:half], hard.labels[:half], groups, train)
    raw = train(hard.texts[:half], hard.labels[:half])
    told = calibrated(raw, margins, hard.labels[:half])
    ours = calibration_error(told.probabilities(hard.texts[half:]), hard.labels[half:])
    assert ours < 0.06
    assert ours < calibration_error(raw.probabilities(hard.texts[half:]), hard.labels[half:])


@pytest.mark.parametrize(("alarm", "miss"), [(1.0, 1.0), (5.0, 1.0), (1.0, 5.0)])
def test_no_other_threshold_is_cheaper(alarm: float, miss: float) -> None:
    rng = np.random.default_rng(3)
    labels = rng.random(80) < 0.4
    probabilities = np.round(np.clip(0.5 * labels + 0.6 * rng.random(80), 0, 1), 2)
    chosen = Settings(cost_false_positive=alarm, cost_false_negative=miss)

    def cost(threshold: float) -> float:
        yes = probabilities >= threshold
        return alarm * float((yes & ~labels).sum()) + miss * float((~yes & labels).sum())

    found = cheapest_threshold(probabilities, labels, chosen)
    assert cost(found) == min(cost(each) for each in np.arange(0.0, 1.011, 0.005))


def test_the_one_file_scorer_says_the_same_in_a_process_of_its_own(model: Classifier, tmp_path: Path) -> None:
    """Shows R801-5.3: deployment B, the small model, as one file that needs numpy alone."""
    rules = ((("patch", "kernel"), True), (("prize",), False))
    path = tmp_path / "offers.py"
    path.write_text(scorer.source(model, name="offers", positive="an offer", ruled=rules))
    unseen = corpus(50, seed=4, num_copies=0)
    lines = "\n".join(json.dumps({"id": number, "text": text}) for number, text in enumerate(unseen.texts))
    ran = subprocess.run(
        [sys.executable, "-I", str(path)], input=lines, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["id"] for row in rows] == list(range(50))
    expected = decided(unseen.texts, rules, model.probabilities(unseen.texts))
    assert [row["probability"] for row in rows] == expected.tolist()
    both = np.array(["patch" in text.split() and "kernel" in text.split() for text in unseen.texts])
    prize = np.array(["prize" in text.split() for text in unseen.texts])
    assert (expected[both] == SURE).all()
    assert (expected[prize & ~both] == 1.0 - SURE).all()
    assert (expected[~prize & ~both] == model.probabilities(unseen.texts)[~prize & ~both]).all()
    assert both.any()
    assert (prize & ~both).any()
    assert [row["is_positive"] for row in rows] == (expected >= model.threshold).tolist()


def test_names_do_not_become_code_and_the_hash_is_of_model_and_rules(model: Classifier, tmp_path: Path) -> None:
    path, wicked = tmp_path / "offers.py", '"""\nimport os; os.abort()\n"""'
    ruled = ((("prize",), True),)
    path.write_text(scorer.source(model, name=wicked, positive=wicked, ruled=ruled))
    ran = subprocess.run([sys.executable, "-I", str(path)], input='{"text": "prize"}', capture_output=True, text=True)
    assert (ran.returncode, json.loads(ran.stdout)["is_positive"]) == (0, True)
    assert scorer.digest(model, ()) == model.digest
    assert len({scorer.digest(model, each) for each in ((), ruled, ((("prize",), False),))}) == 3
    assert scorer.digest(model, ruled) in path.read_text()


def test_near_duplicates_are_one_group_and_never_on_both_sides_of_a_fold() -> None:
    letters: Corpus = LETTERS
    groups = near_duplicates(letters.texts)
    assert all(groups[original] == groups[copy] for original, copy in letters.copies)
    assert len(set(groups.tolist())) == len(letters.texts) - len(letters.copies)
    seen: list[set[int]] = []

    def fit(texts: list[str], labels: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Classifier:
        seen.append({int(groups[letters.texts.index(text)]) for text in texts})
        return train(texts, labels)

    margins = out_of_fold(letters.texts, letters.labels, groups, fit, num_folds=3)
    every = set(groups.tolist())
    outside = [every - inside for inside in seen]
    assert sum(len(each) for each in outside) == len(every)  # each group is outside once, whole
    assert ((margins > 0) == letters.labels).mean() > 0.9
