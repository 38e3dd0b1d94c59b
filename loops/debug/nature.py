"""What a finding looks like by itself, before or without any re-run: infrastructure, measurement, benign, a resume.

Observed, never proven: the words go into a verdict that cannot tell the cause, and are said to be no more than a look.
The class itself is stored with the case (`stored_nature`), for whoever counts or filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from context_store import Store
from context_store.records import Anomaly


class Nature(StrEnum):
    """Classes of findings whose look says where to search; a change of code may still be behind each."""

    INFRASTRUCTURE = "infrastructure"
    MACHINE = "machine"
    MEASUREMENT = "measurement"
    BENIGN = "benign"
    RESUME = "resume"


_BY_KIND = {
    "throughput": Nature.INFRASTRUCTURE,
    "no_data": Nature.INFRASTRUCTURE,
    "self_check": Nature.MACHINE,
    "eval_break": Nature.MEASUREMENT,
    "masked_non_finite": Nature.MEASUREMENT,
    "vanished": Nature.MEASUREMENT,
    "spike": Nature.BENIGN,
    "resume": Nature.RESUME,
    "fork_departure": Nature.RESUME,
}
_KIND = "nature"
_TIMED = ("step_time", "tokens_per_second", "iteration_time", "tflops")
_WORDS = {
    Nature.INFRASTRUCTURE: (
        "it looks like infrastructure: speed or presence moved and nothing that is learned",
        "a re-run on another machine that is as slow, or a change that makes this one fast again",
    ),
    Nature.MACHINE: (
        "it looks like a machine that computes wrong values: fixed numbers give another result there",
        "the same result on that machine as on the others, or the wrong one wherever the rank runs",
    ),
    Nature.MEASUREMENT: (
        "it looks like a measurement artefact: what is logged changed, while what is learned goes on",
        "the same weights measured by the code of before and giving the new value",
    ),
    Nature.BENIGN: (
        "it looks benign for what was learned: the loss came back by itself",
        "a loss that stays higher than before it, or more of these in shorter distances",
    ),
    Nature.RESUME: (
        "it looks like a start from a checkpoint that did not restore everything",
        "the same checkpoint restored whole, and the same course all the same",
    ),
}


def nature_of(anomalies: Sequence[Anomaly]) -> Nature | None:
    """The one nature that all findings of a case share; None when any of them says something about the training."""
    found = {_of(anomaly) for anomaly in anomalies}
    return found.pop() if len(found) == 1 else None


def store_nature(store: Store, case_id: str, nature: Nature, at: float) -> None:
    """Once for a case: its findings do not change."""
    store.casework.put(case_id, _KIND, _KIND, {_KIND: nature.value}, at)


def stored_nature(store: Store, case_id: str) -> Nature | None:
    """None for a case whose cause was proven, or whose findings have no one nature."""
    found = store.casework.list(case_id, _KIND)
    return Nature(found[0].body[_KIND]) if found else None


def in_words(nature: Nature) -> tuple[str, str]:
    """(what it looks like, what would overturn that)."""
    return _WORDS[nature]


def _of(anomaly: Anomaly) -> Nature | None:
    if anomaly.kind == "rank_departure" and all(name.startswith(_TIMED) for name in anomaly.series):
        return Nature.INFRASTRUCTURE
    return _BY_KIND.get(anomaly.kind)
