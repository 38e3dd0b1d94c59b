"""The planner on worlds that are one function: which changes in force show how much of the anomaly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from contracts.enums import CauseKind, DiagnosticKind, Verdict
from loops.debug.facts import Decision, Facts, Identity, On, Option, Seen
from loops.debug.planner import next_step, refuted, unnecessary, why_next

P, A, X = Seen.PRESENT, Seen.ABSENT, Seen.IMPOSSIBLE


def decide(keys: Sequence[str], world: Callable[[On], Seen], inert: On = frozenset()) -> tuple[Decision, Facts]:
    """Run what the planner asks for until it decides. `keys`: changes, most suspicious first and oldest first."""
    seen: dict[Identity, Seen] = {}
    options = tuple(Option(key=key, title=key, cause_kind=CauseKind.CODE) for key in keys)
    facts = Facts(ranked=options, chronological=tuple(keys), placebos=tuple(reversed(keys)), seen=seen.get, inert=inert)
    for _ in range(20):
        step = next_step(facts)
        if isinstance(step, Decision):
            return step, facts
        assert all(experiment.identity not in seen for experiment in step)
        seen.update({experiment.identity: world(experiment.on) for experiment in step})
    raise AssertionError("the planner does not come to an end")


def table(rest: Seen, cells: Mapping[str, Seen]) -> Callable[[On], Seen]:
    """What each set shows; `rest` for those that are not named."""
    return lambda on: cells.get("".join(sorted(on)), rest)


def test_one_cause_is_proven_and_the_others_are_excluded() -> None:
    decision, facts = decide("ABC", lambda on: P if "B" in on else A)
    assert (decision.verdict, decision.cause) == (Verdict.PROVEN, ("B",))
    assert decision.placebo in {"A", "C"}
    assert "B" not in refuted(facts, decision)
    assert "A" in refuted(facts, decision)


def test_a_cause_is_not_proven_alone_when_leaving_out_another_change_cures_as_well() -> None:
    """Reverting A cures and adding it brings the anomaly about, but reverting B cures, too."""
    decision, facts = decide("BAC", table(P, {"": A, "BC": A, "AC": A, "B": A, "C": A}))
    assert decision.verdict is Verdict.CANNOT_TELL
    decision, facts = decide("ACB", table(P, {"": A, "BC": A, "AC": A, "B": A, "C": A}))
    assert decision.verdict is Verdict.CANNOT_TELL
    assert "leaving out B cures as well" in decision.reason
    assert refuted(facts, decision) == ()


@pytest.mark.parametrize("keys", ["AB", "ABC", "CAB"])
def test_of_two_redundant_causes_neither_is_excluded(keys: str) -> None:
    """Shows R801-2.5: an exclusion is stored only when it is true."""
    decision, facts = decide(keys, lambda on: P if {"A", "B"} & on else A)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert not {"A", "B"} & set(refuted(facts, decision))
    assert set(unnecessary(facts)) & {"A", "B"}


def test_two_changes_that_need_each_other_are_proven_together() -> None:
    """Shows R801-2.9."""
    decision, _ = decide("ACB", lambda on: P if {"A", "B"} <= on else A)
    assert (decision.verdict, set(decision.cause)) == (Verdict.PROVEN, {"A", "B"})


def test_part_of_the_anomaly_decides_nothing() -> None:
    """A and B bring about half of it each."""
    decision, facts = decide("ABC", lambda on: (A, Seen.PARTIAL, P)[len({"A", "B"} & on)])
    assert decision.verdict is Verdict.CANNOT_TELL
    assert "more than one change contributes" in decision.reason
    assert not {"A", "B"} & set(refuted(facts, decision))


def test_a_change_that_cannot_be_left_out_is_not_said_to_cure() -> None:
    """The code does not run without A, and the anomaly appears with it."""
    decision, _ = decide("CBA", lambda on: X if on == {"B", "C"} else P if "A" in on else A)
    assert decision.verdict is Verdict.CANNOT_TELL
    decision, _ = decide("CAB", lambda on: X if on == {"B", "C"} else P if "A" in on else A)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert "leaving it out cures" not in decision.reason
    assert "cannot be run without it" in decision.reason


def test_a_replay_that_could_not_be_run_is_not_said_to_be_well() -> None:
    decision, _ = decide("AB", lambda _: X)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert "could not be run again" in decision.reason


def counted(world: Callable[[On], Seen]) -> tuple[Callable[[On], Seen], list[On]]:
    """The world, and a list of what was run in it."""
    ran: list[On] = []

    def run(on: On) -> Seen:
        ran.append(on)
        return world(on)

    return run, ran


@pytest.mark.parametrize("culprit", [0, 1, 64, 129])
def test_many_suspects_are_bisected(culprit: int) -> None:
    """Shows R801-3.4 at its size: of 130 changes the one at fault is found in few re-runs, wherever it ranks."""
    keys = [f"c{number:03}" for number in range(130)]
    world, ran = counted(lambda on: P if keys[culprit] in on else A)
    decision, _ = decide(keys, world)
    assert (decision.verdict, decision.cause) == (Verdict.PROVEN, (keys[culprit],))
    assert len(ran) <= 20


def test_what_stands_out_is_left_out_alone_and_what_does_not_is_halved() -> None:
    """Shows the choice by chance for its price: the same nine changes, with and without one that ranks far above."""
    for weights, expected in (([1.0] * 9, DiagnosticKind.ADD), ([8.0] + [1.0] * 8, DiagnosticKind.REVERT)):
        seen: dict[Identity, Seen] = {}
        keys = [f"c{number}" for number in range(9)]
        options = tuple(
            Option(key=key, title=key, cause_kind=CauseKind.CODE, weight=weight)
            for key, weight in zip(keys, weights, strict=True)
        )
        facts = Facts(ranked=options, chronological=tuple(keys), placebos=(), seen=seen.get)
        seen.update({Identity(on=frozenset(keys)): P, Identity(on=frozenset()): A})
        step = next_step(facts)
        assert not isinstance(step, Decision)
        assert step[0].kind is expected
        why = why_next(facts, step, 12.0)
        assert ("a chance of 0.50, where halving 9 changes takes 5" in why) == (expected is DiagnosticKind.REVERT)
        assert ("no single change stands out" in why) == (expected is DiagnosticKind.ADD)


def test_no_re_run_is_spent_on_what_nothing_reads() -> None:
    keys = [f"c{number:02}" for number in range(40)]
    with_all, all_ran = counted(lambda on: P if keys[20] in on else A)
    decide(keys, with_all)
    without, ran = counted(lambda on: P if keys[20] in on else A)
    decision, _ = decide(keys, without, inert=frozenset({*keys[:19], *keys[22:]}))
    assert decision.cause == (keys[20],)
    assert len(ran) < len(all_ran)
