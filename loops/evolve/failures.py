"""Why episodes failed, read from their traces; every statement names the traces it rests on.

The critique of a round is these findings, the most frequent first. A model may add its own (proposer.py), and what it
says without the id of a trace that exists is dropped: reflection alone has not been seen to help.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.evolve.evaluation import Job, Outcome
from loops.evolve.inside.grade import GAVE_UP, GUESSED, OTHERS

_REPEATS = 3  # the same action so often is a repetition
_READS = 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One cause of failures. `traces`: ids of the episodes that show it."""

    cause: str
    sentence: str
    traces: tuple[str, ...]


def trace_id(commit: str, job: Job) -> str:
    return f"{commit[:12]}/{job.task}/{job.seed}"


def analysed(commit: str, outcomes: Sequence[Outcome]) -> list[Finding]:
    """Findings over the failed episodes, the most frequent first."""
    failed = [outcome for outcome in outcomes if outcome.score < 1.0]
    found = []
    for cause, (sentence, shows) in _CAUSES.items():
        traces = tuple(trace_id(commit, outcome.job) for outcome in failed if shows(outcome))
        if traces:
            text = f"{sentence} in {len(traces)} of {len(failed)} failed episodes"
            found.append(Finding(cause=cause, sentence=text, traces=traces))
    return sorted(found, key=lambda each: (-len(each.traces), each.cause))


def _actions(outcome: Outcome) -> list[Mapping[str, Any]]:
    return [entry["action"] for entry in outcome.trace if entry["op"] == "ask"]


def _repeats(outcome: Outcome) -> bool:
    counts = Counter(
        json.dumps(action, sort_keys=True)
        for action in _actions(outcome)
        if action.get("tool") in ("edit", "shell", "fit", "list_files")
    )
    return any(count >= _REPEATS for count in counts.values())


def _reads(outcome: Outcome) -> bool:
    return [action.get("tool") for action in _actions(outcome)].count("read_file") >= _READS


def _says(*words: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(word in str(entry.get("text", "")) for entry in outcome.trace for word in words)


def _unread(outcome: Outcome) -> bool:
    return any("error" in action for action in _actions(outcome))


def _housekeeping(outcome: Outcome) -> bool:
    """More than half of the asks went to testing, undoing and reading."""
    actions = _actions(outcome)
    upkeep = sum(action.get("tool") in ("run_tests", "undo", "read_file") for action in actions)
    return len(actions) >= 8 and upkeep > len(actions) / 2


def _without_check(outcome: Outcome) -> bool:
    return outcome.ended == "submitted" and 0 < outcome.asks <= 4


def _graded(why: str) -> Callable[[Outcome], bool]:
    return lambda outcome: outcome.why == why


_CAUSES: Mapping[str, tuple[str, Callable[[Outcome], bool]]] = {
    "repeats": ("the same action was chosen again and again", _repeats),
    "out of asks": ("the asks were spent before the work was done", lambda outcome: outcome.ended == "out of asks"),
    "housekeeping": ("most asks went to testing, undoing and reading", _housekeeping),
    "lost": ("the file was read again because it was no longer in view", _reads),
    "too long": ("the view was longer than the brain reads", _unread),
    "temporary": ("a command failed for the moment only, and was given up", _says("RAN exit=75")),
    "handed in early": ("it was handed in after few asks", _without_check),
    "guessed": ("a question that nobody can answer was answered", _graded(GUESSED)),
    "gave up": ("it was said to be unknown, and it was known", _graded(GAVE_UP)),
    "named others": ("others were named than was right", _graded(OTHERS)),
    "crashed": ("the scaffold ended by itself", lambda outcome: outcome.ended in ("returned", "lost")),
}
CAUSES = tuple(_CAUSES)
