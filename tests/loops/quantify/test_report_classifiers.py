"""The published three classifiers (R801-5.7): each dips at its second version, and the dip is caught.

The published figures are those of 100 texts, with the mean of both classes' F1: confusions that give exactly them exist
for all nine versions.
"""

from __future__ import annotations

import numpy as np
import pytest

from loops.classifiers.gate import compare
from loops.pipelines.component import Decision, EvaluationSet, decide
from loops.quantify.measured import evaluation_of, macro_f1
from loops.quantify.need import Labeller, Need

# how many of 100 texts are positive; then accuracy and F1 of each version in per cent, as published
PUBLISHED = {
    "ad-intent": (35, ((82.00, 79.65), (77.00, 71.16), (90.00, 89.27))),
    "computer-topic": (50, ((95.00, 95.00), (89.00, 88.95), (100.00, 100.00))),
    "clinical-health-topic": (46, ((96.00, 95.97), (93.00, 92.91), (97.00, 96.99))),
}
GAINS = {"ad-intent": (8.0, 9.62), "computer-topic": (5.0, 5.0), "clinical-health-topic": (1.0, 1.02)}  # as published
NUM = 100


def predictions(num_positive: int, accuracy: float, f1: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of 100 texts, the first ones positive, with exactly these figures; the same texts are wrong first."""
    labels = np.arange(NUM) < num_positive
    num_wrong = round(NUM - accuracy)
    for misses in range(num_wrong + 1):
        found = labels.copy()
        found[:misses] = False
        found[NUM - (num_wrong - misses) :] = misses < num_wrong
        if macro_f1(found, labels) == pytest.approx(f1 / 100, abs=6e-5):
            return found
    raise AssertionError(f"no confusion of {num_positive} positive texts gives {accuracy} and {f1}")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_second_version_is_caught_and_the_third_is_taken(name: str) -> None:
    """Shows R801-5.6 and R801-5.7: the gains are the published ones; a worse version never takes the place."""
    num_positive, published = PUBLISHED[name]
    labels, on = np.arange(NUM) < num_positive, EvaluationSet(sha256="s", groups=np.arange(NUM), slices={})
    wanted = Need(name=name, need="n", positive="yes", negative="no", labellers=(Labeller.GIVEN,))
    found = [predictions(num_positive, *figures) for figures in published]
    for said, (accuracy, f1) in zip(found, published, strict=True):
        assert (said == labels).mean() == pytest.approx(accuracy / 100)
        assert macro_f1(said, labels) == pytest.approx(f1 / 100, abs=6e-5)
    first, second, third = (
        evaluation_of(f"v{number}", said.astype(np.float64), 0.5, labels, on, wanted)
        for number, said in enumerate(found, start=1)
    )
    dip, rise = decide(first, second, on), decide(first, third, on)
    assert not dip.is_taken
    assert dip.change is not None
    assert dip.change.value == pytest.approx((published[1][0] - published[0][0]) / 100)
    assert rise.is_taken, rise.reason
    assert rise.change is not None
    gained = macro_f1(found[2], labels) - macro_f1(found[0], labels)  # type: ignore[operator]
    assert (100 * rise.change.value, 100 * gained) == pytest.approx(GAINS[name], abs=0.02)


def test_in_one_larger_set_the_dip_is_more_than_chance_and_the_gate_names_it() -> None:
    """The same shares on 400 texts: then the paired test alone stops the ad-intent classifier's second version."""
    num_positive, published = PUBLISHED["ad-intent"]
    labels = np.tile(np.arange(NUM) < num_positive, 4)
    first, second = (np.tile(predictions(num_positive, *figures), 4) == labels for figures in published[:2])
    found = compare(first, second, np.arange(4 * NUM), {})
    assert (found.passed, found.worse) == (False, ("all",))


def test_a_refused_version_says_why() -> None:
    on = EvaluationSet(sha256="s", groups=np.arange(4), slices={})
    wanted = Need(name="x", need="n", positive="yes", negative="no", labellers=(Labeller.GIVEN,))
    labels = np.array([True, True, False, False])
    good = evaluation_of("v1", labels.astype(np.float64), 0.5, labels, on, wanted)
    costly = evaluation_of("v2", np.zeros(4), 0.5, labels, on, wanted)
    decision: Decision = decide(good, costly, on)
    assert decision.reason.startswith("not better")
    dear = Need(name="x", need="n", positive="y", negative="n", labellers=(Labeller.GIVEN,), cost_false_negative=4.0)
    missed, alarms = (
        evaluation_of("v", said.astype(np.float64), 0.5, labels, on, dear) for said in (np.zeros(4), np.ones(4))
    )
    assert missed.score == pytest.approx(0.5)
    assert alarms.score == pytest.approx(1 - 0.25 / 2)
