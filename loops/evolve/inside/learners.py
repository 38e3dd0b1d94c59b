"""Five small classifiers in numpy, for the tasks on data. x_ND features, y_N labels as integers 0..C-1."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FOLDS = 4
MODELS = ("centroid", "knn", "ridge", "tree", "bayes")


def read_table(path: Path) -> tuple[Floats, list[str]]:
    """Features, and the last column as text where the header calls it `label`."""
    with path.open(newline="") as file:
        header, *rows = list(csv.reader(file))
    labelled = header[-1] == "label"
    width = len(header) - labelled
    return np.array([[float(cell) for cell in row[:width]] for row in rows]), [row[-1] for row in rows] * labelled


def fit_predict(folder: Path, model: str, setting: float, scale: bool, seed: int) -> tuple[float, list[str]]:
    """Accuracy by cross-validation on train.csv, and labels for test.csv. KeyError for an unknown model."""
    x_ND, labels = read_table(folder / "train.csv")
    test_MD, _ = read_table(folder / "test.csv")
    names = sorted(set(labels))
    y_N = np.array([names.index(label) for label in labels])
    order = np.random.default_rng(seed).permutation(len(y_N))
    hits = 0
    for fold in range(_FOLDS):
        held = order[fold::_FOLDS]
        kept = np.setdiff1d(order, held)
        hits += int(
            (_predicted(model, setting, scale, x_ND[kept], y_N[kept], x_ND[held], len(names)) == y_N[held]).sum()
        )
    guess = _predicted(model, setting, scale, x_ND, y_N, test_MD, len(names))
    return hits / len(y_N), [names[index] for index in guess]


def _predicted(model: str, setting: float, scale: bool, x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int) -> Ints:
    if scale:
        mean, spread = x_ND.mean(axis=0), x_ND.std(axis=0) + 1e-9
        x_ND, t_MD = (x_ND - mean) / spread, (t_MD - mean) / spread
    functions = {"centroid": _centroid, "knn": _knn, "ridge": _ridge, "tree": _tree, "bayes": _bayes}
    return functions[model](x_ND, y_N, t_MD, classes, setting)


def _centroid(x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int, setting: float) -> Ints:
    means = np.stack(
        [x_ND[y_N == each].mean(axis=0) if (y_N == each).any() else x_ND[0] * 1e9 for each in range(classes)]
    )
    return np.asarray(((t_MD[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1), dtype=np.int64)


def _knn(x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int, setting: float) -> Ints:
    near = ((t_MD[:, None] - x_ND[None]) ** 2).sum(axis=2).argsort(axis=1, kind="stable")[:, : max(1, int(setting))]
    votes = np.stack([(y_N[near] == each).sum(axis=1) for each in range(classes)], axis=1)
    return np.asarray(votes.argmax(axis=1), dtype=np.int64)


def _ridge(x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int, setting: float) -> Ints:
    design = np.hstack([x_ND, np.ones((len(x_ND), 1))])
    targets = np.eye(classes)[y_N]
    weights = np.linalg.solve(design.T @ design + setting * np.eye(design.shape[1]), design.T @ targets)
    return np.asarray((np.hstack([t_MD, np.ones((len(t_MD), 1))]) @ weights).argmax(axis=1), dtype=np.int64)


def _bayes(x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int, setting: float) -> Ints:
    scores = []
    for each in range(classes):
        rows = x_ND[y_N == each] if (y_N == each).any() else x_ND
        spread = rows.var(axis=0) + 1e-3
        scores.append(-0.5 * (((t_MD - rows.mean(axis=0)) ** 2) / spread + np.log(spread)).sum(axis=1))
    return np.asarray(np.stack(scores, axis=1).argmax(axis=1), dtype=np.int64)


def _tree(x_ND: Floats, y_N: Ints, t_MD: Floats, classes: int, setting: float) -> Ints:
    root = _grown(x_ND, y_N, classes, int(setting))
    return np.array([_leaf(root, row) for row in t_MD], dtype=np.int64)


def _leaf(node: Any, row: Floats) -> int:
    while isinstance(node, tuple):
        column, cut, low, high = node
        node = low if row[column] <= cut else high
    return int(node)


def _grown(x_ND: Floats, y_N: Ints, classes: int, depth: int) -> Any:
    """A tree of (column, cut, low, high) by Gini impurity over four cuts a column (Breiman et al. 1984)."""
    counts = np.bincount(y_N, minlength=classes)
    if depth == 0 or counts.max() == len(y_N) or len(y_N) < 4:
        return int(counts.argmax())
    cuts_KD = np.quantile(x_ND, (0.2, 0.4, 0.6, 0.8), axis=0)
    low_KND = x_ND[None] <= cuts_KD[:, None]
    below_KDC = np.einsum("knd,nc->kdc", low_KND.astype(np.float64), np.eye(classes)[y_N])
    above_KDC = counts - below_KDC
    cost_KD = sum(side.sum(2) - (side**2).sum(2) / np.maximum(side.sum(2), 1e-9) for side in (below_KDC, above_KDC))
    row, column = np.unravel_index(int(np.argmin(cost_KD)), cost_KD.shape)
    low = low_KND[row, :, column]
    if low.all() or not low.any():
        return int(counts.argmax())
    grown = (_grown(x_ND[side], y_N[side], classes, depth - 1) for side in (low, ~low))
    return int(column), float(cuts_KD[row, column]), *grown
