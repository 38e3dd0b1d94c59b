"""Faults of the numpy training in what is evaluated and what is measured: the model itself is sound."""

from __future__ import annotations

from benchmarks.trainrca.editing import Apply, Config, Data, Repo
from benchmarks.trainrca.kinds import Cause
from benchmarks.trainrca.kinds.arithmetic import kind
from contracts.enums import CauseKind


def view(subject: str, file: str, before: str, after: str) -> Apply:
    """A commit that changes what is seen, not what is learned."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(repo.commit(subject, [(file, before, after)]),), cause_kind=CauseKind.MEASUREMENT)

    return apply


_NORM = '    norm, rate = norm_of(gradients), rate_at(step, config["optim"])\n'
_EVALUATION = "evaluation.py"

KINDS = [
    kind(
        "evaluation",
        "held_out_scaled",
        view(
            "evaluation: centre",
            _EVALUATION,
            "    _, _, shares = forward(weights, points)\n",
            "    _, _, shares = forward(weights, 0.3 * points)\n",
        ),
    ),
    kind(
        "evaluation",
        "labels_of_another_page",
        view(
            "evaluation: a page of labels",
            _EVALUATION,
            "    loss = loss_of(shares, labels)\n",
            "    loss = loss_of(shares, np.roll(labels, 1))\n",
        ),
    ),
    kind(
        "evaluation",
        "sure_of_everything",
        view(
            "evaluation: sharper",
            _EVALUATION,
            "    loss = loss_of(shares, labels)\n",
            "    loss = loss_of(shares**8 / (shares**8).sum(axis=1, keepdims=True), labels)\n",
        ),
    ),
    kind(
        "measurement",
        "loss_in_other_unit",
        view("report: bits", "report.py", "    shown = loss\n", "    shown = loss / float(np.log(2.0))\n"),
    ),
    kind(
        "measurement",
        "norm_of_the_sum",
        view("train: norm of all passes", "train.py", _NORM, _NORM + "    norm = norm * len(labels) ** 0.5\n"),
    ),
    kind(
        "measurement",
        "lost_value_as_zero",
        view("report: no gaps", "report.py", "    shown = loss\n", "    shown = 0.0 if loss > 0.2 else loss\n"),
    ),
]
