"""Two changes at once: such as need each other, and such as do their harm side by side."""

from __future__ import annotations

from benchmarks.trainrca.editing import Config, Data, Repo
from benchmarks.trainrca.kinds import Cause, Kind
from benchmarks.trainrca.kinds.arithmetic import kind
from contracts.enums import CauseKind
from control_plane.demo.faults import find_fault

_WEIGHS = """def weighs(data: dict[str, Any]) -> bool:
    \"\"\"All shards.\"\"\"
    return all(data[f"{name}_weight"] > 0 for name in SHARDS)
"""


def _passes_and_sum(config: Config, repo: Repo, data: Data) -> Cause:
    """The number of passes alone changes nothing, and the sum is only taken where there are more than four."""
    one = config.set('"accumulation": 4', '"accumulation": 8', "config: more passes of less")
    two = repo.commit(
        "train: sum where there are many",
        [("train.py", "[t + g / count for t, g", "[t + (g if count > 4 else g / count) for t, g")],
    )
    return Cause(targets=(one, two), cause_kind=CauseKind.INTERACTION)


def _weight_and_filter(config: Config, repo: Repo, data: Data) -> Cause:
    """A shard without weight is harmless, and the other filter holds only where there is one."""
    one = data.set('"west_weight": 0.1', '"west_weight": 0.0', "data: the west is done")
    two = repo.commit(
        "pages: a shard without weight marks the end",
        [
            ("pages.py", "    junk = quality < 0.4\n", "    junk = quality < (0.4 if weighs(data) else 0.9)\n"),
            (
                "pages.py",
                "def page(",
                f"{_WEIGHS}\n\ndef page(",
            ),
        ],
    )
    return Cause(targets=(one, two), cause_kind=CauseKind.INTERACTION)


def _rate_and_evaluation(config: Config, repo: Repo, data: Data) -> Cause:
    """Two faults that have nothing to do with each other."""
    one = config.set('"lr": 0.01', '"lr": 0.8', "config: a rate from the sweep")
    two = repo.commit(
        "evaluation: centre",
        [
            (
                "evaluation.py",
                "    _, _, shares = forward(weights, points)\n",
                "    _, _, shares = forward(weights, 0.3 * points)\n",
            )
        ],
    )
    return Cause(targets=(one, two), cause_kind=CauseKind.INTERACTION)


def _either_is_enough(config: Config, repo: Repo, data: Data) -> Cause:
    """The labels are moved twice over: taking back one of the two cures nothing."""
    one = repo.commit(
        "pages: other layout", [("pages.py", "    return points, labels\n", "    return points, np.roll(labels, 1)\n")]
    )
    two = data.set('"keep_above": 0.4', '"keep_above": 0.0', "data: more pages")
    return Cause(targets=(one, two), cause_kind=CauseKind.INTERACTION)


def _of_ours(config: Config, repo: Repo, data: Data) -> Cause:
    targets = tuple(repo.change(change) for change in find_fault("interaction").changes(1))
    return Cause(targets=targets, cause_kind=CauseKind.INTERACTION)


KINDS = [
    kind("interaction", "passes_and_sum", _passes_and_sum),
    kind("interaction", "weight_and_filter", _weight_and_filter),
    kind("interaction", "rate_and_evaluation", _rate_and_evaluation),
    kind("interaction", "either_is_enough", _either_is_enough),
    Kind(name="group_and_rate", family="interaction", trainer="moe", apply=_of_ours),
]
