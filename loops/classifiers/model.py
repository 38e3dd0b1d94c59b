"""A linear classifier over hashed features: training, probabilities, a threshold by cost, and its file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError
from loops.classifiers.features import BITS, columns

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`strength`: inverse of the L2 penalty. `balanced`: both classes count the same in training, whatever their sizes.

    `cost_false_positive` and `cost_false_negative` decide the threshold, in any common unit.
    """

    strength: float = 30.0
    balanced: bool = True
    cost_false_positive: float = 1.0
    cost_false_negative: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """`weights` (2^BITS,) float16 and `bias`: the margin of a text is the mean weight of its columns times the root of
    their number, plus `bias`. The probability is the logistic of `slope` * margin + `offset` (Platt 1999).

    A text is positive from `threshold` on, a probability.
    """

    weights: NDArray[np.float16]
    bias: float
    slope: float = 1.0
    offset: float = 0.0
    threshold: float = 0.5

    def margins(self, texts: Sequence[str]) -> Floats:
        """(len(texts),); a text without any element has the bias alone."""
        found, start = columns(texts)
        sums = np.concatenate([[0.0], np.cumsum(self.weights.astype(np.float32)[found], dtype=np.float64)])
        count = np.diff(start)
        spread = np.sqrt(np.maximum(count, 1))
        return np.asarray((sums[start[1:]] - sums[start[:-1]]) / spread + self.bias, dtype=np.float64)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Calibrated probability of the positive class, (len(texts),)."""
        return logistic(self.slope * self.margins(texts) + self.offset)

    def predict(self, texts: Sequence[str]) -> Bools:
        """(len(texts),)."""
        return self.probabilities(texts) >= self.threshold

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides a score."""
        numbers = json.dumps([_FORMAT, BITS, self.bias, self.slope, self.offset, self.threshold])
        return hashlib.sha256(numbers.encode() + self.weights.tobytes()).hexdigest()

    def save(self, path: Path) -> None:
        """One .npz file."""
        numbers = np.array([self.bias, self.slope, self.offset, self.threshold])
        with path.open("wb") as file:
            np.savez_compressed(file, format=np.array([_FORMAT, BITS]), weights=self.weights, numbers=numbers)


def load(path: Path) -> Classifier:
    """Raises UserInputError for a file that is no classifier, or one of another version."""
    try:
        with np.load(path) as file:
            version, weights, numbers = file["format"].tolist(), file["weights"], file["numbers"].tolist()
    except (OSError, ValueError, KeyError) as error:
        raise UserInputError(f"{path} is no classifier: {error}", remedy="name a file that was saved here") from None
    if version != [_FORMAT, BITS]:
        raise UserInputError(f"{path} has format {version}, not {[_FORMAT, BITS]}", remedy="train it again")
    bias, slope, offset, threshold = numbers
    return Classifier(weights=weights, bias=bias, slope=slope, offset=offset, threshold=threshold)


def train(texts: Sequence[str], labels: Bools, settings: Settings | None = None) -> Classifier:
    """Logistic regression on the elements of the texts. Not calibrated: see `calibrated`.

    Raises UserInputError when one of the classes is missing.
    """
    return train_on(as_matrix(texts), labels, settings or Settings(), np.ones(len(texts)))


def as_matrix(texts: Sequence[str]) -> sparse.csr_matrix:
    """(len(texts), 2^BITS): 1 / sqrt(number of elements) where a text has the element."""
    from scipy import sparse

    found, start = columns(texts)
    count = np.diff(start)
    values = np.repeat(1.0 / np.sqrt(np.maximum(count, 1)), count)
    return sparse.csr_matrix((values, found, start), shape=(len(texts), 1 << BITS))


def train_on(elements: sparse.csr_matrix, labels: Bools, settings: Settings, weight: Floats) -> Classifier:
    """As `train`, from `as_matrix`, each text with a `weight`; by liblinear, deterministic."""
    from sklearn.linear_model import LogisticRegression

    if labels.all() or not labels.any():
        raise UserInputError("all labels are the same", remedy="label examples of both classes")
    weighting = "balanced" if settings.balanced else None
    fitted = LogisticRegression(
        C=settings.strength, solver="liblinear", class_weight=weighting, random_state=0, max_iter=200
    ).fit(elements, labels, sample_weight=weight)
    return Classifier(weights=fitted.coef_[0].astype(np.float16), bias=float(fitted.intercept_[0]))


def calibrated(model: Classifier, margins: Floats, labels: Bools, settings: Settings | None = None) -> Classifier:
    """`model` with probabilities and a threshold from margins it was not trained on (out of fold).

    Platt's smoothed targets (Platt 1999, section 2.2) keep the slope finite where the classes are apart. Of thresholds
    with the same cost the middle one is taken.
    """
    slope, offset = _platt(margins, labels)
    probabilities = logistic(slope * margins + offset)
    return Classifier(
        weights=model.weights, bias=model.bias, slope=slope, offset=offset,
        threshold=cheapest_threshold(probabilities, labels, settings or Settings()),
    )  # fmt: skip


def cheapest_threshold(probabilities: Floats, labels: Bools, settings: Settings) -> float:
    """The probability from which on to say yes, so that the two kinds of mistakes cost least together."""
    order = np.argsort(probabilities, kind="stable")
    sorted_ones, positive = probabilities[order], labels[order]
    missed = np.concatenate([[0], np.cumsum(positive)]) * settings.cost_false_negative
    alarms = np.concatenate([[0], np.cumsum(~positive)])
    cost = missed + (alarms[-1] - alarms) * settings.cost_false_positive
    is_cut = np.concatenate([[True], np.diff(sorted_ones) > 0, [True]])
    best = np.flatnonzero(is_cut & (cost == cost[is_cut].min()))
    cut = int(best[best.size // 2])
    below = sorted_ones[cut - 1] if cut else 0.0
    above = sorted_ones[cut] if cut < sorted_ones.size else 1.0
    return float((below + above) / 2.0)


def logistic(values: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)), dtype=np.float64)


def _platt(margins: Floats, labels: Bools) -> tuple[float, float]:
    from scipy import optimize

    num_yes, num_no = int(labels.sum()), int((~labels).sum())
    target = np.where(labels, (num_yes + 1.0) / (num_yes + 2.0), 1.0 / (num_no + 2.0))

    def loss(point: Floats) -> tuple[float, Floats]:
        values = point[0] * margins + point[1]
        residual = logistic(values) - target
        total = np.logaddexp(0.0, values) - target * values
        return float(total.sum()), np.array([residual @ margins, residual.sum()])

    found = optimize.minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B")
    return float(found.x[0]), float(found.x[1])
