"""From answers and truths to the figures: every rate as value, k/N and 95 % bounds. Nothing is judged by eye."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from benchmarks.trainrca.answers import Answer
from benchmarks.trainrca.form import Truth
from contracts.enums import Verdict

_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Graded:
    """One answer beside its truth."""

    truth: Truth
    answer: Answer

    @property
    def is_exact(self) -> bool:
        return bool(self.truth.targets) and set(self.answer.named) == set(self.truth.targets)

    def within(self, count: int) -> bool:
        """A target is among the first `count` suspects."""
        return bool(set(self.answer.ranking[:count]) & set(self.truth.targets))

    @property
    def over_claims(self) -> bool:
        """It asserts a cause, and not exactly the true one; where nobody can tell, every assertion."""
        return bool(self.answer.named) and (self.truth.answer != "cause" or not self.is_exact)

    @property
    def is_found(self) -> bool:
        return self.answer.verdict != Verdict.NOTHING_FOUND

    @property
    def is_right(self) -> bool:
        """What the case asks for: the exact cause, silence, or "cannot tell"."""
        if self.truth.answer == "cause":
            return self.is_exact
        wanted = Verdict.NOTHING_FOUND if self.truth.answer == "nothing" else Verdict.CANNOT_TELL
        return self.answer.verdict == wanted


def rate(hits: int, total: int) -> dict[str, Any]:
    """Value, k/N and both 95 % bounds (Clopper and Pearson 1934); value None without a case."""
    if not total:
        return {"value": None, "of": "0/0", "low": 0.0, "high": 1.0}
    tail = (1.0 - _CONFIDENCE) / 2.0
    low = float(stats.beta.ppf(tail, hits, total - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(1.0 - tail, hits + 1, total - hits)) if hits < total else 1.0
    return {"value": hits / total, "of": f"{hits}/{total}", "low": round(low, 4), "high": round(high, 4)}


def grade(rows: Sequence[Graded]) -> dict[str, Any]:
    """The figures of one method."""
    faults = [row for row in rows if row.truth.answer == "cause"]
    healthy = [row for row in rows if row.truth.answer == "nothing"]
    hopeless = [row for row in rows if row.truth.answer == "cannot_tell"]
    broken = [row for row in rows if row.truth.answer != "nothing"]
    proven = [row for row in faults if row.answer.verdict == Verdict.PROVEN and row.is_exact]
    tried = [row for row in faults if row.answer.fix_held is not None]
    delays = [row.answer.found_at - row.truth.first_step for row in broken if row.answer.found_at is not None]
    return {
        "cases": len(rows),
        "top1": _share(faults, lambda row: row.within(1)),
        "top3": _share(faults, lambda row: row.within(3)),
        "exact_set": _share(faults, lambda row: row.is_exact),
        "proven_right": rate(len(proven), len(faults)),
        "over_claims": _share(rows, lambda row: row.over_claims),
        "false_alarms": _share(healthy, lambda row: row.is_found),
        "detected": _share(broken, lambda row: row.is_found),
        "cannot_tell_right": _share(hopeless, lambda row: row.is_right),
        "detection_delay_steps": _median(delays),
        "fix_held": _share(tried, lambda row: bool(row.answer.fix_held)),
        "reruns_median": _median([row.answer.reruns for row in faults]),
        "seconds_median": _median([row.answer.seconds for row in faults]),
    }


def by_kind(rows: Sequence[Graded]) -> dict[str, dict[str, Any]]:
    """Right answers of each kind, the worst first."""
    kinds: dict[str, list[Graded]] = {}
    for row in rows:
        kinds.setdefault(row.truth.kind, []).append(row)
    found = {kind: _share(of, lambda row: row.is_right) for kind, of in kinds.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1]["value"], item[0])))


def with_memory(off: Mapping[str, Graded], on: Mapping[str, Graded]) -> dict[str, Any]:
    """Both arms over the cases of groups. `misled`: a wrong assertion with memory where there was none without."""
    repeats = [case for case in on if on[case].truth.recurrence == "repeat" and case in off]
    alike = [case for case in on if on[case].truth.recurrence == "look_alike" and case in off]
    ratios = [on[c].answer.reruns / off[c].answer.reruns for c in repeats if off[c].answer.reruns]
    both = [*repeats, *alike]
    return {
        "probes_on_over_off": {"value": _median(ratios), "of": len(ratios)},
        "top1_on": rate(sum(on[c].within(1) for c in both), len(both)),
        "top1_off": rate(sum(off[c].within(1) for c in both), len(both)),
        "misled": rate(sum(on[c].over_claims and not off[c].over_claims for c in alike), len(alike)),
    }


def _share(rows: Sequence[Graded], holds: Callable[[Graded], bool]) -> dict[str, Any]:
    return rate(sum(holds(row) for row in rows), len(rows))


def _median(values: Sequence[float]) -> float | None:
    return float(statistics.median(values)) if values else None
